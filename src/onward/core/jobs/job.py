"""A job: its states, its stored form, and the request for a new job.

`COLUMNS`, the fields of `Job` and the columns of every statement that returns stored jobs have one order.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from onward.core.jobs.ids import JobId
from onward.core.jobs.payload import decode
from onward.core.policy.category import Lifetime, OnConflict
from onward.core.work.error_record import ErrorRecord
from onward.core.work.lease import JobLease
from onward.core.work.progress import Progress, read_progress

if TYPE_CHECKING:
    from onward.core.flows.flow import Flow, Part
    from onward.core.work.job_end import JobEnd
    from onward.core.work.lifecycle import Outcome


class JobState(StrEnum):
    """The stored states of a job."""

    SCHEDULED = "scheduled"
    QUEUED = "queued"
    RUNNING = "running"
    BLOCKED = "blocked"
    SUCCEEDED = "succeeded"
    DEAD = "dead"
    CANCELLED = "cancelled"


WAITING = frozenset({JobState.SCHEDULED, JobState.QUEUED, JobState.BLOCKED})
ENDED = frozenset({JobState.SUCCEEDED, JobState.DEAD, JobState.CANCELLED})

Kind = Literal["id", "text", "int", "bool", "time", "json"]

COLUMNS: Mapping[str, Kind] = {
    "id": "id",
    "org_id": "text",
    "project_id": "text",
    "job_type": "text",
    "queue": "text",
    "category": "text",
    "state": "text",
    "priority": "int",
    "run_at": "time",
    "attempt": "int",
    "max_attempts": "int",
    "lease": "int",
    "worker_id": "text",
    "key": "text",
    "subject": "text",
    "payload": "json",
    "progress": "json",
    "cost_micros": "int",
    "actor_type": "text",
    "actor_id": "text",
    "request_id": "text",
    "correlation_id": "text",
    "traceparent": "text",
    "parent_id": "id",
    "batch_id": "id",
    "tags": "json",
    "cancel_requested_at": "time",
    "rerun_requested": "bool",
    "deadline": "time",
    "timeout_micros": "int",
    "waits": "int",
    "crashes": "int",
    "error": "json",
    "created_at": "time",
    "started_at": "time",
    "result": "json",
    "outcome": "text",
    "ended_at": "time",
}

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


# gc=False: no reference cycle leads through a job, and scanning jobs for one took a tenth of a worker's time.
class Job(msgspec.Struct, frozen=True, gc=False):
    """A stored job, as it was at the time of the read."""

    id: JobId
    org_id: str | None
    project_id: str | None
    job_type: str
    queue: str
    category: str
    state: JobState
    priority: int
    run_at: datetime
    attempt: int
    max_attempts: int
    lease: int
    worker_id: str | None
    key: str | None
    subject: str | None
    payload: dict[str, Any]
    progress: Progress | None
    cost_micros: int
    actor_type: str | None
    actor_id: str | None
    request_id: str | None
    correlation_id: str | None
    traceparent: str | None
    parent_id: JobId | None
    batch_id: JobId | None
    tags: list[str] | None
    cancel_requested_at: datetime | None
    rerun_requested: bool
    deadline: datetime | None
    timeout_micros: int | None
    waits: int
    crashes: int
    error: ErrorRecord | None
    created_at: datetime
    started_at: datetime | None
    result: Any
    outcome: str | None
    ended_at: datetime | None

    @property
    def retrying(self) -> bool:
        """Whether the job waits to run again after an unsuccessful attempt."""
        return self.state == JobState.SCHEDULED and self.attempt > 0

    @property
    def skipped(self) -> bool:
        """Whether the job succeeded because there was no work to do."""
        return self.state == JobState.SUCCEEDED and self.outcome == "skipped"

    @property
    def held_lease(self) -> JobLease:
        """The lease under which the job was claimed."""
        return JobLease(self.id, self.lease, self.attempt)

    def end_with(self, outcome: Outcome) -> JobEnd:
        """Return the end of this claimed job, for `finish`; raise LeaseLost for a job under no lease."""
        from onward.core.work.job_end import JobEnd

        return JobEnd.of(self, outcome)

    @classmethod
    def from_row(cls, row: Sequence[Any]) -> Job:
        """Return the job of a row whose columns are `COLUMNS`."""
        values = list(row)
        for at, read in _READ:
            if values[at] is not None:
                values[at] = read(values[at])
        return cls(*values)

    @classmethod
    def from_rows(cls, rows: Sequence[Sequence[Any]]) -> list[Job]:
        """Return the jobs of rows whose columns are `COLUMNS`; reads many rows by column, for speed."""
        if len(rows) < _FEW:
            return [cls.from_row(row) for row in rows]
        columns: list[Sequence[Any]] = list(zip(*rows, strict=True))
        when = columns[_RUN_AT]
        for at, read in _READ:
            column = columns[at]
            if column.count(None) < len(column):
                # Most jobs have equal `created_at` and `run_at`: convert them once.
                same = at == _CREATED_AT and column == when
                columns[at] = columns[_RUN_AT] if same else _read(column, read)
        return list(map(cls, *columns))

    @classmethod
    def readable(cls, row: Sequence[Any]) -> Job:
        """Return the job of a row, or its readable part if the row is corrupted."""
        try:
            return cls.from_row(row)
        except (ValueError, TypeError, OverflowError):
            return cls.salvaged(row)

    @classmethod
    def salvaged(cls, row: Sequence[Any]) -> Job:
        """Return the readable part of a corrupted row as a job; its payload is empty."""
        values = list(row)
        values[_STATE], values[_PAYLOAD], values[_RERUN] = _STATES[row[_STATE]], {}, False
        for at, read in _SALVAGED:
            try:
                values[at] = None if row[at] is None else read(row[at])
            except (ValueError, TypeError, OverflowError):
                values[at] = EPOCH if read is instant else None
        return cls(*values)


Merge = Callable[[dict[str, Any], dict[str, Any]], dict[str, Any]]
"""Merges the payload of a waiting job and a new payload; `on_conflict="coalesce"` stores the result."""


class NewJob(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A job to be stored; a field that is None comes from its job type or category, or stays empty."""

    job_type: str
    payload: dict[str, Any] = {}
    category: str | None = None
    queue: str | None = None
    priority: int | None = None
    run_at: datetime | None = None
    delay: timedelta | None = None
    max_attempts: int | None = None
    timeout: timedelta | None = None
    deadline: datetime | None = None
    key: str | None = None
    unique: Lifetime | None = None
    on_conflict: OnConflict | None = None
    reset_from: frozenset[JobState] | None = None
    merge: Merge | None = None
    org_id: str | None = None
    project_id: str | None = None
    actor_type: str | None = None
    actor_id: str | None = None
    request_id: str | None = None
    correlation_id: str | None = None
    traceparent: str | None = None
    subject: str | None = None
    parent_id: JobId | None = None
    batch_id: JobId | None = None
    tags: list[str] | None = None
    # Set by `.using(debounce=…)`, which also sets the time at which the first job of a burst runs.
    debounce: timedelta | None = None
    debounce_max: timedelta | None = None
    after: tuple[JobId, ...] = ()
    after_needs: Literal["succeeded", "ended"] = "succeeded"
    after_failure: Literal["cancel", "wait"] = "cancel"
    limit_key: str | None = None
    # Set by job types, which have then filled in their options and checked the payload.
    typed: bool = False
    # Set by operations, not by callers: the bits of `Tie`, and how many jobs of `after` have not ended yet.
    ties: int = 0
    pending: int = 0

    def then(self, *following: Part) -> Flow:
        """Return a flow in which the `following` jobs wait for this job: `a.then(b, c).then(d)`."""
        from onward.core.flows.flow import group

        return group(self).then(*following)


