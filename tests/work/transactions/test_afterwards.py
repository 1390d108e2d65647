"""After the commit the run is over for the database, whatever its handler or its connection does."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import psycopg
import pytest

from onward import Context, JobState, LeaseLost, NewJob
from onward.connections.shielded import unbroken_async
from onward.core.work.lifecycle import Transition
from onward.results import Job
from onward.worker.timings import Timings
from tests.work.transactions.cutting import break_off, cut, nothing
from tests.worker.waiting import drain, until

pytestmark = pytest.mark.anyio


async def test_what_a_handler_raises_after_its_commit_changes_nothing(app, books, caplog):
    told: list[Transition] = []

    @app.job
    def work(ctx: Context) -> None:
        with ctx.transaction() as tx:
            tx.connection.execute(books.insert, (1,))
            tx.result = 7
        raise KeyError("too late")

    job = await work.aenqueue()
    with caplog.at_level(logging.WARNING):
        tally = await drain(app, on_end=lambda _, to: told.append(to))
    assert (tally.processed, tally.succeeded, tally.refused) == (1, 1, 0)
    assert [(to.outcome, to.result) for to in told] == [("succeeded", 7)]
    assert app.client.jobs.get(job.id).result == 7
    assert len(app.client.jobs.attempts(job.id)) == 1
    [record] = [record for record in caplog.records if job.id in record.getMessage()]
    assert "stays succeeded" in record.getMessage()
    assert "KeyError" in record.getMessage()


async def test_what_a_handler_returns_after_its_commit_is_not_kept_and_that_is_told(app, books, caplog):
    @app.job
    async def work(ctx: Context, result: int | None) -> int:
        async with ctx.transaction() as tx:
            tx.result = result
        return 7

    forgotten = await work.aenqueue(result=None)
    with caplog.at_level(logging.WARNING):
        await drain(app)
    assert app.client.jobs.get(forgotten.id).result is None
    assert "set tx.result" in caplog.text
    caplog.clear()
    job = await work.aenqueue(result=7)
    with caplog.at_level(logging.WARNING):
        await drain(app)
    assert await job.aresult() == 7
    assert "set tx.result" not in caplog.text


@pytest.mark.parametrize("when", ["before", "after"])
async def test_a_commit_whose_answer_was_lost_is_what_the_database_says(app, books, when, caplog):
    told: list[Transition] = []

    @app.job(max_attempts=2)
    def work(ctx: Context) -> None:
        act = break_off if ctx.job.attempt == 1 else nothing
        # Where it broke before the commit, the handler can't tell the difference.
        acts = {when: act}
        with cut(books.url, **acts) as connection, ctx.transaction(connection) as tx:
            connection.execute(books.insert, (ctx.job.attempt,))
            tx.result = ctx.job.attempt
            ctx.meter("mail", cost_micros=5)

    job = await work.using(org_id="acme").aenqueue()
    with caplog.at_level(logging.WARNING):
        tally = await drain(app, on_end=lambda _, to: told.append(to))
        if when == "before":
            app.client.at(app.client.jobs.get(job.id).run_at).worker.promote()
            await drain(app)
    first = "succeeded" if when == "after" else "failed"
    assert [to.outcome for to in told] == [first]
    found = app.client.jobs.get(job.id)
    assert (found.state, [found.result]) == (JobState.SUCCEEDED, books.rows())
    assert found.cost_micros == (5 if when == "after" else 10)
    assert tally.refused == 0
    assert "is refused" not in caplog.text
    assert "job.stale_result_rejected" not in [event.event for event in app.client.jobs.events(job.id)]


async def test_a_lost_answer_of_a_job_that_was_reset_meanwhile_is_found_in_its_runs(app, books):
    @app.job
    def work(ctx: Context) -> None:
        first = ctx.job.lease == 1
        if first:
            app.client.enqueue(
                NewJob(job_type="work", key="k", on_conflict="reset", reset_from=frozenset(JobState))
            )
        with cut(books.url, after=break_off if first else nothing) as connection, ctx.transaction(connection):
            connection.execute(books.insert, (1,))

    job = await work.using(key="k").aenqueue()
    tally = await drain(app)
    assert (tally.succeeded, tally.retried, tally.refused) == (2, 0, 0)
    assert books.rows() == [1, 1]
    assert [run.outcome for run in app.client.jobs.attempts(job.id)] == ["succeeded", "succeeded"]


async def test_a_commit_that_comes_through_late_is_counted_as_what_it_is(app, books, caplog):
    # The failure is written while the commit is under way, and is refused by it.
    begun, go_on = threading.Event(), threading.Event()
    told: list[Transition] = []

    @app.job
    def work(ctx: Context) -> None:
        def wait() -> None:
            begun.set()
            assert go_on.wait(20)

        with cut(books.url, before=wait) as connection, ctx.transaction(connection):
            connection.execute(books.insert, (1,))

    job = await work.using(timeout=0.2).aenqueue()
    worker = app.worker(drain=True, on_end=lambda _, to: told.append(to), timings=Timings(stop=0.01))
    with caplog.at_level(logging.WARNING):
        running = asyncio.create_task(worker.run())
        await until(lambda: "runs on without a slot" in caplog.text)
        await until(worker.parts.finisher.ids)
        go_on.set()
        await running
    assert begun.is_set()
    assert books.rows() == [1]
    assert app.client.jobs.get(job.id).state == JobState.SUCCEEDED
    assert [to.outcome for to in told] == ["succeeded"]
    assert worker.tally.refused == 0
    assert "is refused" not in caplog.text


@pytest.mark.parametrize("why", ["cancelled", "timeout"])
async def test_a_handler_that_has_to_give_way_inside_the_block_writes_nothing(app, books, why):
    begun = asyncio.Event()

    @app.job(max_attempts=1)
    async def work(ctx: Context) -> None:
        async with ctx.transaction() as tx:
            await tx.connection.execute(books.insert, (1,))
            begun.set()
            await asyncio.sleep(60)

    job = await work.using(timeout=0.3 if why == "timeout" else None).aenqueue()
    worker = app.worker(drain=True)
    running = asyncio.create_task(worker.run())
    await begun.wait()
    if why == "cancelled":
        # As the keeper does: on SQLite the request itself would wait for the handler's transaction.
        worker.parts.executor.running.cancel(job.id, "requested", "enough")
    await running
    assert books.rows() == []
    assert app.client.jobs.get(job.id).state == ("cancelled" if why == "cancelled" else "dead")


async def test_a_thread_that_was_given_up_can_no_longer_commit(app, books):
    go_on = threading.Event()
    told: list[BaseException] = []

    @app.job(max_attempts=1)
    def work(ctx: Context) -> None:
        assert go_on.wait(20)
        try:
            with ctx.transaction() as tx:
                tx.connection.execute(books.insert, (1,))
        except LeaseLost as error:
            told.append(error)

    job = await work.using(timeout=0.05).aenqueue()
    await drain(app, timings=Timings(stop=0.01))
    assert app.client.jobs.get(job.id).state == JobState.DEAD
    go_on.set()
    await until(lambda: told)
    assert books.rows() == []


class SlowCommit(psycopg.AsyncConnection[Any]):
    """Waits in its commit until it is told to go on."""

    begun: asyncio.Event
    go_on: asyncio.Event

    @asynccontextmanager
    async def transaction(self, *args: Any, **options: Any) -> AsyncIterator[psycopg.AsyncTransaction]:
        async with super().transaction(*args, **options) as transaction:
            yield transaction
            self.begun.set()
            await self.go_on.wait()


@pytest.mark.parametrize("app", ["postgres"], indirect=True)
async def test_a_commit_that_is_under_way_is_not_broken_off(app, books):
    begun, go_on = asyncio.Event(), asyncio.Event()

    @app.job
    async def work(ctx: Context) -> None:
        async with await SlowCommit.connect(books.url) as connection:
            connection.begun, connection.go_on = begun, go_on
            async with ctx.transaction(connection):
                await connection.execute(books.insert, (1,))

    job = await work.aenqueue()
    worker = app.worker(drain=True)
    running = asyncio.create_task(worker.run())
    await begun.wait()
    worker.parts.executor.running.cancel(job.id, "requested", "enough")
    await asyncio.sleep(0)
    go_on.set()
    tally = await running
    assert books.rows() == [1]
    assert app.client.jobs.get(job.id).state == JobState.SUCCEEDED
    assert (tally.succeeded, tally.cancelled, tally.refused) == (1, 0, 0)


async def test_what_must_not_be_broken_off_ends_before_its_caller_is_cancelled():
    go_on, done = asyncio.Event(), []

    async def commit() -> None:
        await go_on.wait()
        done.append(1)

    waiting = asyncio.create_task(unbroken_async(commit()))
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.sleep(0)
    go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert done == [1]


async def test_what_fails_there_is_raised():
    async def fail() -> Job:
        raise KeyError("commit")

    with pytest.raises(KeyError):
        await unbroken_async(fail())
