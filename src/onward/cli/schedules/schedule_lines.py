"""Format schedules and their runs as lines for people and as JSON values for programs."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from onward.cli.views.text import table
from onward.core.inputs.duration import lasting
from onward.core.inputs.plain_text import one_line as clean

if TYPE_CHECKING:
    from onward.core.schedules.schedule import Schedule, SchedulePause, ScheduleRun
    from onward.core.schedules.timing import Timing

_NONE = timedelta()


def schedule_table(schedules: Sequence[Schedule], now: datetime) -> list[str]:
    """Return a heading and one line for each schedule; no lines if there are no schedules."""
    rows = [
        [one.name, one.timing.in_words(), _next(one, now), _outcome(one.last_run, now)] for one in schedules
    ]
    return table(["NAME", "WHEN", "NEXT", "LAST RUN"], rows)


def run_table(runs: Sequence[ScheduleRun], tz: str) -> list[str]:
    """Return a heading and one line for each run, in the time zone `tz`; no lines if there are no runs."""
    rows = [
        [
            f"{occurrence:%Y-%m-%d %H:%M:%S %Z}",
            "hand" if run.source == "run_now" else "clock",
            _drift(run),
            run.outcome or "not ended",
            run.job_id or "",
            run.error or "",
        ]
        for run, occurrence in zip(runs, _shown([run.occurrence for run in runs], tz), strict=True)
    ]
    return table(["OCCURRENCE", "BY", "LATE", "OUTCOME", "JOB", "ERROR"], rows)


def schedule_lines(
    schedule: Schedule, times: Sequence[datetime], runs: Sequence[ScheduleRun], now: datetime
) -> list[str]:
    """Return all facts of a schedule, its next times and its last runs, one per line."""
    facts = {
        "schedule": schedule.name,
        "job type": schedule.job_type,
        "org": schedule.org_id,
        "when": f"{timing_of(schedule.timing)} ({schedule.timing.in_words()})",
        "jitter": lasting(schedule.jitter) if schedule.jitter else None,
        "missed": str(schedule.missed),
        "overlap": schedule.overlap,
        "warm-up": lasting(schedule.warm_up) if schedule.warm_up else None,
        "defined in": "code" if schedule.source == "code" else "the database",
        "paused": None if schedule.pause is None else _paused(schedule.pause),
    }
    lines = [f"{name:<11} {clean(value)}" for name, value in facts.items() if value]
    upcoming = [f"  {line}" for line in time_lines(schedule, times, now)]
    lines += ["", "next times, once it goes on" if schedule.pause else "next times", *upcoming]
    history = run_table(runs, schedule.timing.tz) or ["none yet"]
    return [*lines, "", "last runs", *(f"  {line}" for line in history)]


def time_lines(schedule: Schedule, times: Sequence[datetime], now: datetime) -> list[str]:
    """Return each time in the schedule's time zone, and how far away it is."""
    shown = _shown(times, schedule.timing.tz)
    return [f"{one:%a %Y-%m-%d %H:%M:%S %Z}  in {lasting(max(one - now, _NONE))}" for one in shown]


def _shown(times: Sequence[datetime], tz: str) -> list[datetime]:
    from zoneinfo import ZoneInfo

    zone = ZoneInfo(tz) if tz != "UTC" else UTC
    return [time.astimezone(zone) for time in times]


def timing_of(timing: Timing) -> str:
    """Return a timing as users write it: cron 0 2 * * *, every 2m."""
    return f"cron {timing.cron}" if timing.every is None else f"every {lasting(timing.every)}"


def plain_schedule(schedule: Schedule) -> dict[str, Any]:
    """Return a schedule as JSON values, and its timing also in words."""
    from onward.core.plain import plain

    return {**plain(schedule), "in_words": schedule.timing.in_words()}


def _paused(pause: SchedulePause) -> str:
    actor = ":".join(part for part in (pause.actor_type, pause.actor_id) if part)
    return f"since {pause.at.astimezone():%Y-%m-%d %H:%M:%S}{f' by {actor}' if actor else ''}: {pause.reason}"


def _next(schedule: Schedule, now: datetime) -> str:
    if schedule.pause is not None:
        return f"paused: {schedule.pause.reason}"
    if schedule.next_at is None:
        return ""
    away = schedule.next_at - now
    return f"in {lasting(away)}" if away > _NONE else f"due for {lasting(-away)}"


def _outcome(run: ScheduleRun | None, now: datetime) -> str:
    if run is None:
        return "never"
    late = f", {lasting(run.drift)} late" if run.late else ""
    return f"{run.outcome or 'not ended'} {lasting(max(now - run.fired_at, _NONE))} ago{late}"


def _drift(run: ScheduleRun) -> str:
    return lasting(max(run.drift, _NONE)) if run.late else ""
