"""One question a second tells a worker what to do by the clock; what nobody can do now costs little."""

from __future__ import annotations

import asyncio
import time
from datetime import datetime, timedelta

import psycopg
import pytest

from onward import NewJob, Onward
from onward.clients.work.worker_client import AsyncWorkerClient
from onward.connections import begin
from onward.operations.schedules.fire import Known
from onward.worker.loops.due_poll import DuePoll
from onward.worker.outage import Outage
from tests.stores.postgres.postgres_schema import clean_schema
from tests.worker.waiting import until

pytestmark = pytest.mark.anyio

NOW = datetime.fromisoformat("2026-03-01T12:00:00+00:00")
SECOND = timedelta(seconds=1)
KNOWN = Known({"t"})


def test_an_empty_database_has_nothing_to_do(client):
    found = client.at(NOW).worker.due(KNOWN)
    assert (found.now, found.next_due, found.next_occurrence) == (NOW, None, None)
    assert not found.follow_up
    assert not found.signals


def test_it_tells_when_jobs_and_slots_are_due(client):
    client.at(NOW).enqueue(NewJob(job_type="t", run_at=NOW + 5 * SECOND))
    client.at(NOW).schedules.add("s", "t", every="7s", anchor=NOW)
    found = client.at(NOW + 9 * SECOND).worker.due(KNOWN)
    assert (found.next_due, found.next_occurrence) == (NOW + 5 * SECOND, NOW + 7 * SECOND)
    assert client.at(NOW).worker.due(Known({"other"})).next_occurrence is None


def test_a_signal_is_fresh_until_somebody_has_looked(client):
    connection = client.store.connect()
    with begin(connection, client.store.database, client.store.prefix):
        client.within(connection).signals.send("approved")
    connection.close()
    assert client.worker.due(KNOWN).signals
    client.worker.signals.wake()
    assert not client.worker.due(KNOWN).signals


async def test_a_due_job_that_a_caller_holds_is_tried_once_a_second(postgres_url, monkeypatch):
    """A worker that asks without end, thousands of times a second, costs the others their database."""
    tried: list[float] = []
    promote = AsyncWorkerClient.promote

    async def counted(*arguments, **options):
        tried.append(time.monotonic())
        return await promote(*arguments, **options)

    monkeypatch.setattr(AsyncWorkerClient, "promote", counted)
    with clean_schema(postgres_url) as store:
        app = Onward(store.url, schema=store.prefix.rstrip("."))
        job = app.client.at(NOW).enqueue(NewJob(job_type="t", run_at=NOW + SECOND))
        with psycopg.connect(store.url) as caller:
            caller.execute(f"SELECT FROM {store.prefix}live WHERE id = %s FOR UPDATE".encode(), [job.id])
            async with app.worker():
                await until(lambda: len(tried) >= 2)
                assert tried[1] - tried[0] > 0.7
                caller.rollback()
                await until(lambda: app.client.worker.ready_queues().next_due is None)
        await app.aclose()


async def test_what_gets_on_is_gone_on_with_at_once(app):
    app.client.at(NOW).enqueue(NewJob(job_type="t", run_at=NOW + SECOND))
    done: list[float] = []

    async def some() -> bool:
        done.append(time.monotonic())
        return True

    asking = app.clients.open_async()
    due_poll = DuePoll(asking, Outage(), lambda: KNOWN)
    loops = [asyncio.create_task(one) for one in (due_poll.run(), due_poll.see_to(due_poll.jobs, some, "t"))]
    await until(lambda: len(done) >= 5)
    assert done[4] - done[0] < 0.7
    for loop in loops:
        loop.cancel()
    await asyncio.wait(loops)
    await asking.close()
