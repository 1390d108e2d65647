"""Schedules: define, read, pause and remove them, and keep the history of their runs.

Each change is read, decided here, and written if no other process changed the schedule meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

from msgspec.structs import replace

from onward.core.bulk import Changed
from onward.core.inputs.checks import whole_number
from onward.core.inputs.fields import check_reason
from onward.core.jobs.actor import CODE
from onward.core.jobs.job import NewJob
from onward.core.jobs.payload import decode
from onward.core.page import MOST_PER_PAGE, Cursor, Page, cut, read_cursor
from onward.core.policy.contract import check_scheduling, complete
from onward.core.policy.policies import Policies
from onward.core.schedules.schedule import (
    NewSchedule,
    Schedule,
    SchedulePause,
    job_of_run,
)
from onward.errors import InvalidSetting, StoreError
from onward.operations.jobs.new_rows import new_row
from onward.operations.schedules.runs import with_last_runs
from onward.operations.schedules.stored_schedule import find_schedule, read_schedule, require, schedule_params
from onward.operations.statement import Operation, Statement, acting, as_json

# A failed try means that another process succeeded, so this many failures in a row do not happen.
_MOST_TRIES = 200
_ANY_OCCURRENCE = datetime(2026, 1, 1, tzinfo=UTC)
_NO_ID = "00000000-0000-7000-8000-000000000000"

Change = Callable[[Schedule | None, datetime], Schedule]


def checked_schedule(
    name: str,
    job: NewJob,
    options: Mapping[str, Any],
    policies: Policies,
    *,
    allowed: timedelta | None = None,
    source: Literal["code", "database"] = "database",
) -> NewSchedule:
    """Check a schedule and the jobs that it would enqueue; return it with a payload free of secrets."""
    known = policies.registry.job_types.get(job.job_type) if isinstance(job, NewJob) else None
    if known is not None and not job.typed:
        job, allowed = known.fill_run(job)
    new = NewSchedule.of(name, job, options, allowed=allowed, source=source)
    check_scheduling(policies.category(job.category), _ANY_OCCURRENCE, None)
    run = job_of_run(name, new.template, _ANY_OCCURRENCE)
    row = new_row(complete(run, policies, _ANY_OCCURRENCE), _NO_ID, policies)
    return replace(new, template=replace(new.template, payload=decode(str(row[1]))))


def list_schedules(limit: int = MOST_PER_PAGE, cursor: Cursor | None = None) -> Operation[Page[Schedule]]:
    """Read a page of the schedules by name, each with its last run."""
    whole_number("limit", limit, 1, MOST_PER_PAGE)
    [after] = [""] if cursor is None else read_cursor("schedules", cursor, str)
    rows = yield Statement("list_schedules", {"after": after, "limit": limit + 1})
    page = cut("schedules", [read_schedule(row) for row in rows], limit, lambda schedule: (schedule.name,))
    return replace(page, items=(yield from with_last_runs(page.items)))


def get_schedule(name: str) -> Operation[tuple[datetime, Schedule]]:
    """Read a schedule with its last run, and the database's time; raises ScheduleNotFound."""
    at, schedule = yield from find_schedule(name)
    schedule = require(name, schedule)
    [schedule] = yield from with_last_runs([schedule])
    return at, schedule


def put(new: NewSchedule, *, reason: str | None = None) -> Operation[Schedule]:
    """Store a schedule, or change the one of its name; an identical one is left as it is.

    New times begin now. A schedule that is defined in code can be changed only there.
    """
    if reason is not None:
        reason = check_reason(reason)

    def change(before: Schedule | None, at: datetime) -> Schedule:
        if before is not None and before.removed_at is not None:
            before = None
        if before is not None and (before.source, new.source) == ("code", "database"):
            raise InvalidSetting(
                f"the schedule {new.name!r} is defined in code, by its job type; change it there, "
                "or give this schedule another name"
            )
        return _defined(new, before, at)

    return (yield from _change(new.name, change, None, reason=reason))


