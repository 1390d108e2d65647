"""The progress of jobs as real workers run them: on the event loop, in threads and in processes."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import closing
from typing import Any

import psycopg
import pytest

from onward import Context, JobState, Onward, Retry
from onward.clients.work.worker_client import AsyncWorkerClient
from onward.core.jobs.ids import JobId
from onward.core.work.progress import Report
from onward.errors import StoreUnreachable
from onward.results import Progress
from onward.worker.attempts.attempt import Running
from onward.worker.worker import Worker
from tests.work.progress import progress_jobs
from tests.worker.waiting import drain, until

pytestmark = pytest.mark.anyio

on_postgres = pytest.mark.parametrize("app", ["postgres"], indirect=True)


def progress_of(app: Onward, job_id: JobId) -> tuple[Any, ...] | None:
    found = app.client.jobs.get(job_id).progress
    return None if found is None else (found.done, found.total, found.note)


def shows(app: Onward, job_id: JobId, *progress: Any) -> Callable[[], bool]:
    return lambda: progress_of(app, job_id) == progress


def of_processes(app: Onward, **options: Any) -> Worker:
    """A worker with the job types of another module, on the database of this test."""
    return Worker(progress_jobs.app.handlers, app.clients, **options)


async def test_an_async_handler_shows_how_far_it_is_while_it_runs(app):
    go = asyncio.Event()

    async def pages() -> AsyncIterator[str]:
        yield "a"
        yield "b"

    @app.job
    async def export(ctx: Context) -> list[str]:
        seen = []
        async for page in ctx.progress(pages(), total=2):
            seen.append(page)
            if page == "b":
                await go.wait()
        return seen

    handle = await export.aenqueue()
    assert handle.progress is None
    async with app.worker():
        await until(shows(app, handle.id, 1, 2, None))
        assert handle.progress is None
        job = await handle.arefresh()
        assert handle.progress is job.progress
        assert (handle.progress.fraction, job.state) == (0.5, JobState.RUNNING)
        go.set()
        assert await handle.aresult(timeout=20) == ["a", "b"]
    assert progress_of(app, handle.id) == (2, 2, None)


async def test_a_sync_handler_in_a_thread_does_the_same(app):
    go = threading.Event()

    @app.job
    def export(ctx: Context) -> int:
        for page in ctx.progress(range(3)):
            if page == 2:
                go.wait(20)
        return 3

    handle = await export.aenqueue()
    async with app.worker():
        await until(shows(app, handle.id, 2, 3, None))
        go.set()
        assert await handle.aresult(timeout=20) == 3
    assert handle.progress.done == 3


async def test_a_handler_in_a_process_does_the_same(app, tmp_path):
    go = tmp_path / "go"
    job = app.client.enqueue(progress_jobs.count_and_wait.build(str(go)))
    async with of_processes(app) as worker:
        # The second came while the first was under way: it is not left behind.
        await until(shows(app, job.id, 2, 4, "page 2"))
        assert app.client.jobs.get(job.id).state == JobState.RUNNING
        go.touch()
        await until(lambda: worker.tally.succeeded == 1)
    assert progress_of(app, job.id) == (3, 4, "page 3")


async def test_a_process_that_reports_without_end_does_not_flood_its_worker(app, monkeypatch):
    heard: list[Report] = []

    def hear(run: Running, report: Report) -> None:
        heard.append(report)
        run.last_report = report

    monkeypatch.setattr(Running, "report", hear)
    job = app.client.enqueue(progress_jobs.count_much.build(200_000))
    assert (await of_processes(app, drain=True).run()).succeeded == 1
    # The first, the last, and one for each half second in between.
    assert heard[0] == Report(0, 200_000)
    assert heard[-1] == Report(200_000, 200_000)
    assert len(heard) < 100
    assert progress_of(app, job.id) == (200_000, 200_000, None)


async def test_a_process_that_dies_leaves_what_it_reported(app, tmp_path):
    go = tmp_path / "go"
    job = app.client.enqueue(progress_jobs.count_and_die.build(str(go)))
    async with of_processes(app):
        await until(shows(app, job.id, 1, 4, None))
        go.touch()
        await until(lambda: app.client.jobs.get(job.id).state == JobState.DEAD)
    assert progress_of(app, job.id) == (1, 4, None)


async def test_a_process_that_ends_its_job_itself_writes_its_last_report_with_it(app):
    job = app.client.enqueue(progress_jobs.count_and_commit.build())
    tally = await of_processes(app, drain=True).run()
    assert (tally.succeeded, tally.refused) == (1, 0)
    assert progress_of(app, job.id) == (4, 4, "done")


async def test_it_is_written_at_most_once_a_second_and_all_together(app, seconds):
    steps = [asyncio.Queue[int | None](), asyncio.Queue[int | None]()]
    reported = asyncio.Semaphore(0)

    @app.job
    async def export(ctx: Context, n: int) -> None:
        while (step := await steps[n].get()) is not None:
            ctx.report(step)
            reported.release()

    one, other = await export.aenqueue(0), await export.aenqueue(1)
    async with app.worker():
        steps[0].put_nowait(1)
        await until(lambda: seconds.slept == [1.0])
        assert seconds.written == [[Report(1)]]
        for step in range(2, 9):
            steps[step % 2].put_nowait(step)
        for _ in range(8):
            await reported.acquire()
        # Both have reported since, and nothing is written before the second is over.
        assert seconds.written == [[Report(1)]]
        seconds.pass_by()
        await until(lambda: len(seconds.slept) == 2)
        [_, together] = seconds.written
        assert sorted(report.done for report in together) == [7, 8]
        shown = {app.client.jobs.get(handle.id).progress.done for handle in (one, other)}
        assert shown == {7, 8}
        seconds.pass_by()
        for queue in steps:
            queue.put_nowait(None)
        await one.ajoin(20)
        await other.ajoin(20)
    # What was stored already is not written again by the loop, which sleeps without a report.
    assert len(seconds.written) == 2
    assert seconds.slept == [1.0, 1.0]


async def test_a_worker_whose_handlers_report_nothing_never_wakes_for_it(app, seconds):
    @app.job
    async def quick() -> None: ...

    await app.aenqueue_many([quick.build() for _ in range(20)])
    assert (await drain(app)).succeeded == 20
    assert (seconds.slept, seconds.written) == ([], [])


async def test_a_job_that_ends_at_once_shows_its_last_report(app):
    @app.job
    async def quick(ctx: Context, n: int) -> None:
        for _ in ctx.progress(range(n)):
            pass

    @app.job
    async def silent() -> None: ...

    handles = await app.aenqueue_many([quick.build(n) for n in range(20)])
    await app.aenqueue_many([silent.build() for _ in range(20)])
    assert (await drain(app)).succeeded == 40
    assert [progress_of(app, handle.id) for handle in handles] == [(n, n, None) for n in range(20)]
    assert [job.progress for job in app.client.jobs.list() if job.job_type == "silent"] == [None] * 20


async def test_a_retry_begins_without_progress(app):
    seen: list[Progress | None] = []

    @app.job
    async def export(ctx: Context) -> None:
        seen.append((await ctx.aclient.jobs.get(ctx.job.id)).progress)
        if ctx.job.attempt == 1:
            ctx.report(3, 4)
            raise Retry("again", after=0)

    handle = await export.aenqueue()
    assert (await drain(app)).retried == 1
    assert seen == [None, None]
    assert progress_of(app, handle.id) is None


async def test_a_dead_job_shows_how_far_it_got(app):
    @app.job(max_attempts=1)
    def export(ctx: Context) -> None:
        for page in ctx.progress(range(8)):
            if page == 5:
                raise ValueError("page 5 is broken")

    handle = await export.aenqueue()
    assert (await drain(app)).dead == 1
    assert progress_of(app, handle.id) == (5, 8, None)


async def test_a_transaction_that_ends_its_job_writes_the_last_report_with_it(app):
    @app.job
    def export(ctx: Context) -> None:
        ctx.report(1, 2)
        with ctx.transaction() as tx:
            ctx.report(2, 2, "committed")
            tx.result = "done"
        ctx.report(9, 9, "too late")

    handle = await export.aenqueue()
    tally = await drain(app)
    assert (tally.succeeded, tally.refused) == (1, 0)
    assert progress_of(app, handle.id) == (2, 2, "committed")


@on_postgres
async def test_a_transaction_that_holds_its_job_does_not_hold_up_the_progress_of_others(app, seconds):
    go, reported = asyncio.Event(), asyncio.Event()

    @app.job
    async def holds(ctx: Context) -> None:
        async with ctx.transaction():
            # An effect locks the row of the job until the commit.
            await ctx.aonce("charge", lambda: 1)
            ctx.report(1, 2, "held")
            await go.wait()

    @app.job
    async def works(ctx: Context) -> None:
        ctx.report(1, 2, "free")
        reported.set()
        await go.wait()

    held = await holds.aenqueue()
    async with app.worker():
        await until(lambda: len(seconds.slept) == 1)
        assert seconds.written == [[Report(1, 2, "held")]]
        assert progress_of(app, held.id) is None
        free = await works.aenqueue()
        await reported.wait()
        seconds.pass_by()
        await until(lambda: len(seconds.slept) == 2)
        assert {report.note for report in seconds.written[1]} == {"held", "free"}
        assert progress_of(app, free.id) == (1, 2, "free")
        assert progress_of(app, held.id) is None
        go.set()
        await held.ajoin(20)
    assert progress_of(app, held.id) == (1, 2, "held")


@on_postgres
async def test_a_row_that_was_locked_is_written_the_next_time(app, seconds):
    go = asyncio.Event()
    locked = asyncio.Event()

    @app.job
    async def export(ctx: Context) -> None:
        await locked.wait()
        ctx.report(1, 2)
        await go.wait()

    handle = await export.aenqueue()
    with closing(psycopg.connect(app.clients.url)) as connection:
        async with app.worker():
            await until(lambda: app.client.jobs.get(handle.id).state == JobState.RUNNING)
            connection.execute(
                f"SELECT FROM {app.clients.schema}.live WHERE id = %s FOR UPDATE", (handle.id,)
            )
            locked.set()
            await until(lambda: len(seconds.slept) == 1)
            assert progress_of(app, handle.id) is None
            connection.rollback()
            seconds.pass_by()
            await until(shows(app, handle.id, 1, 2, None))
            go.set()
            await handle.ajoin(20)
    assert seconds.written[:2] == [[Report(1, 2)]] * 2


async def test_a_database_that_is_away_is_asked_again_for_the_newest_report(app, monkeypatch):
    go, fails = asyncio.Event(), asyncio.Event()
    store = AsyncWorkerClient.store_progress

    async def stored(self, reports):
        if not fails.is_set():
            fails.set()
            raise StoreUnreachable("gone")
        return await store(self, reports)

    monkeypatch.setattr(AsyncWorkerClient, "store_progress", stored)

    @app.job
    async def export(ctx: Context) -> None:
        ctx.report(1, 2)
        await fails.wait()
        await go.wait()

    handle = await export.aenqueue()
    async with app.worker() as worker:
        await until(shows(app, handle.id, 1, 2, None))
        await until(lambda: not worker.parts.outage.lasts)
        go.set()
        await handle.ajoin(20)


async def test_a_report_of_a_thread_that_was_left_behind_changes_nothing(app, seconds):
    go, gone = threading.Event(), threading.Event()

    def linger(ctx: Context) -> None:
        go.wait(20)
        ctx.report(99, 100)
        gone.set()

    @app.job(max_attempts=2)
    def export(ctx: Context) -> None:
        if ctx.job.attempt == 1:
            threading.Thread(target=linger, args=(ctx,)).start()
            raise Retry("again", after=0)
        go.set()
        gone.wait(20)

    handle = await export.aenqueue()
    assert (await drain(app)).succeeded == 1
    assert progress_of(app, handle.id) is None
    assert [report for written in seconds.written for report in written] == []
