"""The stored form of schedules: rows to schedules, and schedules to parameters."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from onward.core.inputs.fields import LONGEST, check_text
from onward.core.jobs.job import instant, micros
from onward.core.schedules.schedule import Schedule, SchedulePause
from onward.core.schedules.timing import Missed, Timing
from onward.errors import ScheduleNotFound
from onward.operations.statement import Operation, Row, Scalar, Statement

_MICROSECOND = timedelta(microseconds=1)


def find_schedule(name: str) -> Operation[tuple[datetime, Schedule | None]]:
    """Read a schedule, even a removed one, and the database's time; None if there was never one."""
    check_text("name", name, longest=LONGEST["queue"])
    [row] = yield Statement("get_schedule", {"name": name})
    return instant(row[0]), None if row[1] is None else read_schedule(row[1:])


def require(name: str, schedule: Schedule | None) -> Schedule:
    """Return the schedule; raise ScheduleNotFound if there is none or it was removed."""
    if schedule is None or schedule.removed_at is not None:
        raise not_found(name)
    return schedule


def not_found(name: str) -> ScheduleNotFound:
    """Return the error for a schedule that does not exist."""
    return ScheduleNotFound(f"no schedule is named {name!r}; `onward schedules list` shows what there is")


def read_schedule(row: Row) -> Schedule:
    """Make a schedule from a row of `schedule_columns`."""
    name, version, source, org_id, job_type, job, *when, paused_at, reason, by_type, by_id, removed_at = row
    cron, every, tz, anchor, jitter, missed, overlap, warm_up, next_at, last, created_at, changed_at = when
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
        last_occurrence=optional_instant(last),
        created_at=instant(created_at),
        changed_at=instant(changed_at),
        pause=None if paused_at is None else SchedulePause(instant(paused_at), reason or "", by_type, by_id),
        removed_at=optional_instant(removed_at),
        version=version,
    )


def schedule_params(schedule: Schedule, before: Schedule | None, at: datetime) -> dict[str, Scalar]:
    """Return a schedule as parameters of `put_schedule`; `before` is what is stored of it."""
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


def optional_instant(at: Any) -> datetime | None:
    """Return the instant of a column that may be null."""
    return None if at is None else instant(at)


def _missed(text: str) -> Missed:
    return int(text) if text.isdigit() else text  # type: ignore[return-value]
