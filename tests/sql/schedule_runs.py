"""The operations on schedules, driven with canned rows."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

from onward.core.flows.flow import Tie
from onward.core.jobs.ids import first_id_at
from onward.core.jobs.job import JobState, NewJob, micros
from onward.core.policy.policies import Policies
from onward.operations.flows import pending_end
from onward.operations.schedules import fire, runs, schedules
from onward.operations.statement import Operation
from onward.operations.work import polls

__all__ = ["SCHEDULE_RUNS", "SCHEDULE_SETS"]

SCHEDULE_SETS = {"fired": fire.FIRED, "moves": fire.MOVES, "run_ends": runs.RUN_ENDS}

NOW = datetime(2026, 1, 2, tzinfo=UTC)
ID = first_id_at(NOW)
SPAN = timedelta(seconds=30)
TIMED = schedules.checked_schedule("n", NewJob(job_type="t"), {"every": "1m", "overlap": "skip"}, Policies())
SCHEDULE = (
    "n", 1, "database", None, "t", TIMED.job, None, 60_000_000, "UTC", 0, 0, "last", "wait", 0, micros(NOW),
    None, 1, 1, None, None, None, None, None,
)  # fmt: skip
NO_SCHEDULE = (micros(NOW), *[None] * len(SCHEDULE))
KNOWN = fire.Known({"t"}, ["t"], SPAN)
RUN = ("n", micros(NOW), "occurrence", 1, 0, ID, None, None, None)
ENDED_RUN = pending_end.PendingEnd(
    ID, JobState.SUCCEEDED, "skipped", Tie.SCHEDULED, "t", None, None, None, None, 1, NOW
)

SCHEDULE_RUNS: dict[str, tuple[Callable[[], Operation[Any]], list[list[Any]]]] = {
    "list schedules": (schedules.list_schedules, [[SCHEDULE], [RUN]]),
    "get a schedule": (partial(schedules.get_schedule, "n"), [[(1, *SCHEDULE)], [RUN]]),
    "put a schedule": (partial(schedules.put, TIMED), [[NO_SCHEDULE], [SCHEDULE]]),
    "put a schedule after another": (
        partial(schedules.declare, [TIMED]),
        [[NO_SCHEDULE], [], [(micros(NOW), *SCHEDULE)], [SCHEDULE]],
    ),
    "pause a schedule": (
        partial(schedules.pause, "n", reason="r"),
        [[(micros(NOW), *SCHEDULE)], [SCHEDULE]],
    ),
    "list runs": (runs.list_runs, [[RUN]]),
    "list runs of a schedule": (partial(runs.list_runs_of, "n"), [[RUN]]),
    "end runs": (partial(runs.record_ended_runs, [ENDED_RUN]), [[("n",)]]),
    "due": (partial(polls.due, KNOWN), [[(1, None, 2, None, 1, None, None)]]),
    "fire": (
        partial(fire.fire, KNOWN, lambda: ID),
        [
            [(micros(NOW), *SCHEDULE)],
            [],
            [("n", micros(NOW))],
            [(ID, "other", "queued", 0)],
            [("n",)],
            [("n",)],
        ],
    ),
    "run a schedule": (
        partial(fire.run_now, "n", lambda: ID, reason="r"),
        [[(micros(NOW), *SCHEDULE)], [], [("n", micros(NOW))], [], [(1,)]],
    ),
}
