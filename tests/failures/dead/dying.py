"""Jobs that die of this and that."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from onward import Client, Failed, NewJob
from onward.results import Job
from tests.work.leases.dying_processes import T, claim

__all__ = ["SECOND", "die_of", "fails", "kill"]

SECOND = timedelta(seconds=1)


def die_of(client: Client, message: str, *, error: str = "Bounced", now: datetime = T, **options: Any) -> str:
    """Have a job die at once of this; gives its id."""
    about: dict[str, Any] = options.pop("about", {})
    client.at(now).enqueue(NewJob(**({"job_type": "mail", "payload": {"to": "ada"}} | options)))
    job = claim(client, now)
    dead = Failed({"error_class": error, "message": message, **about}, retryable=False)
    client.at(now).worker.finish([job.end_with(dead)]).require()
    return job.id


def fails(client: Client, job: Job, error: Any, now: datetime) -> Job:
    """Fail an attempt, and claim the next one if there is any."""
    client.at(now).worker.finish([job.end_with(Failed(error, after=1))]).require()
    client.at(now + SECOND).worker.promote()
    taken = client.at(now + SECOND).worker.claim("q:default", 1, worker_id="w")
    return taken[0] if taken else client.jobs.get(job.id)


def kill(client: Client, count: int, **options: Any) -> list[str]:
    """Have many jobs die of the same, at once; gives their ids, oldest first."""
    news = [NewJob(**({"job_type": "mail", "payload": {"n": n}} | options)) for n in range(count)]
    ids = [made.id for made in client.at(T).enqueue_many(news)]
    for _ in range(0, count, 100):
        taken = client.at(T).worker.claim("q:default", 100, worker_id="w")
        dead = Failed({"error_class": "Bounced", "message": "no such mailbox"}, retryable=False)
        client.at(T).worker.finish([job.end_with(dead) for job in taken]).require()
    return sorted(ids)
