"""A handler that runs learns between its steps that it should give way."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, cast

import pytest

from onward import Cancelled, Context, JobFilter, JobState
from onward.worker.attempts.attempt import Running
from tests.worker.waiting import drain

pytestmark = pytest.mark.anyio


def pages(ctx: Context) -> None:
    for _ in ctx.progress([1]):
        ctx.log.info("a page")


BETWEEN: dict[str, Callable[[Context], Any]] = {
    "check_cancelled": lambda ctx: ctx.check_cancelled(),
    "progress": pages,
    "step": lambda ctx: ctx.step("next", lambda: 1),
    "once": lambda ctx: ctx.once("next", lambda: 1),
    "sleep": lambda ctx: ctx.sleep(60),
}


async def until_asked(ctx: Context) -> None:
    """Wait until the worker has heard of it, without being told."""
    while ctx._run.cancel_reason is None:  # noqa: ASYNC110 - nobody tells us
        await asyncio.sleep(0.005)


@pytest.mark.parametrize("name", BETWEEN)
async def test_a_sync_handler_gives_way_between_its_steps(app, name):
    # S4-71, S4-69
    after: list[str] = []

    @app.job
    def steps(ctx: Context) -> None:
        ctx.step("first", lambda: 1)
        app.client.jobs.cancel_where(JobFilter(job_type="steps"), reason="enough")
        asyncio.run(until_asked(ctx))
        BETWEEN[name](ctx)
        after.append("went on")

    job = await steps.aenqueue()
    await drain(app)
    ended = app.client.jobs.get(job.id)
    assert (ended.state, after) == (JobState.CANCELLED, [])
    assert [effect.name for effect in app.client.effects.list(job.id)] == ["first"]


@pytest.mark.parametrize("name", ["astep", "aonce"])
async def test_an_async_handler_gives_way_between_its_steps(app, name):
    # S4-71
    done: list[str] = []

    @app.job
    async def steps(ctx: Context) -> None:
        await ctx.astep("first", lambda: 1)
        await app.aclient.jobs.cancel_where(JobFilter(job_type="steps"), reason="enough")
        # As the worker does when it hears of it: the next wait is that of the step.
        cast("Running", ctx._run).cancel("requested")
        await getattr(ctx, name)("next", lambda: done.append("went on"))

    job = await steps.aenqueue()
    await drain(app)
    assert (app.client.jobs.get(job.id).state, done) == (JobState.CANCELLED, [])


async def test_who_has_been_told_may_still_undo_what_it_did(app):
    undone: list[str] = []

    @app.job
    def steps(ctx: Context) -> None:
        app.client.jobs.cancel_where(JobFilter(job_type="steps"), reason="enough")
        asyncio.run(until_asked(ctx))
        try:
            ctx.step("next", lambda: 1)
        except Cancelled:
            ctx.once("undo", lambda: undone.append("all of it"))
            raise

    job = await steps.aenqueue()
    await drain(app)
    assert (app.client.jobs.get(job.id).state, undone) == (JobState.CANCELLED, ["all of it"])
