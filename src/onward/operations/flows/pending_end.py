"""A job that has ended, as its follow-up work needs it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from onward.core.jobs.ids import JobId
from onward.core.jobs.job import JobState, instant
from onward.core.work.error_record import ErrorRecord
from onward.operations.statement import Row


@dataclass(frozen=True, slots=True)
class PendingEnd:
    """How a job has ended, and what its end affects."""

    id: JobId
    state: JobState
    outcome: str
    ties: int
    """Bits of `Tie`, as a plain number: for thousands of ends that is many times faster."""
    job_type: str
    org_id: str | None
    batch_id: JobId | None
    limit_key: str | None
    error: ErrorRecord | None
    lease: int
    ended_at: datetime

    @classmethod
    def of(cls, row: Row) -> PendingEnd:
        """Read a row of `lock_pending_ends`."""
        job_id, state, outcome, flow, job_type, org_id, batch_id, limit_key, error, lease, ended_at = row
        return cls(
            job_id,
            JobState(state),
            outcome,
            flow,
            job_type,
            org_id,
            batch_id,
            limit_key,
            None if error is None else ErrorRecord.read(error),
            lease,
            instant(ended_at),
        )
