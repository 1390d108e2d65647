"""Figures about jobs, for monitors; every statement reads a bounded number of rows."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import get_args

from onward.core.inputs.checks import whole_number
from onward.core.inputs.duration import Duration, duration
from onward.core.jobs.ids import JobId, id_time
from onward.core.jobs.job import ENDED, JobState, instant, micros
from onward.core.jobs.stats import (
    Durations,
    Failure,
    Grouping,
    QueueLag,
    RunTimes,
    Spread,
    StateCounts,
)
from onward.core.page import Page
from onward.core.work.error_record import ErrorRecord
from onward.errors import InvalidSetting
from onward.operations.jobs import inspect
from onward.operations.statement import Operation, Row, Statement

MOST_FAILURES = 200

_SAMPLE = 5000
_LIVE_CAP = 5000
_MOST_GROUPS = 200
_MOST_QUEUES = 100
_FAILED_SAMPLE = 1000
_LONGEST = timedelta(days=366)
_MICROSECOND = timedelta(microseconds=1)


def counts(window: Duration) -> Operation[StateCounts]:
    """Count the live jobs by state, and those that ended within the window."""
    now, created_from, rows = yield from _ends(window)
    counted = yield from inspect.count()
    live: dict[str, int] = {}
    for states in counted.live.values():
        for state, number in states.items():
            live[state.value] = live.get(state.value, 0) + number
    retrying = rows.pop("retrying", 0)
    if retrying:
        live["retrying"] = retrying
        live["scheduled"] = max(0, live.get("scheduled", 0) - retrying)
    return StateCounts(
        now=now,
        since=now - _checked(window),
        live={state: number for state, number in live.items() if number},
        ended={JobState(state): rows.get(state, 0) for state in sorted(ENDED)},
        live_cap=counted.live_cap,
        created_from=created_from,
    )


def durations(by: Grouping, window: Duration) -> Operation[Durations]:
    """Measure how long jobs ran and waited that ended within the window."""
    if by not in get_args(Grouping):
        raise InvalidSetting(f"by is {by!r:.80}; give 'job_type' or 'queue'")
    now, created_from, _ = yield from _ends(window)
    since = now - _checked(window)
    sample = {"by": by, "since": micros(since), "sample": _SAMPLE, "limit": _MOST_GROUPS}
    rows = yield Statement("measure_runs", sample)
    found = [RunTimes(name, jobs, _spread(times[:4]), _spread(times[4:])) for name, jobs, *times in rows]
    return Durations(now=now, since=since, items=found, created_from=created_from)


def lags() -> Operation[Page[QueueLag]]:
    """Measure how long the oldest ready job of each queue has waited, the longest first."""
    rows = yield Statement("measure_lags", {"limit": _MOST_QUEUES, "live_cap": _LIVE_CAP})
    [now] = [at for queue, at in rows if queue is None]
    ready = [(queue, at) for queue, at in rows if queue is not None and at is not None]
    found = [QueueLag(queue, instant(at), max(0, now - at) * _MICROSECOND) for queue, at in ready]
    return Page(sorted(found, key=lambda lag: (-lag.lag, lag.queue)))


def failures(limit: int) -> Operation[Page[Failure]]:
    """List the newest failures by their times: deaths, and failed attempts of jobs that will run again."""
    whole_number("limit", limit, 1, MOST_FAILURES)
    rows = yield Statement("list_failures", {"limit": limit, "sample": _FAILED_SAMPLE})
    return Page([_failure(row) for row in rows])


def _ends(window: Duration) -> Operation[tuple[datetime, datetime | None, dict[str, int]]]:
    """Return the time of the database, from when the counted jobs are, and the ends by state."""
    length = _checked(window) // _MICROSECOND
    rows = yield Statement("count_ends", {"window": length, "sample": _SAMPLE, "live_cap": _LIVE_CAP})
    [(now, beyond)] = [(now, beyond) for state, _, now, beyond in rows if state is None]
    return instant(now), _made(beyond), {state: number for state, number, *_ in rows if state is not None}


def _made(beyond: JobId | None) -> datetime | None:
    return None if beyond is None else id_time(beyond)


def _checked(window: Duration) -> timedelta:
    length = duration("window", window)
    if not timedelta() < length <= _LONGEST:
        raise InvalidSetting(f"window is {window!r:.80}; give more than nothing, and at most 366 days")
    return length


def _spread(times: list[int]) -> Spread:
    return Spread(*(max(0, time) * _MICROSECOND for time in times))


def _failure(row: Row) -> Failure:
    job_id, job_type, queue, org_id, state, at, error, attempt, max_attempts, next_at = row
    return Failure(
        job_id=job_id, job_type=job_type, queue=queue, org_id=org_id,
        state="dead" if state == JobState.DEAD else "retrying", at=instant(at),
        error=ErrorRecord.read(error) if error else None, attempt=attempt, max_attempts=max_attempts,
        next_at=None if next_at is None else instant(next_at),
    )  # fmt: skip