Change = Literal["replaced", "reset", "rerun_requested", "coalesced", "debounced"]
"""The change that an enqueue made to the job that held its key."""


class Enqueued(msgspec.Struct, frozen=True, gc=False):
    """The result of an enqueue: the new job, or the job that holds its key (`created` is False).

    `state` is None if the job that holds the key has been removed and only its key is left. `change` is None
    if the enqueue left that job unchanged.
    """

    id: JobId
    state: JobState | None
    created: bool
    change: Change | None = None


def micros(instant: datetime) -> int:
    """Return the microseconds since 1970, the form of every instant sent to or read from a database."""
    return (instant - EPOCH) // timedelta(microseconds=1)


def instant(value: int) -> datetime:
    """Return the datetime of an instant read from a database."""
    # Takes half the time of adding to EPOCH, and is exact while a float resolves a microsecond.
    if -_EXACT < value < _EXACT:
        return _at(value / 1e6, UTC)
    return EPOCH + timedelta(microseconds=value)


def _read(column: Sequence[Any], read: Callable[[Any], Any]) -> Sequence[Any]:
    first = column[0]
    # All jobs of a claim share `started_at`, for one: convert it once. Decoded JSON is mutable: not shared.
    if read not in _MUTABLE and first == column[-1] and column.count(first) == len(column):
        return [read(first)] * len(column)
    if None in column:
        return [None if value is None else read(value) for value in column]
    return list(map(read, column))


_EXACT = 2**52
# Read column by column, a single row takes twice as long; five rows take less time than one by one.
_FEW = 5
_at = datetime.fromtimestamp
_STATES = {state.value: state for state in JobState}
_MUTABLE = (decode, ErrorRecord.read)
_READERS: dict[str, Callable[[Any], Any]] = {"time": instant, "json": decode, "bool": bool}
_OWN_READERS: dict[str, Callable[[Any], Any]] = {"error": ErrorRecord.read, "progress": read_progress}
_READ = [
    (at, _OWN_READERS.get(name) or _READERS[kind])
    for at, (name, kind) in enumerate(COLUMNS.items())
    if kind in _READERS
]
_STATE, _PAYLOAD, _RERUN, _RUN_AT, _CREATED_AT = map(
    list(COLUMNS).index, ("state", "payload", "rerun_requested", "run_at", "created_at")
)
_SALVAGED = [(at, read) for at, read in _READ if at not in {_PAYLOAD, _RERUN}]
_READ.append((_STATE, _STATES.__getitem__))
