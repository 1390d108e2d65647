"""Claims: the jobs that one took, and what a worker asks the database before the next."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta

import msgspec

from onward.core.jobs.ids import JobId
from onward.core.jobs.job import Job
from onward.core.limits.pause import Controls


class RuledClaim(msgspec.Struct, frozen=True):
    """The jobs that a claim took, in the order in which they are to run.

    `full` means that the queue now runs as many jobs as it may; `wait` is how long no job of it may start.
    """

    jobs: list[Job]
    full: bool = False
    wait: timedelta | None = None


class Look(msgspec.Struct, frozen=True):
    """Which queues have a ready job, and when the next is due; a time in the past means: promote it now."""

    ready: frozenset[str]
    next_due: datetime | None
    now: datetime


class Watch(Controls, frozen=True, kw_only=True):
    """Whether a worker's lease holds, which of its jobs should be cancelled and why, and what is paused.

    `breakers` are those that are not clean: how long each still holds, None for without an end.
    `ruled` are the queues that have a policy, which a claim must follow.
    """

    alive: bool
    cancel_requested: Mapping[JobId, str] = {}
    breakers: Mapping[str, timedelta | None] = {}
    ruled: frozenset[str] = frozenset()


class DueChores(msgspec.Struct, frozen=True):
    """When the next job and the next occurrence of a schedule are due; a time in the past means now.

    `unsettled` means that ends have follow-up work pending, `fresh` that signals or waits are to be matched.
    """

    now: datetime
    next_due: datetime | None
    next_slot: datetime | None
    unsettled: bool
    fresh: bool
