"""Claims: the jobs that a claim took, and what a worker asks the database between two claims."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Annotated

import msgspec
from msgspec import Meta

from onward.core.inputs.checks import whole_number, zoned
from onward.core.inputs.fields import FIRST_PRIORITY, LAST_PRIORITY
from onward.core.inputs.wire_form import Instant
from onward.core.jobs.ids import JobId, is_id
from onward.core.jobs.job import Job
from onward.core.limits.pause import Controls
from onward.errors import InvalidSetting

MOST_PER_CLAIM = 10_000

ClaimSize = Annotated[int, Meta(ge=1, le=MOST_PER_CLAIM)]
"""How many jobs one call claims or takes back at most."""


class QueuePosition(msgspec.Struct, frozen=True):
    """The place of a job in its queue, behind which a claim can begin."""

    priority: int
    run_at: Instant
    id: JobId

    @classmethod
    def of(cls, job: Job) -> QueuePosition:
        """Return the place of a job in its queue."""
        return cls(job.priority, job.run_at, job.id)

    def check(self) -> None:
        """Raise InvalidSetting for a place that no job can have."""
        whole_number("past.priority", self.priority, FIRST_PRIORITY, LAST_PRIORITY)
        zoned("past.run_at", self.run_at)
        if not isinstance(self.id, str) or not is_id(self.id):
            raise InvalidSetting(f"past.id is {self.id!r:.80}; give the id of the last job that you claimed")


class PolicyClaim(msgspec.Struct, frozen=True):
    """The jobs that a claim took, in the order in which they are to run.

    `full` means that the queue now runs as many jobs as it may; `wait` is how long no job of it may start.
    """

    jobs: list[Job]
    full: bool = False
    wait: timedelta | None = None


class ReadyQueues(msgspec.Struct, frozen=True):
    """The queues that have a ready job, and when the next job is due; a time in the past means now."""

    queues: frozenset[str]
    next_due: datetime | None
    now: datetime


class Instructions(Controls, frozen=True, kw_only=True):
    """Whether a worker's lease holds, which of its jobs should be cancelled and why, and what is paused.

    `breakers` are those that are not clean: how long each still holds, None for without an end.
    `policy_queues` are the queues that have a policy, which a claim must follow.
    """

    alive: bool
    cancel_requested: Mapping[JobId, str] = {}
    breakers: Mapping[str, timedelta | None] = {}
    policy_queues: frozenset[str] = frozenset()


class Due(msgspec.Struct, frozen=True):
    """When the next job and the next occurrence of a schedule are due; a time in the past means now.

    `follow_up` means that ended jobs have follow-up work pending, `signals` that signals or waits are to be
    matched.
    """

    now: datetime
    next_due: datetime | None
    next_occurrence: datetime | None
    follow_up: bool
    signals: bool
