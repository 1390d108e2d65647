"""The lease of a worker: it starts when the worker registers, is extended, and ends when it retires."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import timedelta
from typing import Any

from onward.core.bulk import Changed
from onward.core.inputs.checks import span
from onward.core.inputs.fields import check_text
from onward.core.jobs.payload import lenient
from onward.core.work.lease import JobLease, Leases
from onward.errors import InvalidSetting, WorkerLost
from onward.operations.statement import Operation, Statement
from onward.operations.work.leader import abdicate

_MICROSECOND = timedelta(microseconds=1)
_SHORTEST_LEASE = timedelta(milliseconds=1)


def register(worker_id: str, *, lease: timedelta, info: Mapping[str, Any] | None = None) -> Operation[None]:
    """Register a worker with its lease; an id serves one run of one process."""
    check_text("worker_id", worker_id, longest=200)
    rows = yield Statement(
        "register_worker",
        {
            "worker": worker_id,
            "info": lenient(info or {}, 262_144),
            "lease": _lease_micros(lease),
        },
    )
    if not rows:
        raise InvalidSetting(
            f"worker id {worker_id!r} is taken; register each start of a process under a new id"
        )


def extend(
    worker_id: str, jobs: Collection[JobLease], *, lease: timedelta, idle: bool = False
) -> Operation[Leases]:
    """Renew a worker's lease; return which of its jobs it still holds and which should be cancelled."""
    rows = yield Statement(
        "extend_worker",
        {
            "worker": worker_id,
            "lease": _lease_micros(lease),
            "idle": int(idle),
        },
    )
    if not rows:
        raise worker_lost(worker_id)
    running = {job_id: (number, cancel) for job_id, number, cancel in rows if job_id is not None}
    held = frozenset(one.job_id for one in jobs if running.get(one.job_id, (None,))[0] == one.lease)
    cancelled = frozenset(job_id for job_id in held if running[job_id][1])
    return Leases(held, frozenset(one.job_id for one in jobs) - held, cancelled)


def retire(worker_id: str) -> Operation[Changed]:
    """End a worker's lease at once, so that its jobs can be rescued; an unknown worker changes nothing."""
    rows = yield Statement("retire_worker", {"worker": worker_id})
    # A worker of one org or project may not lead.
    if rows and rows[0][1:] == (None, None):
        yield from abdicate(worker_id)
    return Changed(bool(rows))


def worker_lost(worker_id: str) -> WorkerLost:
    """Return the error of a worker that has no lease."""
    return WorkerLost(
        f"worker {worker_id!r} was never registered (call register() first), or its lease ran out and "
        "its jobs were given to others (stop its handlers and register under a new id)"
    )


def _lease_micros(lease: timedelta) -> int:
    return span("lease", lease, least=_SHORTEST_LEASE) // _MICROSECOND
