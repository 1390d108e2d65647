"""Jobs of orgs, and claims of them without a worker."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from onward import Client, NewJob, Onward
from onward.core.jobs.job import Job
from tests.limits.queues.asking import Q

__all__ = ["Claims", "Q"]


class Claims:
    """Puts jobs into a queue, and claims from it."""

    def __init__(self, app: Onward) -> None:
        self.app = app
        self.client: Client = app.client
        self.client.worker.register("w", lease=timedelta(days=1))

    def put(self, org: str | None, count: int = 1, **about: Any) -> list[str]:
        """Enqueue jobs of an org."""
        jobs = [NewJob(job_type="t", queue=Q, org_id=org, payload={"n": n}, **about) for n in range(count)]
        return [enqueued.id for enqueued in self.client.enqueue_many(jobs)]

    def take(self, count: int, *, now: datetime | None = None, **about: Any) -> list[Job]:
        """Claim jobs."""
        return self.client.at(now).worker.claim(Q, count, worker_id="w", **about)

    def orgs(self, count: int, *, now: datetime | None = None, **about: Any) -> str:
        """Claim jobs and tell whose they are, in their order."""
        return "".join(job.org_id or "-" for job in self.take(count, now=now, **about))
