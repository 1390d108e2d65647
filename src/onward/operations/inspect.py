"""Look at jobs; nothing here writes."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from onward.core.arguments import check_kind, whole
from onward.core.filters import MOST_PER_PAGE, Counts, JobFilter, Page
from onward.core.ids import JobId
from onward.core.job import Job, JobState, instant
from onward.core.payload import decode
from onward.operations.statement import Operation, Statement, as_json, moment

__all__ = ["Attempt", "Event", "attempts_of", "count", "events_of", "get_many", "list_jobs"]

_CAP = 10_000


@dataclass(frozen=True, slots=True)
class Attempt:
    """An earlier run of a job; its last one is in the job itself."""

    lease: int
    attempt: int
    worker_id: str | None
    started_at: datetime | None
    ended_at: datetime
    outcome: str
    error: dict[str, Any] | None


@dataclass(frozen=True, slots=True)
class Event:
    """One line of a job's audit."""

    at: datetime
    event: str
    attempt: int | None
    lease: int | None
    worker_id: str | None
    actor_type: str | None
    actor_id: str | None
    detail: dict[str, Any] | None


def get_many(ids: Collection[JobId]) -> Operation[dict[JobId, Job]]:
    """Read jobs by id, live or ended; an unknown one is absent from the answer."""
    rows = yield Statement("get_jobs", {"ids": as_json(list(ids))})
    return {row[0]: Job.from_row(row) for row in rows}


def list_jobs(
    where: JobFilter, *, limit: int = 50, cursor: JobId | None = None, now: datetime | None = None
) -> Operation[Page]:
    """Read a page of jobs, newest first."""
    check_kind("where", where, JobFilter, "give a JobFilter, such as JobFilter(state='dead')")
    whole("limit", limit, 1, MOST_PER_PAGE)
    rows = yield Statement("list_jobs", {**where.params(cursor), "limit": limit + 1, "now": moment(now)})
    jobs = [Job.from_row(row) for row in rows[:limit]]
    return Page(jobs, jobs[-1].id if len(rows) > limit else None)


def count(org_id: str | None = None) -> Operation[Counts]:
    """Count live jobs by queue and state, and ended ones up to a cap."""
    rows = yield Statement("count_jobs", {"org_id": org_id, "cap": _CAP})
    live: dict[str, dict[JobState, int]] = {}
    ended: dict[JobState, int] = {}
    for queue, state, number in rows:
        (ended if queue is None else live.setdefault(queue, {}))[JobState(state)] = number
    return Counts(live, ended, _CAP)


def attempts_of(job_id: JobId) -> Operation[list[Attempt]]:
    """Read the earlier runs of a job, oldest first."""
    rows = yield Statement("list_attempts", {"id": job_id})
    return [
        Attempt(
            lease,
            number,
            worker,
            started and instant(started),
            instant(ended),
            outcome,
            error and decode(error),
        )
        for lease, number, worker, started, ended, outcome, error in rows
    ]


def events_of(job_id: JobId) -> Operation[list[Event]]:
    """Read the audit of a job, oldest first."""
    rows = yield Statement("list_audit", {"id": job_id})
    return [
        Event(instant(at), event, attempt, lease, worker_id, actor_type, actor_id, detail and decode(detail))
        for at, event, attempt, lease, worker_id, actor_type, actor_id, detail in rows
    ]
