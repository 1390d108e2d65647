"""Schedules: define, read, pause and remove them, and keep the history of their runs.

Each change is read, decided here, and written if no other process changed the schedule meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

from msgspec.structs import replace

from onward.core.inputs.checks import whole_number
from onward.core.inputs.fields import LONGEST, check_reason, check_text
from onward.core.jobs.actor import CODE
from onward.core.jobs.job import JobState, NewJob, instant, micros
from onward.core.jobs.payload import decode
from onward.core.policy.contract import check_scheduling, complete
from onward.core.policy.policies import Policies
from onward.core.schedules.schedule import (
    NewSchedule,
    Schedule,
    SchedulePause,
    ScheduleRun,
    job_of_run,
    run_error,
)
from onward.core.schedules.timing import Missed, Timing
from onward.errors import InvalidSetting, ScheduleNotFound, StoreError
from onward.operations.flows.pending_end import PendingEnd
from onward.operations.jobs.new_rows import new_row
from onward.operations.statement import Operation, Row, Rows, Scalar, Statement, acting, as_json

RUN_ENDS = ("job_id", "outcome", "error", "ended_at")

_MOST_LINES = 10_000
# A failed try means that another process succeeded, so this many failures in a row do not happen.
_MOST_TRIES = 200
_MICROSECOND = timedelta(microseconds=1)
_ANY_OCCURRENCE = datetime(2026, 1, 1, tzinfo=UTC)
_NO_ID = "00000000-0000-7000-8000-000000000000"

Actor = tuple[str | None, str | None]
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
    new = NewSchedule.of(name, job, options, allowed=allowed, source=source)
    check_scheduling(policies.category(job.category), _ANY_OCCURRENCE, None)
    if check := policies.registry.checks.get(job.job_type):
        check(job.payload)
    row = new_row(complete(job_of_run(name, new.template, _ANY_OCCURRENCE), policies), _NO_ID, policies)
    return replace(new, template=replace(new.template, payload=decode(str(row[1]))))


def list_schedules(*, limit: int = 1000) -> Operation[list[Schedule]]:
    """Read the schedules by name, each with its last run."""
    whole_number("limit", limit, 1, _MOST_LINES)
    rows = yield Statement("list_schedules", {"limit": limit})
    found = [read_schedule(row) for row in rows]
    return (yield from _with_last_runs(found)) if found else []


def get_schedule(name: str) -> Operation[tuple[datetime, Schedule]]:
    """Read a schedule with its last run, and the database's time; raises ScheduleNotFound."""
    at, schedule = yield from _read(name)
    schedule = _known(name, schedule)
    [schedule] = yield from _with_last_runs([schedule])
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


def pause(name: str, *, reason: str) -> Operation[bool]:
    """Stop firing a schedule until it is resumed; False if it is paused for that reason already."""
    reason = check_reason(reason)
    changed = False

    def change(before: Schedule | None, at: datetime) -> Schedule:
        nonlocal changed
        known = _known(name, before)
        changed = known.pause is None or known.pause.reason != reason
        since = at if known.pause is None else known.pause.at
        return replace(known, pause=SchedulePause(since, reason, None, None)) if changed else known

    yield from _change(name, change, "schedule.paused", reason=reason)
    return changed


def resume(name: str, *, reason: str | None = None) -> Operation[bool]:
    """End a pause; occurrences that passed meanwhile are not made up for. False if there was none."""
    reason = None if reason is None else check_reason(reason)
    changed = False

    def change(before: Schedule | None, at: datetime) -> Schedule:
        nonlocal changed
        known = _known(name, before)
        changed = known.pause is not None
        return replace(known, pause=None, next_at=known.timing.next_after(at)) if changed else known

    yield from _change(name, change, "schedule.resumed", reason=reason)
    return changed


def remove(name: str, *, reason: str) -> Operation[bool]:
    """Remove a schedule but keep its history; a worker whose code defines it stores it again."""
    reason = check_reason(reason)

    def change(before: Schedule | None, at: datetime) -> Schedule:
        return replace(_known(name, before), removed_at=at)

    yield from _change(name, change, "schedule.removed", reason=reason)
    return True


def list_runs(name: str | None = None, *, limit: int = 50) -> Operation[list[ScheduleRun]]:
    """Read the last runs of a schedule, even a removed one, or of all schedules, newest first."""
    whole_number("limit", limit, 1, _MOST_LINES)
    if name is None:
        rows = yield Statement("list_runs", {"limit": limit})
    else:
        _check_name(name)
        rows = yield Statement("list_runs_of", {"name": name, "limit": limit})
        if not rows and (yield from _read(name))[1] is None:
            raise _not_found(name)
    return [_run(row) for row in rows]


