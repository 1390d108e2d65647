"""How handlers give way: to time-outs, requests, shutdown and the loss of a lease."""

from __future__ import annotations

import asyncio
import re
import threading
import time
from datetime import UTC, datetime, timedelta

import pytest

from onward import Context, JobState
from onward.core.work.error_record import ErrorRecord
from onward.worker.timings import Timings
from tests.worker.waiting import SOON, drain, until

pytestmark = pytest.mark.anyio


async def test_what_was_claimed_after_quick_jobs_is_given_back_when_it_is_slow(app):
    release, began = asyncio.Event(), asyncio.Event()

    @app.job
    async def quick() -> None:
        pass

    @app.job
    async def slow() -> None:
        began.set()
        await release.wait()

    app.enqueue_many(quick.build() for _ in range(2000))
    ids = [job.id for job in app.enqueue_many(slow.using(priority=9).build() for _ in range(500))]
    async with app.worker(concurrency=2):
        await asyncio.wait_for(began.wait(), SOON)
        await until(lambda: app.client.jobs.count().total(JobState.RUNNING) <= 10)
        release.set()
        await until(lambda: not app.client.jobs.count().live)
    assert any(event.event == "job.released" for job_id in ids for event in app.client.jobs.events(job_id))


@pytest.mark.parametrize("kind", ["async", "thread"])
async def test_a_job_that_runs_too_long_fails(app, kind):
    if kind == "async":

        @app.job(timeout="50ms")
        async def slow() -> None:
            await asyncio.sleep(60)

    else:

        @app.job(timeout="50ms")
        def slow(ctx: Context) -> None:
            ctx.sleep(60)

    job = await slow.aenqueue()
    assert (await drain(app)).retried == 1
    error = app.client.jobs.get(job.id).error
    assert (error.error_class, error.message) == ("TimeoutError", "ran longer than its time-out")
    assert error.rule == "job_timeout"


async def test_a_thread_that_never_gives_way_loses_its_job_and_not_the_slot(app, caplog):
    # F12.
    release = threading.Event()

    @app.job(timeout="50ms")
    def deaf() -> None:
        release.wait(60)

    @app.job
    def hears() -> str:
        return "here"

    job = await deaf.aenqueue()
    other = await hears.using(priority=9).aenqueue()
    tally = await drain(app, concurrency=1, timings=Timings(stop=0.05))
    release.set()
    assert (tally.retried, tally.succeeded) == (1, 1)
    assert await other.aresult() == "here"
    assert app.client.jobs.get(job.id).error.error_class == "TimeoutError"
    assert f"job deaf {job.id} ignores" in caplog.text


async def test_a_job_whose_deadline_has_passed_is_dead_without_having_run(app):
    ran: list[object] = []

    @app.job
    async def late() -> None:
        ran.append(1)

    job = await late.using(deadline=datetime.now(UTC) - timedelta(seconds=1)).aenqueue()
    assert (await drain(app)).dead == 1
    assert app.client.jobs.get(job.id).error.reason == "deadline_passed"
    assert not ran


@pytest.mark.parametrize("kind", ["async", "thread"])
async def test_a_running_job_is_cancelled_on_request(app, kind):
    # S4-69, S4-71
    started = threading.Event()

    if kind == "async":

        @app.job
        async def long() -> None:
            started.set()
            await asyncio.sleep(60)

    else:

        @app.job
        def long(ctx: Context) -> None:
            started.set()
            while True:
                ctx.check_cancelled()
                time.sleep(0.001)

    job = await long.aenqueue()
    async with app.worker() as worker:
        await until(started.is_set)
        app.client.jobs.cancel(job.id, reason="a customer changed her mind")
        await until(lambda: worker.tally.cancelled == 1)
    found = app.client.jobs.get(job.id)
    assert (found.state, found.error) == (
        JobState.CANCELLED,
        ErrorRecord(reason="a customer changed her mind"),
    )


async def test_a_stopped_worker_finishes_what_it_can_and_gives_back_the_rest(app):
    # F09.
    started = asyncio.Event()
    go_on = asyncio.Event()

    @app.job
    async def short() -> str:
        await go_on.wait()
        return "done"

    @app.job
    async def endless() -> None:
        started.set()
        await asyncio.sleep(600)

    jobs = [await short.aenqueue(), await endless.aenqueue()]
    worker = app.worker(grace=timedelta(seconds=1))
    running = asyncio.create_task(worker.run())
    await asyncio.wait_for(started.wait(), SOON)
    worker.stop()
    later = await short.aenqueue()
    go_on.set()
    tally = await asyncio.wait_for(running, SOON)
    assert (tally.succeeded, tally.released) == (1, 1)
    states = [app.client.jobs.get(job.id) for job in (*jobs, later)]
    assert [job.state for job in states] == ["succeeded", "queued", "queued"]
    assert [job.attempt for job in states] == [1, 0, 0]


