"""The steps of a scenario: one operation each, at one moment."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

from onward.core.jobs.ids import IdMaker, JobId
from onward.core.jobs.job import Enqueued, Job, NewJob
from onward.core.policy.policies import DEFAULT_POLICIES
from onward.core.work.lease import Leases
from onward.core.work.lifecycle import End, Outcome
from onward.operations.jobs import enqueue, inspect
from onward.operations.work import claim, finish, leases
from tests.connections.caller import NOW

__all__ = ["HOUR", "LEASE", "NOW", "QUEUE", "Go", "end", "events", "ids", "look", "put", "register", "take"]

Go = Callable[..., Any]

LEASE = timedelta(seconds=30)
HOUR = timedelta(hours=1)
QUEUE = "q:default"

ids = IdMaker(time.time_ns, os.urandom)


def put(go: Go, job_type: str = "mail", **fields: Any) -> Enqueued:
    enqueued: Enqueued = go(enqueue.enqueue(NewJob(job_type=job_type, **fields), ids.make()))
    return enqueued


def take(go: Go, worker: str = "w", *, now: datetime = NOW, limit: int = 10) -> list[Job]:
    jobs: list[Job] = go(claim.claim(QUEUE, limit, worker_id=worker), at=now)
    return jobs


def end(go: Go, job: Job, outcome: Outcome, *, now: datetime = NOW) -> Leases:
    leases: Leases = go(finish.finish([End.of(job, outcome, DEFAULT_POLICIES.policy_of(job), 0.5)]), at=now)
    return leases


def look(go: Go, job_id: JobId) -> Job:
    job: Job = go(inspect.get_many([job_id]))[job_id]
    return job


def events(go: Go, job_id: JobId) -> list[str]:
    return [event.event for event in go(inspect.events_of(job_id))]


WORKER_INFO = {
    "host": "é",
    "job_types": ["'mail'"],
    "described": {"'mail'": {"name": "'mail'", "purpose": "é"}},
}


def register(go: Go, worker: str = "w") -> None:
    go(leases.register(worker, lease=LEASE, info=WORKER_INFO))
