"""Worker processes of which some are killed: never more at once than the limit says, and all jobs end."""

from __future__ import annotations

import random
import signal
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path

import pytest

from onward import JobState
from tests.cli.program import Program
from tests.extent import FULL
from tests.limits import limit_process_jobs as process_jobs
from tests.worker.faults.place import ROOT, Place, chosen_place, until

PROCESSES, JOBS, KILLS = (8, 2000, 12) if FULL else (3, 150, 3)
LIMIT = 5
LEASE = "1s"


@pytest.fixture(params=["sqlite", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    """Empty tables, once for each database."""
    with chosen_place(request, tmp_path) as place:
        yield place


def worker(place: Place) -> Program:
    return Program(
        ROOT, "worker", "tests.limits.limit_process_jobs:app", "--lease", LEASE,
        ONWARD_URL=place.url, LIMITS_SCHEMA=place.schema,
    )  # fmt: skip


def runs(place: Place) -> list[tuple[datetime, datetime]]:
    """Every run of every job, by the database's record: from its start to its end."""
    ids = place.query(f"SELECT id FROM {place.client.store.prefix}ended")
    found = [one for (job_id,) in ids for one in place.client.jobs.attempts(str(job_id))]
    return [(one.started_at, one.ended_at) for one in found if one.started_at and one.ended_at]


def most_at_once(spans: list[tuple[datetime, datetime]]) -> int:
    """Count how many overlap at most; one that ends when another starts does not."""
    most = within = 0
    for _, step in sorted([(start, 1) for start, _ in spans] + [(end, -1) for _, end in spans]):
        within += step
        most = max(most, within)
    return most


def test_never_more_than_the_limit_run_at_once_though_workers_are_killed(place: Place):  # F46
    dice = random.Random(5)
    place.client.enqueue_many(process_jobs.sync.build(customer="acme") for _ in range(JOBS))
    active = f"SELECT count(*) FROM {place.client.store.prefix}live WHERE state IN ('queued', 'running')"
    seen = [0]

    def ended(count: int) -> bool:
        seen.append(place.query(active)[0][0])
        return place.ended() >= count

    with ExitStack() as stack:
        workers = [stack.enter_context(worker(place)) for _ in range(PROCESSES)]
        for kill in range(KILLS):
            until(lambda kill=kill: ended(JOBS * kill // (KILLS + 1)), 120)  # type: ignore[misc]
            at = dice.randrange(PROCESSES)
            workers[at].send(signal.SIGKILL)
            workers[at] = stack.enter_context(worker(place))
        until(lambda: ended(JOBS), 240, about=place.client.jobs.count)
    assert place.client.jobs.count().total(JobState.SUCCEEDED) == JOBS
    spans = runs(place)
    assert len(spans) >= JOBS
    assert most_at_once(spans) <= LIMIT
    assert max(seen) <= LIMIT


def test_overlaps_are_counted():
    at = [datetime(2026, 1, 1, 0, 0, second, tzinfo=UTC) for second in range(4)]
    assert most_at_once([(at[0], at[2]), (at[1], at[3]), (at[2], at[3])]) == 2
