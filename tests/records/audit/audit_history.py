"""Jobs whose audit has every kind of line, made by hand at one moment."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import count as counting
from typing import Any

from onward import Cancelled, Client, Failed, NewJob, Outcome, RateLimited, Released, Skip, Snooze, Succeeded
from onward.results import Job

__all__ = ["NOW", "OUTCOMES", "WHO", "claimed", "finished", "stale"]

NOW = datetime.now(UTC)
LEASE = timedelta(hours=1)
_numbers = counting()

WHO: dict[str, Any] = {
    "org_id": "acme", "project_id": "p1", "actor_type": "user", "actor_id": "42", "request_id": "req",
    "correlation_id": "cor",
}  # fmt: skip

OUTCOMES: dict[str, Outcome] = {
    "job.succeeded": Succeeded({"n": 1}),
    "job.skipped": Skip("nothing to do"),
    "job.failed": Failed({"error_class": "E", "message": "hush"}),
    "job.deadlettered": Failed({"error_class": "E", "message": "hush"}, retryable=False),
    "job.snoozed": Snooze(timedelta(minutes=1)),
    "job.rate_limited": RateLimited(timedelta(minutes=1), {"error_class": "E"}),
    "job.released": Released(),
    "job.cancelled": Cancelled("gave way"),
}


def claimed(client: Client, count: int = 1, **fields: Any) -> list[Job]:
    """Jobs of a queue of their own, held by a worker of their own."""
    name = f"w{next(_numbers)}"
    client.worker.register(name, lease=LEASE)
    client.enqueue_many([NewJob(job_type="t", queue=name, **{**WHO, **fields})] * count)
    return client.worker.claim(name, count, worker_id=name)


def finished(client: Client) -> dict[str, Job]:
    """One job for each outcome, finished together, by the event that it should have left."""
    jobs = claimed(client, len(OUTCOMES))
    client.worker.finish(
        [job.end_with(outcome) for job, outcome in zip(jobs, OUTCOMES.values(), strict=True)]
    ).require()
    return dict(zip(OUTCOMES, jobs, strict=True))


def stale(client: Client, **fields: Any) -> Job:
    """A job as its last holder sees it, although it was given back and claimed again since."""
    [job] = claimed(client, **fields)
    client.worker.release([job.held_lease]).require()
    [again] = client.worker.claim(job.queue, worker_id=str(job.worker_id))
    assert again.lease > job.lease
    return job
