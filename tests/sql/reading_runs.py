"""The runs of listings and figures: what they ask the database for."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, get_args

from onward.core.jobs.filters import JobFilter, JobIndex, Order
from onward.core.jobs.ids import first_id_at
from onward.core.jobs.job import micros
from onward.operations.jobs import listing, stats

__all__ = ["LISTED", "NOW", "READING_RUNS"]

NOW = datetime(2026, 1, 2, tzinfo=UTC)
ID = first_id_at(NOW)
SPAN = timedelta(seconds=30)

LISTED: dict[JobIndex, dict[str, Any]] = {
    "any": {}, "subject": {"subject": "s"}, "batch_id": {"batch_id": ID}, "parent_id": {"parent_id": ID},
    "dead": {"state": "dead"},
}  # fmt: skip

READING_RUNS: dict[str, Any] = {
    **{
        f"list by {index}, {order} first": (
            partial(listing.list_jobs, JobFilter(**given), order=order),
            [[(ID,)], []],
        )
        for index, given in LISTED.items()
        for order in get_args(Order)
    },
    "stats of states": (
        partial(stats.counts, SPAN),
        [[("dead", 1, None, None), (None, 0, micros(NOW), ID)], []],
    ),
    "stats of durations": (
        partial(stats.durations, "queue", SPAN),
        [[(None, 0, micros(NOW), None)], [("q", 1, *(1,) * 8)]],
    ),
    "stats of lags": (stats.lags, [[("q", 1), (None, micros(NOW))]]),
    "stats of failures": (
        partial(stats.failures, 1),
        [[(ID, "t", "q", None, "dead", micros(NOW), "{}", 1, 1, None)]],
    ),
}
