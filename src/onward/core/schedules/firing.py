"""The result of firing schedules: the jobs that were enqueued, what was late, and what failed."""

from __future__ import annotations

from datetime import datetime, timedelta

import msgspec

from onward.core.jobs.ids import JobId


class LateOccurrence(msgspec.Struct, frozen=True):
    """An occurrence that was fired more than a minute late."""

    schedule: str
    occurrence: datetime
    drift: timedelta


class Fired(msgspec.Struct, frozen=True):
    """The result of firing: the jobs of each schedule, the late occurrences, and the errors by schedule.

    `moved` is how many schedules advanced to another occurrence; `more` means that occurrences are still due.
    """

    jobs: dict[str, list[JobId]] = {}
    queues: frozenset[str] = frozenset()
    late: tuple[LateOccurrence, ...] = ()
    errors: dict[str, str] = {}
    moved: int = 0
    more: bool = False
