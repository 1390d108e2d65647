"""Runs of a job, one after the other, as its handler sees them."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from uuid import uuid4

from onward import Context, Failed, NewJob, Onward, Succeeded
from onward.worker.attempts.attempt import Running
from tests.work.effects.effect_jobs import pay

__all__ = ["Runs"]

_YEARS = timedelta(days=1000)


class Runs:
    """Starts jobs of an application, fails them and starts them again."""

    def __init__(self, app: Onward) -> None:
        self.app = app
        self.client = app.client

    def start(self, **fields: Any) -> Context:
        """Give the Context of a new job that runs."""
        self.client.enqueue(NewJob(**{"job_type": "t", **fields}))
        return self.claim()

    def claim(self) -> Context:
        """Give the Context of the job that waits, for a worker of its own."""
        self.client.worker.register(worker := uuid4().hex, lease=_YEARS)
        [job] = self.client.worker.claim("q:default", worker_id=worker)
        return Context(Running(job, pay.handler), self.app.clients)

    def retry(self, ctx: Context) -> Context:
        """Fail a run, and give the next."""
        self.client.worker.finish([ctx.job.end_with(Failed("no luck", after=0))]).require()
        return self.claim()

    def crash(self, ctx: Context) -> Context:
        """Take a job from a worker that still runs it, and give its next run."""
        self.client.worker.rescue_worker(str(ctx.job.worker_id)).require()
        self.client.at(ctx.job.created_at + _YEARS).worker.promote()
        return self.claim()

    def end(self, ctx: Context) -> None:
        """Have a run succeed."""
        self.client.worker.finish([ctx.job.end_with(Succeeded())]).require()
