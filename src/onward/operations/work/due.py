"""What there is to do by the clock, in one question: asked every second by every worker."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from onward.core.jobs.job import instant
from onward.operations.schedules.fire import Known
from onward.operations.statement import Operation, Statement

SETTLE_PATIENCE = timedelta(milliseconds=200)
"""Who writes an end settles it next: to look for it at once would only be in the way."""

_MICROSECOND = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class Chores:
    """When the next job and the next slot of a schedule are due, in the past if they are now.

    `unsettled` says that something still follows from ends, `fresh` that somebody should look at signals.
    """

    now: datetime
    next_due: datetime | None
    next_slot: datetime | None
    unsettled: bool
    fresh: bool


def chores(known: Known) -> Operation[Chores]:
    """Tell one who fires the schedules that it knows what there is to do; locks and writes nothing."""
    patience = SETTLE_PATIENCE // _MICROSECOND
    [row] = yield Statement("find_chores", {**known.params(), "patience": patience})
    at, due, slot, *marks = row
    unsettled, untied, sent, begun = (mark is not None for mark in marks)
    return Chores(
        instant(at),
        None if due is None else instant(due),
        None if slot is None else instant(slot),
        unsettled or untied,
        sent or begun,
    )
