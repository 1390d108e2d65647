"""A handler that comes upon a cancellation which nobody asked for: it fails, and its slot goes on."""

from __future__ import annotations

import asyncio

import pytest

from onward.results import Job
from tests.worker.waiting import drain

pytestmark = pytest.mark.anyio


async def awaits_a_cancelled_task() -> None:
    task = asyncio.create_task(asyncio.sleep(60))
    await asyncio.sleep(0)
    task.cancel()
    await task


async def raises_at_once() -> None:
    raise asyncio.CancelledError


def raises_in_a_thread() -> None:
    raise asyncio.CancelledError


async def never_runs() -> None: ...


def no_provider(_job: Job) -> str:
    raise asyncio.CancelledError


@pytest.mark.parametrize(
    ("handler", "options"),
    [
        (awaits_a_cancelled_task, {}),
        (raises_at_once, {}),
        (raises_in_a_thread, {}),
        (never_runs, {"provider": no_provider}),
    ],
    ids=["task", "at once", "thread", "provider"],
)
async def test_what_was_cancelled_inside_of_a_handler_is_a_failure_and_costs_no_slot(app, handler, options):
    failing = app.job(handler, **options) if not options else app.job(**options)(handler)

    @app.job
    async def other() -> None: ...

    # More than there are slots.
    jobs = [await failing.aenqueue() for _ in range(3)]
    await other.aenqueue()
    tally = await drain(app, concurrency=2, max_jobs=4)
    assert (tally.retried, tally.succeeded) == (3, 1)
    found = app.client.jobs.get_many([job.id for job in jobs]).values()
    assert {(job.error.error_class, job.error.rule) for job in found} == {("CancelledError", "unclassified")}
