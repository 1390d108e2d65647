"""A transaction that is open for long, or for ever, holds up as little else as can be."""

from __future__ import annotations

import asyncio
import random
import sqlite3
import threading
from datetime import timedelta

import pytest

from onward import Context, JobState, NewJob
from onward.connections import begin_async, shielded
from onward.worker.timings import Timings
from tests.worker.waiting import SOON, drain, until

pytestmark = pytest.mark.anyio

on_sqlite = pytest.mark.parametrize("app", ["sqlite"], indirect=True)
on_postgres = pytest.mark.parametrize("app", ["postgres"], indirect=True)


@on_sqlite
async def test_more_blocks_at_once_than_the_loop_has_threads_do_not_wait_for_each_other(app, books):
    @app.job(max_attempts=1)
    async def work(ctx: Context, n: int) -> None:
        async with ctx.transaction() as tx:
            await tx.connection.execute(books.insert, (n,))

    await app.aenqueue_many([work.build(n=n) for n in range(40)])
    assert (await drain(app, concurrency=40)).succeeded == 40
    assert books.rows() == list(range(40))


@on_sqlite
async def test_who_is_cancelled_while_it_waits_for_the_write_lock_leaves_no_trace(app, books, monkeypatch):
    # Its connection must not be closed while a thread is at it: that has crashed the process.
    monkeypatch.setattr(shielded, "_PATIENCE", 0.01)
    store = app.clients.current().store
    lent = await store.connect()

    async def wait() -> None:
        try:
            async with begin_async(lent, store.database, store.prefix):
                raise AssertionError
        finally:
            await lent.close()

    with books.connected() as other:
        other.execute("BEGIN IMMEDIATE")
        waiting = asyncio.create_task(wait())
        await asyncio.sleep(0)
        for _ in range(3):
            # The begin, its undoing and the close: none of them is waited for.
            waiting.cancel()
            await asyncio.sleep(0.05)
        assert waiting.cancelled()
        other.rollback()
        await until(lambda: not any(thread.name.startswith("onward tr") for thread in threading.enumerate()))
        other.execute("BEGIN IMMEDIATE")
    with pytest.raises(sqlite3.ProgrammingError, match="closed"):
        lent.sync.execute("SELECT 1")


async def test_a_handler_that_is_cancelled_anywhere_has_written_all_or_nothing(app, books):  # F48
    dice = random.Random(2026)

    @app.job(max_attempts=1, queue="q:other")
    async def follow() -> None: ...

    @app.job(max_attempts=1)
    async def work(ctx: Context, n: int) -> None:
        async with ctx.transaction() as tx:
            await tx.connection.execute(books.insert, (n,))
            await tx.enqueue(follow.build())
            await ctx.aonce("charge", lambda: 1)

    jobs = await app.aenqueue_many([work.build(n=n) for n in range(40)])
    worker = app.worker(drain=True, concurrency=3, queues={"q:default": None})
    running = asyncio.create_task(worker.run())
    while not running.done():
        await asyncio.sleep(dice.uniform(0, 0.012))
        for job_id in list(worker.parts.executor.running.runs)[:1]:
            worker.parts.executor.running.cancel(job_id, "requested", "enough")
    tally = await running
    done = [n for n, job in enumerate(jobs) if app.client.jobs.get(job.id).state == JobState.SUCCEEDED]
    assert books.rows() == done
    assert len([job for job in app.client.jobs.list().items if job.job_type == "follow"]) == len(done)
    assert (tally.succeeded, tally.cancelled, tally.refused) == (len(done), 40 - len(done), 0)


@on_postgres
async def test_a_thread_that_is_given_up_in_its_block_holds_up_no_other_end(app, books):  # F12
    begun, go_on = threading.Event(), threading.Event()

    @app.job(max_attempts=1)
    def stuck(ctx: Context) -> None:
        with ctx.transaction():
            # From here on the row of the job is locked.
            ctx.audit("half way")
            begun.set()
            assert go_on.wait(SOON)

    @app.job
    async def quick() -> None: ...

    job = await stuck.using(timeout=0.1).aenqueue()
    async with app.worker(timings=Timings(stop=0.01)) as worker:
        await until(lambda: begun.is_set() and worker.parts.finisher.ids())
        other = await quick.aenqueue()
        await until(lambda: app.client.jobs.get(other.id).state == JobState.SUCCEEDED)
        assert app.client.jobs.get(job.id).state == JobState.RUNNING
        go_on.set()
        await until(lambda: app.client.jobs.get(job.id).state != JobState.RUNNING)


@on_postgres
async def test_a_worker_that_is_frozen_in_its_block_holds_up_no_other_rescue(app, books):  # F04, F13b
    client = app.client
    for worker in ("frozen", "dead"):
        client.worker.register(worker)
        client.enqueue(NewJob(job_type="t"))
    [locked] = client.worker.claim("q:default", worker_id="frozen")
    [other] = client.worker.claim("q:default", worker_id="dead")
    assert other.started_at is not None
    later = other.started_at + timedelta(days=1)
    with books.connected() as connection:
        client.within(connection).worker.note(locked.held_lease, "half way", {})
        async with asyncio.timeout(SOON / 2):
            assert (await app.clients.current().at(later).worker.rescue()).held == {other.id}
        connection.rollback()
    assert client.at(later).worker.rescue().held == {locked.id}


@pytest.mark.parametrize("awaited", [False, True])
async def test_a_handler_that_returns_with_its_transaction_open_has_failed(app, books, awaited):
    @app.job(max_attempts=1)
    def plain(ctx: Context) -> None:
        tx = ctx.transaction().__enter__()
        tx.connection.execute(books.insert, (1,))

    @app.job(max_attempts=1, name="awaited")
    async def awaits(ctx: Context) -> None:
        tx = await ctx.transaction().__aenter__()
        await tx.connection.execute(books.insert, (1,))

    job = await (awaits if awaited else plain).aenqueue()
    assert (await drain(app)).dead == 1
    error = app.client.jobs.get(job.id).error
    assert error is not None
    assert (error.error_class, error.rule) == ("TransactionOpen", "transaction_open")
    assert books.rows() == []
