"""Jobs that die, and the ways in which a death is resolved."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from onward import Client, DeadFilter, Edit, Failed, JobNotFound, NewJob
from onward.errors import AlreadyResolved
from onward.results import Bulk, Job

__all__ = [
    "DEAD",
    "LATER",
    "RESOLVE",
    "T",
    "claim",
    "die",
    "discard",
    "events",
    "fixes",
    "replay",
    "waiting",
]

T = datetime(2026, 3, 1, tzinfo=UTC)
LATER = T + timedelta(hours=1)
DEAD = Failed({"error_class": "Bounced", "message": "no such mailbox", "hint": "ask"}, retryable=False)
ADA = "user:ada"


def claim(client: Client, now: datetime = T) -> Job:
    [job] = client.at(now).worker.claim("q:default", 1, worker_id="w")
    return job


def die(client: Client, outcome: Failed = DEAD, now: datetime = T, **options: Any) -> Job:
    """Have a job die; gives it as its worker had it."""
    client.at(now).enqueue(NewJob(**({"job_type": "mail", "payload": {"to": "ada", "n": [1]}} | options)))
    job = claim(client, now)
    client.at(now).worker.finish([job.end_with(outcome)]).require()
    return job


def replay(client: Client, *ids: str, **options: Any) -> Bulk:
    return client.at(LATER).acting_as(ADA).dead.replay(ids, reason="the server is back", **options)


def discard(client: Client, *ids: str) -> Bulk:
    return client.at(LATER).acting_as(ADA).dead.discard(ids, reason="not needed")


def waiting(client: Client, **where: Any) -> list[str]:
    return [letter.job.id for letter in client.dead.list(DeadFilter(**where))]


def events(client: Client, job_id: str) -> list[str]:
    return [event.event for event in client.jobs.events(job_id)]


def fixes(client: Client, job_id: str, to: str = "bob") -> bool:
    try:
        client.at(LATER).dead.fix(job_id, Edit(patch={"to": to}), reason="n")
    except (AlreadyResolved, JobNotFound):
        return False
    return True


RESOLVE: dict[str, Callable[[Client, str], bool]] = {
    "replay": lambda client, job_id: bool(replay(client, job_id).done),
    "discard": lambda client, job_id: bool(discard(client, job_id).done),
    "fix": fixes,
}
