"""What a worker asks again and again: ready queues, its instructions, and what is due. Cheap reads only."""

from __future__ import annotations

from datetime import timedelta

from onward.core.jobs.job import instant
from onward.core.jobs.payload import decode
from onward.core.work.claim import Due, Instructions, ReadyQueues
from onward.operations.limits.pauses import read_controls
from onward.operations.schedules.fire import Known
from onward.operations.statement import Operation, Statement

_OTHERS = frozenset({"worker", "cancel", "breaker", "policy"})


FOLLOW_UP_PATIENCE = timedelta(milliseconds=200)
"""The process that writes an end does its follow-up work next; a search at once would only get in its way."""

_MICROSECOND = timedelta(microseconds=1)


def ready_queues() -> Operation[ReadyQueues]:
    """Return which queues have a ready job; costs the same for one job and for a million."""
    rows = yield Statement("ready_queues", {})
    [(next_due, read_at)] = [(due, at) for queue, due, at in rows if queue is None]
    return ReadyQueues(
        frozenset(queue for queue, _, _ in rows if queue is not None),
        None if next_due is None else instant(next_due),
        instant(read_at),
    )


def instructions(worker_id: str) -> Operation[Instructions]:
    """Return the pauses, cancellations, breakers and queue policies that a worker must respect now."""
    rows = yield Statement("instructions", {"worker": worker_id})
    controls = read_controls([row for row in rows if row[0] not in _OTHERS])
    return Instructions(
        gate=controls.gate,
        pauses=controls.pauses,
        skips=controls.skips,
        alive=any(row[0] == "worker" for row in rows),
        cancel_requested={row[1]: _reason(row[2]) for row in rows if row[0] == "cancel"},
        breakers={row[1]: _left(row[5]) for row in rows if row[0] == "breaker"},
        policy_queues=frozenset([row[1] for row in rows if row[0] == "policy"]),
    )


def due(known: Known) -> Operation[Due]:
    """Return what is due by the clock, for a worker that fires the schedules it knows."""
    patience = FOLLOW_UP_PATIENCE // _MICROSECOND
    [row] = yield Statement("find_due", {**known.params(), "patience": patience})
    now, next_due, next_occurrence, *marks = row
    ended, untied, signalled, awaited = (mark is not None for mark in marks)
    return Due(
        instant(now),
        None if next_due is None else instant(next_due),
        None if next_occurrence is None else instant(next_occurrence),
        ended or untied,
        signalled or awaited,
    )


def _left(micros: int | None) -> timedelta | None:
    return None if micros is None else timedelta(microseconds=max(0, micros))


def _reason(detail: str | None) -> str:
    found = decode(detail) if detail else None
    return str(found.get("reason", "cancelled")) if isinstance(found, dict) else "cancelled"
