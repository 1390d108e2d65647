"""Points of the company-wide specification that are about a worker and the outside world."""

from __future__ import annotations

import asyncio
import logging
import re
from datetime import timedelta
from pathlib import Path

import pytest
import time_machine

from onward import Context, RateLimited, RetryPolicy
from tests.worker.waiting import drain

pytestmark = pytest.mark.anyio

GUIDE = Path(__file__).resolve().parents[2] / "docs" / "guide"
AT_ONCE = RetryPolicy(kind="fixed", base=timedelta(milliseconds=1), jitter=False, max_attempts=3)


async def test_a_call_that_hangs_is_cut_and_tried_again_with_the_same_key(app):
    # S4-4, S0-4: external calls are guarded by a time-out and by deduplication.
    charged: dict[str, int] = {}

    @app.job(key="charge_{order}", timeout="200ms", retry=AT_ONCE)
    async def charge(ctx: Context, order: int) -> str:
        assert ctx.job.key is not None
        charged[ctx.job.key] = charged.get(ctx.job.key, 0) + 1
        if ctx.job.attempt == 1:
            await asyncio.Event().wait()
        return ctx.job.key

    handle = await charge.aenqueue(order=7)
    await drain(app)
    assert await handle.aresult() == "charge_7"
    assert charged == {"charge_7": 2}


async def test_a_provider_says_how_long_to_wait_and_no_attempt_is_burnt(app):
    # S4-41
    waits = iter(["10ms", "20ms"])

    @app.job(max_attempts=1)
    async def push(ctx: Context) -> int:
        if (wait := next(waits, None)) is not None:
            raise RateLimited(after=wait)
        return ctx.job.attempt

    handle = await push.aenqueue()
    await drain(app)
    assert await handle.aresult() == 1
    job = await handle.arefresh()
    assert (job.waits, job.attempt) == (2, 1)


async def test_a_job_that_dies_is_told_once_in_the_audit_and_in_the_log(app, caplog):
    # S4-42
    @app.job(retry=AT_ONCE)
    async def fail() -> None:
        raise RuntimeError("no luck")

    handle = await fail.aenqueue()
    with caplog.at_level(logging.INFO, logger="onward"):
        tally = await drain(app)
    assert (tally.dead, tally.retried) == (1, 2)
    events = [event.event for event in await app.aclient.jobs.events(handle.id)]
    assert events.count("job.deadlettered") == 1
    assert events[-1] == "job.deadlettered"


@pytest.mark.parametrize("app", ["postgres"], indirect=True)
async def test_a_clock_that_is_off_by_more_than_a_minute_is_reported_once(app, caplog):
    # S4-67, R19, F39: the database's clock decides, and nothing runs early.

    @app.job
    async def work() -> None: ...

    early = await work.using(delay="1h").aenqueue()
    due = await work.aenqueue()
    with time_machine.travel(timedelta(seconds=7200), tick=True), caplog.at_level(logging.WARNING):
        await drain(app)
    assert (await due.arefresh()).state == "succeeded"
    assert (await early.arefresh()).state == "scheduled"
    said = [record.getMessage() for record in caplog.records if "clock" in record.getMessage()]
    assert len(said) == 1
    assert re.search(r"7\d{3} s ahead of the database", said[0])


async def test_a_clock_within_a_minute_is_not_worth_a_word(app, caplog):
    # S4-67
    with time_machine.travel(timedelta(seconds=30), tick=True), caplog.at_level(logging.WARNING):
        await drain(app)
    assert "clock" not in caplog.text


def test_the_guide_says_when_to_use_a_job_and_where_each_point_is_defined():
    # S4-6, S4-7, S4-72, S4-73, S4-74
    text = (GUIDE / "contract.md").read_text()
    assert "300 ms" in text
    assert "2 s at worst" in text
    points = re.findall(
        r"^\| ([^|]+) \| .*\]\(", text.split("## The contract, point by point")[1], re.MULTILINE
    )
    assert len(points) >= 6
    assert "small write to be consistent at once" in text
    assert "Workers are Onward's own. Keys are in the same" in text
