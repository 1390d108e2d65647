"""What a worker must know before it claims and while it runs: reads only, frequent and cheap."""

from __future__ import annotations

from datetime import timedelta

from onward.core.jobs.job import instant
from onward.core.jobs.payload import decode
from onward.core.work.claim import Look, Watch
from onward.operations.limits.pauses import read_controls
from onward.operations.statement import Operation, Statement

_OTHERS = frozenset({"worker", "cancel", "breaker", "ruled"})


def look() -> Operation[Look]:
    """Return where there is work, by the database's clock; costs the same for one job and for a million."""
    rows = yield Statement("look", {})
    [(next_due, read_at)] = [(due, at) for queue, due, at in rows if queue is None]
    return Look(
        frozenset(queue for queue, _, _ in rows if queue is not None),
        None if next_due is None else instant(next_due),
        instant(read_at),
    )


def watch(worker_id: str) -> Operation[Watch]:
    """Return the pauses, cancellations, breakers and queue policies that a worker must respect now."""
    rows = yield Statement("watch", {"worker": worker_id})
    controls = read_controls([row for row in rows if row[0] not in _OTHERS])
    return Watch(
        gate=controls.gate,
        pauses=controls.pauses,
        alive=any(row[0] == "worker" for row in rows),
        cancel_requested={row[1]: _reason(row[2]) for row in rows if row[0] == "cancel"},
        breakers={row[1]: _left(row[5]) for row in rows if row[0] == "breaker"},
        ruled=frozenset([row[1] for row in rows if row[0] == "ruled"]),
    )


def _left(micros: int | None) -> timedelta | None:
    return None if micros is None else timedelta(microseconds=max(0, micros))


def _reason(detail: str | None) -> str:
    found = decode(detail) if detail else None
    return str(found.get("reason", "cancelled")) if isinstance(found, dict) else "cancelled"
