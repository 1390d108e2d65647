"""Figures about jobs, for monitors: each says from which jobs it comes, because none counts all there are."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from onward.core.jobs.filters import ShownState
from onward.core.jobs.ids import JobId
from onward.core.jobs.job import JobState
from onward.core.work.error_record import ErrorRecord

DAY = timedelta(days=1)

Grouping = Literal["job_type", "queue"]
"""What the durations are measured for each of."""

FailureCount = Annotated[int, Meta(ge=1, le=200)]
"""How many failures are listed at most."""


class StateCounts(msgspec.Struct, frozen=True, kw_only=True):
    """The live jobs by state, and the jobs that ended within the window by state.

    A job that waits for another attempt counts as `retrying`, not as `scheduled`. Live jobs are counted up to
    `live_cap`, as in `Counts`, and `retrying` among the 5000 scheduled ones that are due first. Ends are
    counted among the jobs that were created since `created_from`; None means among all.
    """

    now: datetime
    since: datetime
    live: dict[ShownState, int]
    ended: dict[JobState, int]
    live_cap: int
    created_from: datetime | None = None


class QueueLag(msgspec.Struct, frozen=True):
    """How long the oldest ready job of a queue has waited; `since` is when it became ready."""

    queue: str
    since: datetime
    lag: timedelta


class Spread(msgspec.Struct, frozen=True):
    """The mean of many durations, and those that half, 95 and 99 of a hundred do not exceed."""

    mean: timedelta
    p50: timedelta
    p95: timedelta
    p99: timedelta


class RunTimes(msgspec.Struct, frozen=True):
    """How long the jobs of one type or queue ran and waited, by their last attempts."""

    name: str
    jobs: int
    run: Spread
    wait: Spread


class Durations(msgspec.Struct, frozen=True, kw_only=True):
    """How long jobs ran and waited that ended within the window, the most frequent first.

    They are measured among the jobs that were created since `created_from`; None means among all.
    """

    now: datetime
    since: datetime
    items: list[RunTimes]
    created_from: datetime | None = None


class Failure(msgspec.Struct, frozen=True, kw_only=True):
    """A death, or the failed attempt after which a job waits for its next one at `next_at`."""

    job_id: JobId
    job_type: str
    queue: str
    org_id: str | None
    state: ShownState
    at: datetime
    error: ErrorRecord | None
    attempt: int
    max_attempts: int
    next_at: datetime | None
