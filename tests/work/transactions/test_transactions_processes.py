"""A child process ends its job in its own transaction, and tells its worker; or dies before it can."""

from __future__ import annotations

import asyncio
import logging

import pytest

from onward import JobState, Onward
from onward.clients.jobs.jobs import AsyncJobs
from onward.core.work.lifecycle import Transition
from onward.worker.tally import Tally
from onward.worker.worker import Worker
from tests.work.transactions import transactions_process_jobs as process_jobs
from tests.worker.waiting import SOON

pytestmark = pytest.mark.anyio


async def drain(app: Onward, told: list[Transition]) -> Tally:
    """Run the job types of another module on the database of this test."""
    async with asyncio.timeout(SOON):
        return await Worker(
            process_jobs.app.handlers,
            app.clients,
            drain=True,
            concurrency=1,
            on_end=lambda _, to: told.append(to),
        ).run()


async def test_a_process_completes_its_job_together_with_what_it_wrote(app, books, monkeypatch):
    told: list[Transition] = []
    # The commit is confirmed, so the worker need not ask the database for it.
    monkeypatch.delattr(AsyncJobs, "get_many")
    job = app.client.enqueue(process_jobs.book.build(books.insert, 7))
    tally = await drain(app, told)
    assert books.rows() == [7]
    found = app.client.jobs.get(job.id)
    assert (found.state, found.attempt, found.result["booked"]) == (JobState.SUCCEEDED, 2, 7)
    assert (tally.succeeded, tally.retried, tally.refused) == (2, 1, 0)
    assert found.result in [to.result for to in told]
    assert [child.parent_id for child in app.client.jobs.list().items].count(job.id) == 1
    # Of the run that failed and of the one that committed.
    used = [(event.attempt, event.amount) for event in app.client.usage.events(job.id)]
    assert used == [(1, 2.0), (2, 2.0)]
    assert found.cost_micros == 6


@pytest.mark.parametrize(("when", "runs"), [("before", 2), ("after", 1), ("later", 1)])
async def test_a_process_that_dies_around_its_commit_has_written_all_or_nothing(  # F02, F08
    app, books, when, runs, caplog
):
    told: list[Transition] = []
    new = process_jobs.book_and_die.build(books.url, books.insert, 7, when)
    job = app.client.enqueue(new)
    with caplog.at_level(logging.WARNING):
        tally = await drain(app, told)
        if runs == 2:
            assert app.client.jobs.get(job.id).error.error_class == "ProcessDied"
            app.client.at(app.client.jobs.get(job.id).run_at).worker.promote()
            await drain(app, told)
    assert books.rows() == [7]
    found = app.client.jobs.get(job.id)
    assert (found.state, found.attempt, found.result) == (JobState.SUCCEEDED, runs, 7)
    assert [to.outcome for to in told] == ["failed", "succeeded"][-runs:]
    # Only the database knew what had become of it, and it was asked before anything was written.
    assert tally.refused == 0
    assert "is refused" not in caplog.text
    assert "job.stale_result_rejected" not in [event.event for event in app.client.jobs.events(job.id)]
