"""Worker processes of which the one that tries is killed: another tries."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from onward import JobState
from onward.core.failures.breaker import Answer, BreakerSettings
from tests.cli.program import Program
from tests.failures.breakers import breaker_process_jobs as process_jobs
from tests.failures.breakers.breaker_provider import Provider
from tests.worker.faults.place import ROOT, Place, chosen_place, pid_of, until


@pytest.fixture(params=["sqlite", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    """Empty tables, once for each database."""
    with chosen_place(request, tmp_path) as place:
        yield place


def worker(place: Place) -> Program:
    return Program(
        ROOT,
        "worker",
        "tests.failures.breakers.breaker_process_jobs:app",
        "--lease",
        "30s",
        ONWARD_URL=place.url,
        BREAKERS_SCHEMA=place.schema,
        BREAKERS_HOLD="0.1s",
        BREAKERS_PATIENCE="2s",
    )


def test_when_the_worker_that_tries_is_killed_another_tries(place: Place, provider: Provider):
    hang = threading.Event()
    provider.status, provider.slow = 200, lambda: len(provider.calls) == 1 and hang.wait(20)
    settings = BreakerSettings.of(failures=2, hold="0.1s")
    for job_id in "ab":
        answer = Answer(pushed_back=True, job_id=job_id)
        place.client.worker.breakers.answered("crm", None, answer, settings)
    jobs = place.client.enqueue_many(process_jobs.call.build(url=provider.url) for _ in range(30))
    try:
        with worker(place) as first, worker(place) as second:
            until(lambda: provider.calls, about=lambda: first.output + second.output)
            trying = place.client.breakers.get("crm").probe
            assert trying is not None
            assert len(provider.calls) == 1, "of two processes one tries"
            os.kill(pid_of(trying), signal.SIGKILL)
            # Its own job and those that waited with it are stuck with its lease; the others go on.
            until(lambda: place.client.jobs.count().total(JobState.SUCCEEDED) >= 10)
            assert place.client.breakers.get("crm").clean
    finally:
        hang.set()
    found = place.client.jobs.get_many([job.id for job in jobs]).values()
    assert {job.attempt for job in found if job.state == JobState.SUCCEEDED} == {1}
