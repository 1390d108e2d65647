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
    # S4-42, S4-45
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
    [told] = [record.getMessage() for record in caplog.records if record.name == "onward.alerts"]
    assert "fail" in told
    assert "no luck" in told


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


def test_the_guide_links_to_the_definition_of_each_of_the_seven_points():  # S4-72
    points = re.findall(r"^\| ([^|]+) \| (.+) \|$", contract_points(), re.MULTILINE)[1:]
    assert len(points) == 7
    for point, where in points:
        links = re.findall(r"\]\(([^)#]*)#?([^)]*)\)", where)
        assert links, f"{point}: nothing says where it is defined"
        for file, anchor in links:
            page = (GUIDE / (file or "contract.md")).read_text()
            assert not anchor or anchor in anchors(page), f"{point}: {file}#{anchor} is no heading"


def contract_points() -> str:
    return (GUIDE / "contract.md").read_text().split("## The contract, point by point")[1]


def anchors(page: str) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", page, re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}
