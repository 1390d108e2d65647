"""What is due by the clock, in one statement: every worker runs it every second."""

from __future__ import annotations

from datetime import timedelta

from onward.core.jobs.job import instant
from onward.core.work.claim import DueChores
from onward.operations.schedules.fire import Known
from onward.operations.statement import Operation, Statement

SETTLE_PATIENCE = timedelta(milliseconds=200)
"""The process that writes an end does its follow-up work next; a search at once would only get in its way."""

_MICROSECOND = timedelta(microseconds=1)


def chores(known: Known) -> Operation[DueChores]:
    """Return what is due for a worker that fires the schedules it knows; locks and writes nothing."""
    patience = SETTLE_PATIENCE // _MICROSECOND
    [row] = yield Statement("find_chores", {**known.params(), "patience": patience})
    at, due, slot, *marks = row
    unsettled, untied, sent, begun = (mark is not None for mark in marks)
    return DueChores(
        instant(at),
        None if due is None else instant(due),
        None if slot is None else instant(slot),
        unsettled or untied,
        sent or begun,
    )
