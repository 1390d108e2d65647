"""Bring jobs back: those whose worker is gone, and those whose time has come."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from onward.core.arguments import whole
from onward.core.category import category
from onward.core.job import Job, instant
from onward.core.lifecycle import End, Lost
from onward.core.retry import RetryPolicy
from onward.errors import InvalidSetting
from onward.operations.statement import Operation, Statement, moment
from onward.operations.work import MOST_AT_ONCE, Leases, finish

__all__ = ["Promoted", "find_lost", "policy_of", "promote", "rescue"]


@dataclass(frozen=True, slots=True)
class Promoted:
    """How many jobs of each queue became ready, and when the next one is due."""

    queues: dict[str, int]
    next_due: datetime | None


def find_lost(limit: int = 500, *, now: datetime | None = None) -> Operation[list[Job]]:
    """Declare workers lost whose lease ran out, and give the jobs that they held."""
    whole("limit", limit, 1, MOST_AT_ONCE)
    rows = yield Statement("find_lost_jobs", {"limit": limit, "now": moment(now)})
    return [Job.from_row(row) for row in rows]


def rescue(
    limit: int = 500,
    *,
    policy: Callable[[Job], RetryPolicy] | None = None,
    dice: Callable[[], float] = lambda: 1.0,
    now: datetime | None = None,
) -> Operation[Leases]:
    """Take back the jobs of lost workers; one that finishes meanwhile keeps its end, by its lease."""
    lost = yield from find_lost(limit, now=now)
    if not lost:
        return Leases(frozenset(), frozenset())
    choose = policy or policy_of
    ends = [End.of(job, Lost(), choose(job), dice()) for job in lost]
    return (yield from finish(ends, now=now))


def promote(limit: int = 500, *, now: datetime | None = None) -> Operation[Promoted]:
    """Make due jobs ready."""
    whole("limit", limit, 1, MOST_AT_ONCE)
    rows = yield Statement("promote_jobs", {"limit": limit, "now": moment(now)})
    queues: dict[str, int] = {}
    next_due = None
    for queue, value in rows:
        if queue is not None:
            queues[queue] = queues.get(queue, 0) + value
        elif value is not None:
            next_due = instant(value)
    return Promoted(queues, next_due)


def policy_of(job: Job) -> RetryPolicy:
    """Find the retry policy of a job's category; an unknown category is treated as the default one."""
    try:
        return category(job.category).retry
    except InvalidSetting:
        return category("default").retry
