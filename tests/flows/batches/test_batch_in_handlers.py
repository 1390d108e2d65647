"""Batches as an application has them: made and filled by it, run by a worker, added to by their own jobs."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from onward import BatchFailed, Context, InvalidSetting, JobNotEnded, JobState
from onward.core.work.error_record import ErrorRecord
from onward.errors import BatchClosed
from tests.worker.waiting import drain

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("kind", ["sync", "async"])
async def test_a_batch_grows_while_it_runs_and_its_callback_sees_all_of_it(app, kind):
    seen: list[Any] = []

    if kind == "sync":

        @app.job
        def page(ctx: Context, number: int, more: int) -> None:
            for at in range(more):
                ctx.batch.add(page.build(number=number * 10 + at, more=0))

        @app.job
        def after(ctx: Context) -> None:
            seen.append(
                (ctx.batch.refresh(), [job.payload for job in ctx.client.batches.jobs(ctx.batch.id).items])
            )

    else:

        @app.job
        async def page(ctx: Context, number: int, more: int) -> None:
            for at in range(more):
                await ctx.batch.aadd(page.build(number=number * 10 + at, more=0))

        @app.job
        async def after(ctx: Context) -> None:
            jobs = await ctx.aclient.batches.jobs(ctx.batch.id)
            seen.append((await ctx.batch.arefresh(), [job.payload for job in jobs]))

    batch = await app.aenqueue_batch(
        [page.build(number=1, more=2), page.build(number=2, more=1)], on_complete=after.build(), name="pages"
    )
    await drain(app)
    [(counts, payloads)] = seen
    assert (counts.total, counts.succeeded, counts.waiting, counts.name) == (5, 5, 0, "pages")
    assert sorted(payload["number"] for payload in payloads) == [1, 2, 10, 11, 20]
    assert (await batch.aresult()).ended_at is not None
    children = [job for job in app.client.batches.jobs(batch.id).items if job.payload["number"] == 10]
    assert children[0].parent_id is not None


async def test_a_callback_may_not_add_to_the_batch_that_it_comes_after(app):
    refused: list[str] = []

    @app.job
    def work() -> None: ...

    @app.job
    def after(ctx: Context) -> None:
        with pytest.raises(BatchClosed) as error:
            ctx.batch.add(work.build())
        refused.append(str(error.value))

    await app.aenqueue_batch([work.build()], on_success=after.build())
    await drain(app)
    assert "has ended" in refused[0]


async def test_a_job_of_no_batch_has_none(app):
    told: list[str] = []

    @app.job
    def alone(ctx: Context) -> None:
        with pytest.raises(InvalidSetting) as error:
            ctx.batch.refresh()
        told.append(str(error.value))

    await alone.aenqueue()
    await drain(app)
    assert "is in no batch" in told[0]


def test_a_block_fills_a_batch_and_closes_it(app):
    @app.job
    def work(number: int) -> None: ...

    @app.job
    def after() -> None: ...

    with app.batch(on_complete=after.build(), name="filled") as batch:
        [handle] = batch.add(work.build(number=1))
        batch.add(work.build(number=2), work.build(number=3))
        work.using(batch=batch).enqueue(number=4)
        assert batch.refresh().open
    assert handle.refresh().batch_id == batch.id
    told = batch.refresh()
    assert (told.total, told.open, told.name) == (4, False, "filled")
    with pytest.raises(JobNotEnded, match="has 4 of 4 jobs left after 0 s"):
        batch.result(timeout=0)
    with pytest.raises(BatchClosed):
        work.using(batch=batch.id).enqueue(number=5)


def test_a_block_that_raises_cancels_what_it_added(app):
    @app.job
    def work() -> None: ...

    batch = app.batch(on_failure=work.using(queue="q:after").build())

    def fill() -> None:
        with batch:
            batch.add(work.build(), work.build())
            raise LookupError

    with pytest.raises(LookupError):
        fill()
    told = batch.join()
    assert (told.cancelled, told.total) == (2, 2)
    assert app.client.jobs.get(told.callbacks["on_failure"]).state == JobState.QUEUED
    [job, _] = app.client.batches.jobs(batch.id).items
    assert job.error == ErrorRecord(reason="the block that filled it raised LookupError")
    with pytest.raises(
        BatchFailed, match=r"of 2 jobs of batch .*, 0 are dead and 2 cancelled; join\(\)"
    ) as failed:
        batch.result()
    assert (failed.value.batch_id, failed.value.code) == (batch.id, "ON-BAT-003")


async def test_the_same_awaited(app):
    @app.job
    async def work() -> None: ...

    async with app.batch() as batch:
        [handle] = await batch.aadd(work.build())
    assert (await handle.arefresh()).batch_id == batch.id
    assert (await batch.arefresh()).waiting == 1
    failed = app.batch()

    async def fill() -> None:
        async with failed:
            await failed.aadd(work.build())
            raise LookupError

    with pytest.raises(LookupError):
        await fill()
    assert (await failed.ajoin(5)).cancelled == 1
    with pytest.raises(BatchFailed):
        await failed.aresult(5)
    with pytest.raises(InvalidSetting, match="was made already"):
        async with batch:
            await asyncio.sleep(0)


def test_a_wrong_option_of_a_batch_is_refused(app):
    with pytest.raises(InvalidSetting, match=r'no option "on_sucess"\. Did you mean "on_success"'):
        app.enqueue_batch([], on_sucess=None)
    with pytest.raises(InvalidSetting, match="batch"):
        app.batch(timeout=1)
