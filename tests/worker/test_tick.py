"""A tick ends when its time is over, whatever its jobs do."""

import asyncio
import threading
import time
from datetime import timedelta

import pytest

from onward import Context, InvalidSetting, JobState, Onward
from onward.errors import LeaseLost
from tests.apps import fresh_app

LATE = 1.0
"""What a tick may take beyond its seconds."""


@pytest.fixture(params=["sqlite", "postgres"])
def app(request, tmp_path):
    with fresh_app(request, tmp_path) as app:
        yield app
        app.close()


def tick(app: Onward, seconds: float = 0.3):
    began = time.monotonic()
    done = app.tick(max_seconds=seconds)
    assert time.monotonic() - began < seconds + LATE
    return done


def is_given_back(app: Onward, job_id: str) -> None:
    job = app.client.jobs.get(job_id)
    assert (job.state, job.attempt, job.crashes, job.error) == (JobState.QUEUED, 0, 0, None)


def test_what_waits_at_the_end_of_a_tick_is_cancelled_and_given_back(app):  # R16
    ends: list[str] = []

    @app.job
    async def long() -> None:
        try:
            await asyncio.sleep(600)
        finally:
            ends.append("cancelled")

    handle = long.enqueue()
    done = tick(app)
    assert (done.processed, done.remaining, ends) == (0, 1, ["cancelled"])
    is_given_back(app, handle.id)


def test_a_thread_that_does_not_stop_is_left_alone_and_its_result_refused(app):  # R16
    go_on, refused = threading.Event(), threading.Event()

    @app.job
    def deaf(ctx: Context) -> str:
        go_on.wait(60)
        with pytest.raises(LeaseLost), ctx.transaction():
            pass
        refused.set()
        return "too late"

    handle = deaf.enqueue()
    tick(app)
    is_given_back(app, handle.id)
    go_on.set()
    assert refused.wait(10)
    is_given_back(app, handle.id)


def test_a_coroutine_that_refuses_to_be_cancelled_does_not_keep_a_tick(app):  # R16
    @app.job
    async def stubborn() -> None:
        while True:
            try:
                await asyncio.sleep(600)
            except asyncio.CancelledError:
                continue

    handle = stubborn.enqueue()
    tick(app)
    is_given_back(app, handle.id)


def test_a_thread_that_a_coroutine_started_does_not_keep_a_tick(app):  # R16
    go_on = threading.Event()

    @app.job
    async def elsewhere() -> None:
        await asyncio.to_thread(go_on.wait, 60)

    handle = elsewhere.enqueue()
    tick(app)
    go_on.set()
    is_given_back(app, handle.id)


def test_a_tick_that_is_done_sooner_does_not_wait(app):  # R16
    @app.job
    def short() -> int:
        return 1

    handle = short.enqueue()
    done = tick(app, 600)
    assert (done.succeeded, handle.result()) == (1, 1)
    assert done.duration < timedelta(seconds=60)


@pytest.mark.parametrize("seconds", [0, -1, "0s", timedelta(days=-1)])
def test_a_tick_needs_some_time(app, seconds):  # R16
    with pytest.raises(InvalidSetting, match=r"max_seconds is .*; give a positive duration"):
        app.tick(max_seconds=seconds)
