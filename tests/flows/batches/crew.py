"""Batches of plain jobs, and a worker that brings them to their ends one by one."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from typing import Any
from uuid import uuid4

from onward import Client, Failed, JobFilter, NewJob, Outcome, Succeeded
from onward.results import Batch, Job

__all__ = ["DEAD", "Crew", "new"]

DEAD = Failed({"error_class": "Broken", "message": "no"}, retryable=False)


def new(name: str = "work", **fields: Any) -> NewJob:
    """Give a job."""
    return NewJob(job_type=name, **fields)


class Crew:
    """Makes batches, claims all that waits, and ends what it is told to."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.held: dict[str, Job] = {}
        self.worker = uuid4().hex
        client.worker.register(self.worker, lease=timedelta(days=1000))

    def batch(self, jobs: int | Iterable[NewJob] = 3, **options: Any) -> tuple[str, list[str]]:
        """Make a batch with all three callbacks; gives its id and those of its jobs."""
        named = {name: new(name, queue="q:after") for name in ("on_success", "on_failure", "on_complete")}
        asked = [new() for _ in range(jobs)] if isinstance(jobs, int) else list(jobs)
        made = self.client.batches.enqueue(asked, **(named | options))
        return made.id, [one.id for one in made.jobs]

    def claim(self) -> list[Job]:
        """Take all that is ready."""
        jobs = self.client.worker.claim("q:default", 1000, worker_id=self.worker)
        self.held |= {job.id: job for job in jobs}
        return jobs

    def end(self, *ids: str, outcome: Outcome | None = None) -> None:
        """Run jobs to this end, each by itself."""
        self.claim()
        for job_id in ids:
            self.client.worker.finish([self.held.pop(job_id).end_with(outcome or Succeeded())]).require()

    def counts(self, batch_id: str) -> tuple[int, int, int, int, int]:
        """Tell waiting, running, succeeded, dead and cancelled."""
        batch = self.read(batch_id)
        return batch.waiting, batch.running, batch.succeeded, batch.dead, batch.cancelled

    def read(self, batch_id: str) -> Batch:
        """Read a batch."""
        return self.client.batches.get(batch_id)

    def called(self) -> list[str]:
        """Name the callbacks that were enqueued, in order of their names."""
        return sorted(
            job.job_type for job in self.client.jobs.list(JobFilter(queue="q:after"), limit=100).items
        )
