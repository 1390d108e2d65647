"""The history of schedules: what became of each occurrence that was fired."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from msgspec.structs import replace

from onward.core.inputs.checks import whole_number
from onward.core.jobs.job import JobState, instant, micros
from onward.core.page import MOST_PER_PAGE, Cursor, Page, cut, read_cursor
from onward.core.schedules.schedule import Schedule, ScheduleRun, run_error
from onward.operations.flows.pending_end import PendingEnd
from onward.operations.schedules.stored_schedule import find_schedule, not_found, optional_instant
from onward.operations.statement import Operation, Row, Rows, Statement, as_json

RUN_ENDS = ("job_id", "outcome", "error", "ended_at")

# Later than every run.
_END = micros(datetime(9999, 12, 31, tzinfo=UTC))


def list_runs(limit: int = 50, cursor: Cursor | None = None) -> Operation[Page[ScheduleRun]]:
    """Read a page of the runs of all schedules, newest first."""
    whole_number("limit", limit, 1, MOST_PER_PAGE)
    start = (_END, "", 0, "") if cursor is None else read_cursor("runs", cursor, int, str, int, str)
    names = ("fired_at", "schedule", "occurrence", "source")
    rows = yield Statement("list_runs", {**dict(zip(names, start, strict=True)), "limit": limit + 1})
    return cut(
        "runs",
        [_run(row) for row in rows],
        limit,
        lambda run: (micros(run.fired_at), run.schedule, micros(run.occurrence), run.source),
    )


def list_runs_of(name: str, limit: int = 50, cursor: Cursor | None = None) -> Operation[Page[ScheduleRun]]:
    """Read a page of the runs of a schedule, newest first; raise ScheduleNotFound if there was never one."""
    whole_number("limit", limit, 1, MOST_PER_PAGE)
    occurrence, source = (_END, "") if cursor is None else read_cursor("runs of one", cursor, int, str)
    params = {"name": name, "occurrence": occurrence, "source": source, "limit": limit + 1}
    rows = yield Statement("list_runs_of", params)
    if not rows and (yield from find_schedule(name))[1] is None:
        raise not_found(name)
    found = [_run(row) for row in rows]
    return cut("runs of one", found, limit, lambda run: (micros(run.occurrence), run.source))


def with_last_runs(schedules: Sequence[Schedule]) -> Operation[list[Schedule]]:
    """Return the schedules, each with its last run."""
    if not schedules:
        return []
    rows = yield Statement("last_runs", {"names": as_json([one.name for one in schedules])})
    runs = {run.schedule: run for run in map(_run, rows)}
    return [replace(one, last_run=runs.get(one.name)) for one in schedules]


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
        ended_at=optional_instant(ended_at),
    )
