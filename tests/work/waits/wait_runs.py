"""Runs of a job that waits, as its handler sees them: it leaves its slot and comes back when it is due."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest

from onward import Context, Failed, NewJob, Onward
from onward.results import Job, Parked
from onward.worker.attempts.attempt import Running
from tests.work.effects.effect_jobs import pay

__all__ = ["NOW", "Runs"]

NOW = datetime.now(UTC)
_YEARS = timedelta(days=5000)


class Runs:
    """Starts jobs of an application, and has them claimed at the instants that a test names."""

    def __init__(self, app: Onward) -> None:
        self.app = app
        self.client = app.client

    def start(self, at: datetime = NOW, **fields: Any) -> Context:
        """Give the Context of a new job that runs since this instant."""
        self.client.at(at).enqueue(NewJob(**{"job_type": "t", **fields}))
        return self.claim(at)

    def claim(self, at: datetime) -> Context:
        """Give the Context of the job that is due, for a worker of its own."""
        [job] = self.claimed(at)
        return Context(Running(job, pay.handler), self.app.clients)

    def claimed(self, at: datetime) -> list[Job]:
        """Claim what is due."""
        self.client.at(at).worker.promote()
        self.client.worker.register(worker := uuid4().hex, lease=_YEARS)
        return self.client.at(at).worker.claim("q:default", 10, worker_id=worker)

    def leave(self, ctx: Context, wait: Callable[[], object], at: datetime = NOW) -> Any:
        """Have a wait park the job of a run, and write that as a worker does."""
        with pytest.raises(Parked) as left:
            wait()
        self.client.at(at).worker.finish([ctx.job.end_with(left.value)]).require()
        return left.value

    def retry(self, ctx: Context, at: datetime = NOW) -> Context:
        """Fail a run, and give the next."""
        self.client.at(at).worker.finish([ctx.job.end_with(Failed("no luck", after=0))]).require()
        return self.claim(at)