async def test_a_second_stop_gives_back_at_once(app):
    started = asyncio.Event()

    @app.job
    async def endless() -> None:
        started.set()
        await asyncio.sleep(600)

    job = await endless.aenqueue()
    worker = app.worker()
    running = asyncio.create_task(worker.run())
    await asyncio.wait_for(started.wait(), SOON)
    worker.stop()
    worker.stop()
    assert (await asyncio.wait_for(running, SOON)).released == 1
    assert app.client.jobs.get(job.id).attempt == 0


async def test_a_worker_that_lost_its_lease_cancels_its_handlers_and_works_on_under_another_id(app, caplog):
    # F04: the job was given to others, so whatever its handler does now is refused.
    starts = []
    ended = []

    @app.job
    async def job() -> None:
        starts.append(1)
        if len(starts) == 1:
            try:
                await asyncio.sleep(600)
            finally:
                ended.append("cancelled")

    enqueued = await job.aenqueue()
    async with app.worker() as worker:
        await until(lambda: starts)
        first = worker.worker_id
        app.client.worker.rescue_worker(first)
        await until(lambda: worker.tally.succeeded == 1)
        assert worker.worker_id != first
    assert ended == ["cancelled"]
    assert (len(starts), worker.tally.refused) == (2, 1)
    events = [event.event for event in app.client.jobs.events(enqueued.id)]
    assert events.count("job.stale_result_rejected") == 1
    assert events.count("job.succeeded") == 1
    assert "lost its lease" in caplog.text


async def test_a_handler_that_blocks_the_loop_is_named(app, caplog):
    # F11.
    @app.job
    async def rude() -> None:
        time.sleep(2.2)  # noqa: ASYNC251

    job = await rude.aenqueue()
    async with app.worker(lease=timedelta(seconds=1.5)) as worker:
        await until(lambda: worker.tally.processed == 1)
    lines = [record.getMessage() for record in caplog.records if "event loop" in record.getMessage()]
    assert any(re.search(f"blocked for 1.\\d s by job rude {job.id}", line) for line in lines), lines
    assert any("runs again" in line for line in lines)
    assert app.client.jobs.get(job.id).attempt == 1
    assert worker.tally.succeeded == 1


async def test_it_tells_what_runs_and_where_each_handler_is(app):
    started = asyncio.Event()

    async def wait_for_the_bank() -> None:
        started.set()
        await asyncio.sleep(600)

    @app.job
    async def charge() -> None:
        await wait_for_the_bank()

    worker = app.worker(grace=timedelta())
    assert worker.describe() == "the worker has not started"
    job = await charge.aenqueue()
    async with worker:
        await asyncio.wait_for(started.wait(), SOON)
        text = worker.describe()
    assert f"job charge {job.id} attempt 1" in text
    assert text.index("in charge") < text.index("in wait_for_the_bank") < text.index("thread")


async def test_a_handler_that_ignores_its_cancellation_leaves_none_to_the_next(app):
    # Else a task group of the next handler would take itself for cancelled.
    seen: list[int] = []

    @app.job(max_attempts=1)
    async def stubborn() -> None:
        try:
            await asyncio.sleep(600)
        except asyncio.CancelledError:
            seen.append(-1)

    @app.job
    async def after() -> None:
        task = asyncio.current_task()
        assert task is not None
        seen.append(task.cancelling())

    await stubborn.using(timeout="50ms").aenqueue()
    async with app.worker(concurrency=1):
        await until(lambda: seen)
        await after.aenqueue()
        await until(lambda: len(seen) == 2)
    assert seen == [-1, 0]


async def test_a_handler_that_takes_long_to_give_way_does_not_keep_the_worker_from_ending(app):  # F09
    begun, told = asyncio.Event(), asyncio.Event()

    @app.job
    async def tidy_up() -> None:
        try:
            begun.set()
            await asyncio.sleep(600)
        finally:
            told.set()
            await asyncio.sleep(600)

    await tidy_up.aenqueue()
    worker = app.worker(grace=0.01)
    running = asyncio.create_task(worker.run())
    await begun.wait()
    worker.stop()
    async with asyncio.timeout(SOON):
        await running
    assert told.is_set()
