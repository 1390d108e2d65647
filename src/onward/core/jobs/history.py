"""What happened to a job: its runs, its events, its cancellation, and its removal with its subject."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import msgspec

from onward.core.jobs.ids import JobId
from onward.core.jobs.job import JobState
from onward.core.work.error_record import ErrorRecord


class Attempt(msgspec.Struct, frozen=True):
    """One run of a job; a current run has neither end nor outcome, and no known cost."""

    lease: int
    attempt: int
    worker_id: str | None
    started_at: datetime | None
    ended_at: datetime | None
    outcome: str | None
    error: ErrorRecord | None
    cost_micros: int | None = None

    @property
    def duration(self) -> timedelta | None:
        """How long the run took, by the database's clock."""
        if self.started_at is None or self.ended_at is None:
            return None
        return self.ended_at - self.started_at

    @property
    def error_class(self) -> str | None:
        """The class of the error that the handler raised."""
        return None if self.error is None else self.error.error_class


class Event(msgspec.Struct, frozen=True):
    """One line of a job's audit."""

    at: datetime
    event: str
    attempt: int | None
    lease: int | None
    worker_id: str | None
    actor_type: str | None
    actor_id: str | None
    detail: dict[str, Any] | None
    action: str | None = None


class Cancellation(msgspec.Struct, frozen=True):
    """The state of a job after its cancellation: cancelled, or running and asked to stop, or ended before."""

    job_id: JobId
    state: JobState


class Dropped(msgspec.Struct, frozen=True):
    """What became of a subject's jobs; a running job is asked to stop, and counts as cancelled."""

    cancelled: frozenset[JobId]
    deleted: frozenset[JobId]
    kept: frozenset[JobId]