def declare(schedules: Sequence[NewSchedule]) -> Operation[list[Schedule]]:
    """Store the schedules that a worker's code defines; those already stored alike are only read."""
    stored = {}
    for new in schedules:
        stored[new.name] = yield from acting(CODE, put(new))
    return list(stored.values())


def pause(name: str, *, reason: str) -> Operation[Changed]:
    """Stop firing a schedule until it is resumed, unless it is paused for that reason already."""
    reason = check_reason(reason)
    changed = False

    def change(before: Schedule | None, at: datetime) -> Schedule:
        nonlocal changed
        known = require(name, before)
        changed = known.pause is None or known.pause.reason != reason
        since = at if known.pause is None else known.pause.at
        return replace(known, pause=SchedulePause(since, reason, None, None)) if changed else known

    yield from _change(name, change, "schedule.paused", reason=reason)
    return Changed(changed)


def resume(name: str, *, reason: str | None = None) -> Operation[Changed]:
    """End a pause; occurrences that passed meanwhile are not made up for."""
    reason = None if reason is None else check_reason(reason)
    changed = False

    def change(before: Schedule | None, at: datetime) -> Schedule:
        nonlocal changed
        known = require(name, before)
        changed = known.pause is not None
        return replace(known, pause=None, next_at=known.timing.next_after(at)) if changed else known

    yield from _change(name, change, "schedule.resumed", reason=reason)
    return Changed(changed)


def remove(name: str, *, reason: str) -> Operation[None]:
    """Remove a schedule but keep its history; a worker whose code defines it stores it again."""
    reason = check_reason(reason)

    def change(before: Schedule | None, at: datetime) -> Schedule:
        return replace(require(name, before), removed_at=at)

    yield from _change(name, change, "schedule.removed", reason=reason)


def _defined(new: NewSchedule, before: Schedule | None, at: datetime) -> Schedule:
    """Return a schedule as it is to be stored; an existing pause continues."""
    same_times = before is not None and new.keeps_times_of(before)
    timing = before.timing if before is not None and same_times else new.begun(at)
    return Schedule(
        name=new.name,
        source=new.source,
        org_id=new.template.org_id,
        job_type=new.template.job_type,
        job=new.job,
        timing=timing,
        jitter=new.jitter,
        missed=new.missed,
        overlap=new.overlap,
        warm_up=new.warm_up,
        next_at=before.next_at if before is not None and same_times else timing.next_after(at),
        last_occurrence=None if before is None else before.last_occurrence,
        created_at=at if before is None else before.created_at,
        changed_at=at if before is None else before.changed_at,
        pause=None if before is None else before.pause,
        last_run=None if before is None else before.last_run,
        version=0 if before is None else before.version,
    )


def _change(name: str, change: Change, event: str | None, *, reason: str | None) -> Operation[Schedule]:
    """Read, decide and write; repeat if another process was first. An unchanged schedule is not written."""
    for _ in range(_MOST_TRIES):
        at, before = yield from find_schedule(name)
        after = change(before, at)
        if before is not None and after == before:
            return before
        there = before if before is not None and before.removed_at is None else None
        params = schedule_params(after, there, at) | {
            "version": 0 if before is None else before.version,
            "event": event or _event(there, after),
            "detail": _detail(after, reason),
        }
        rows = yield Statement("put_schedule", params)
        if rows:
            return read_schedule(rows[0])
    raise StoreError(f"the schedule {name!r} is changed by other processes too often; try again")


def _event(before: Schedule | None, after: Schedule) -> str | None:
    """Return the audit event of a change; None for a new schedule from code, which has no actor."""
    if before is None:
        return None if after.source == "code" else "schedule.added"
    return "schedule.changed"


def _detail(schedule: Schedule, reason: str | None) -> str:
    detail: dict[str, Any] = {
        "name": schedule.name,
        "source": schedule.source,
        "timing": schedule.timing.in_words(),
        "reason": reason,
    }
    return as_json({key: value for key, value in detail.items() if value is not None})
