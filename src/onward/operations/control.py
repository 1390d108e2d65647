"""What an operator or a caller does to jobs that are already there."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime

from onward.core.fields import check_text
from onward.core.ids import JobId
from onward.core.job import JobState
from onward.operations.statement import Operation, Statement, as_json, moment

__all__ = ["cancel"]


def cancel(
    ids: Collection[JobId],
    *,
    reason: str,
    actor_type: str | None = None,
    actor_id: str | None = None,
    now: datetime | None = None,
) -> Operation[dict[JobId, JobState]]:
    """Cancel waiting jobs at once and ask running ones to give way; gives the state of each known one."""
    check_text("reason", reason, longest=1000)
    asked = as_json(sorted(ids))
    rows = yield Statement(
        "cancel_jobs",
        {
            "ids": asked,
            "error": as_json({"reason": reason}),
            "actor_type": actor_type,
            "actor_id": actor_id,
            "now": moment(now),
        },
    )
    states = {job_id: JobState(state) for job_id, state in rows}
    if len(states) < len(set(ids)):
        # What is not live has ended, perhaps while we asked: a new statement sees it.
        rows = yield Statement("get_jobs", {"ids": asked})
        states = {row[0]: JobState(row[6]) for row in rows} | states
    return states
