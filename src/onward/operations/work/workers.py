"""Read the workers that have registered, live or gone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from onward.core.inputs.checks import whole_number
from onward.core.jobs.job import instant
from onward.core.jobs.payload import decode
from onward.core.upkeep.facts import WorkerSeen
from onward.errors import WorkerNotFound
from onward.operations.statement import Operation, Row, Statement

T = TypeVar("T")

_MOST = 1000


def list_workers(limit: int) -> Operation[list[WorkerSeen]]:
    """Read the workers: the live ones first, then those that were seen last."""
    rows = yield Statement("list_workers", {"limit": whole_number("limit", limit, 1, _MOST)})
    return [_worker(row) for row in rows]


def get_worker(worker_id: str) -> Operation[WorkerSeen]:
    """Read one worker; raises WorkerNotFound."""
    rows = yield Statement("get_worker", {"worker": worker_id})
    if not rows:
        raise WorkerNotFound(f"no worker {worker_id!r:.80}; workers.list() returns the known workers")
    return _worker(rows[0])


def _worker(row: Row) -> WorkerSeen:
    worker_id, text, started, seen, until, lost = row
    info = decode(text)

    def reported(name: str, kind: type[T]) -> T | None:
        # A worker of another version, or of another make, may report anything here.
        value = info.get(name) if isinstance(info, Mapping) else None
        return value if isinstance(value, kind) else None

    queues, providers = reported("queues", dict), reported("providers", dict)
    types, schedules = reported("job_types", list), reported("schedules", list)
    return WorkerSeen(
        id=worker_id,
        kind=reported("kind", str) or "worker",
        host=reported("host", str),
        pid=reported("pid", int),
        concurrency=reported("concurrency", int),
        queues=None
        if queues is None
        else {name: most if isinstance(most, int) else None for name, most in queues.items()},
        job_types=None if types is None else frozenset(map(str, types)),
        providers={name: one for name, one in (providers or {}).items() if isinstance(one, str)},
        schedules=None if schedules is None else frozenset(map(str, schedules)),
        started_at=instant(started),
        seen_at=instant(seen),
        lease_until=instant(until),
        lost_at=None if lost is None else instant(lost),
    )
