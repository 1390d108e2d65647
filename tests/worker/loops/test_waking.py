"""A worker that waits is woken by name, and asks by itself only now and then."""

from __future__ import annotations

import asyncio

import psycopg
import pytest

from onward import Onward
from onward.clients.work.worker_client import AsyncWorkerClient
from onward.handlers.job_type import JobType
from onward.stores.postgres.sync.postgres_store import PostgresStore
from tests.stores.postgres.postgres_schema import clean_schema
from tests.worker.waiting import SOON, until

pytestmark = pytest.mark.anyio

JOBS = 20


@pytest.fixture
def place(postgres_url):
    with clean_schema(postgres_url) as store:
        yield Onward(store.url, schema=store.prefix.rstrip("."))


async def idle(app: Onward) -> None:
    """Wait until the worker has said in the database that it waits."""

    def marked() -> bool:
        store = app.client.store
        assert isinstance(store, PostgresStore)
        with psycopg.connect(store.url) as connection:
            query = f"SELECT count(idle_since) FROM {store.prefix}workers"
            return connection.execute(query.encode()).fetchone() == (1,)

    await until(marked)


async def test_a_worker_that_is_woken_for_each_job_does_not_look_for_each(place, monkeypatch):  # R17
    looks = 0
    ready_queues = AsyncWorkerClient.ready_queues

    async def counted(*arguments, **options):
        nonlocal looks
        looks += 1
        return await ready_queues(*arguments, **options)

    ran = asyncio.Queue[int]()

    @place.job
    async def note(n: int) -> None:
        ran.put_nowait(n)

    async with place.worker(), asyncio.timeout(SOON):
        await idle(place)
        # The first ones: until now it had no reason to trust that it is told.
        await note.aenqueue(n=-1)
        assert await ran.get() == -1
        monkeypatch.setattr(AsyncWorkerClient, "ready_queues", counted)
        for number in range(JOBS):
            await note.aenqueue(n=number)
            assert await ran.get() == number
    assert looks < JOBS / 2
    await place.aclose()


@pytest.fixture
def noted(place) -> tuple[JobType[[], None], asyncio.Event]:
    """A job type, and an event that its first run sets."""
    ran = asyncio.Event()

    @place.job
    async def note() -> None:
        ran.set()

    return note, ran


async def test_what_nobody_tells_of_is_found_by_asking(place, noted):  # S0-41
    note, ran = noted
    async with place.worker(), asyncio.timeout(SOON):
        await idle(place)
        prefix = place.client.store.prefix
        with psycopg.connect(place.client.store.url) as connection:
            # Whoever enqueues finds nobody to wake, and the worker does not know.
            connection.execute(f"UPDATE {prefix}workers SET idle_since = NULL".encode())
        await note.aenqueue()
        await ran.wait()
    await place.aclose()


async def test_a_queue_that_was_paused_is_looked_at_when_it_goes_on(place, noted):
    note, ran = noted
    other = asyncio.Event()

    @place.job(queue="q:other")
    async def elsewhere() -> None:
        other.set()

    await place.aclient.queues.pause("q:default", reason="a test")
    async with place.worker(), asyncio.timeout(SOON):
        await idle(place)
        await note.aenqueue()
        # Told of later: when this has run, the worker was told of the one before and left it alone.
        await elsewhere.aenqueue()
        await other.wait()
        assert not ran.is_set()
        await place.aclient.queues.resume("q:default")
        await ran.wait()
    await place.aclose()