def record_ended_runs(ended: Sequence[PendingEnd]) -> Operation[None]:
    """Write into the history of schedules how their runs have ended."""
    ends = [
        (
            one.id,
            "skipped" if one.state == JobState.SUCCEEDED and one.outcome == "skipped" else one.state.value,
            run_error(one.error),
            micros(one.ended_at),
        )
        for one in ended
    ]
    yield Statement("end_runs", {"run_ends": Rows(RUN_ENDS, ends)})


def read_schedule(row: Row) -> Schedule:
    """Make a schedule from a row of `schedule_columns`."""
    (
        name, version, source, org_id, job_type, job, cron, every, tz, anchor, jitter, missed, overlap,
        warm_up, next_at, last_occurrence, created_at, changed_at, paused_at, reason, by_type, by_id,
        removed_at,
    ) = row  # fmt: skip
    # Not checked again: another version of Onward may have stored values that this one would refuse.
    timing = (
        Timing(cron=cron, tz=tz)
        if every is None
        else Timing(every=every * _MICROSECOND, anchor=instant(anchor))
    )
    return Schedule(
        name=name,
        source=source,
        org_id=org_id,
        job_type=job_type,
        job=job,
        timing=timing,
        jitter=jitter * _MICROSECOND,
        missed=_missed(missed),
        overlap=overlap,
        warm_up=warm_up * _MICROSECOND,
        next_at=None if next_at is None or paused_at is not None else instant(next_at),
        last_occurrence=_instant(last_occurrence),
        created_at=instant(created_at),
        changed_at=instant(changed_at),
        pause=None if paused_at is None else SchedulePause(instant(paused_at), reason or "", by_type, by_id),
        removed_at=_instant(removed_at),
        version=version,
    )


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
    _check_name(name)
    for _ in range(_MOST_TRIES):
        at, before = yield from _read(name)
        after = change(before, at)
        if before is not None and after == before:
            return before
        there = before if before is not None and before.removed_at is None else None
        params = _columns(after, there, at) | {
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


def _read(name: str) -> Operation[tuple[datetime, Schedule | None]]:
    _check_name(name)
    [row] = yield Statement("get_schedule", {"name": name})
    return instant(row[0]), None if row[1] is None else read_schedule(row[1:])


def _with_last_runs(schedules: Sequence[Schedule]) -> Operation[list[Schedule]]:
    rows = yield Statement("last_runs", {"names": as_json([one.name for one in schedules])})
    runs = {run.schedule: run for run in map(_run, rows)}
    return [replace(one, last_run=runs.get(one.name)) for one in schedules]


def _columns(schedule: Schedule, before: Schedule | None, at: datetime) -> dict[str, Scalar]:
    timing, held = schedule.timing, schedule.pause
    moved = before is None or schedule.timing != before.timing or schedule.next_at != before.next_at
    return {
        "name": schedule.name,
        "source": schedule.source,
        "org_id": schedule.org_id,
        "job_type": schedule.job_type,
        "job": schedule.job,
        "cron": timing.cron,
        "every": None if timing.every is None else timing.every // _MICROSECOND,
        "tz": timing.tz,
        "anchor": micros(timing.anchor),
        "jitter": schedule.jitter // _MICROSECOND,
        "missed": str(schedule.missed),
        "overlap": schedule.overlap,
        "warm_up": schedule.warm_up // _MICROSECOND,
        # Null leaves the column as the firing worker last wrote it.
        "next_at": micros(schedule.next_at) if moved and schedule.next_at is not None else None,
        "at": micros(at),
        "paused_at": None if held is None else micros(held.at),
        "pause_reason": None if held is None else held.reason,
        "paused_by_type": None if held is None else held.actor_type,
        "paused_by_id": None if held is None else held.actor_id,
        "removed_at": None if schedule.removed_at is None else micros(schedule.removed_at),
    }


def _known(name: str, schedule: Schedule | None) -> Schedule:
    if schedule is None or schedule.removed_at is not None:
        raise _not_found(name)
    return schedule


def _not_found(name: str) -> ScheduleNotFound:
    return ScheduleNotFound(f"no schedule is named {name!r}; `onward schedules list` shows what there is")


def _run(row: Row) -> ScheduleRun:
    schedule, occurrence, source, fired_at, late, job_id, outcome, error, ended_at = row
    return ScheduleRun(
        schedule=schedule,
        occurrence=instant(occurrence),
        source=source,
        fired_at=instant(fired_at),
        late=bool(late),
        job_id=job_id,
        outcome=outcome,
        error=error,
        ended_at=_instant(ended_at),
    )


def _missed(text: str) -> Missed:
    return int(text) if text.isdigit() else text  # type: ignore[return-value]


def _instant(at: Any) -> datetime | None:
    return None if at is None else instant(at)


def _check_name(name: str) -> None:
    check_text("name", name, longest=LONGEST["queue"])
