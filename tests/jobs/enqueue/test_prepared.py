"""Enqueues that come again and again: prepared once on each connection, without psycopg's cursors."""

import asyncio
from collections.abc import Iterator

import psycopg
import pytest

from onward import AsyncClient, Client, NewJob
from onward.errors import StoreBusy, StoreUnreachable
from onward.stores import open_async_store, open_store
from onward.stores.postgres.postgres_store import AsyncPostgresStore
from onward.stores.postgres.sync.pool import Pooled
from onward.stores.postgres.sync.postgres_store import PostgresStore
from tests.stores.postgres.postgres_schema import clean_schema
from tests.stores.sqlite.blocking import waiting

pytestmark = pytest.mark.anyio

OURS = "SELECT count(*) FROM pg_prepared_statements WHERE name LIKE 'onward%'"
JOB, HELD = NewJob(job_type="t"), NewJob(job_type="t", key="held")


@pytest.fixture
def store(postgres_url) -> Iterator[PostgresStore]:
    with clean_schema(postgres_url) as store:
        yield store


@pytest.fixture
def client(store) -> Iterator[Client]:
    with Client(store=open_store(store.url, schema=store.prefix.rstrip("."))) as client:
        yield client


def pooled(client: Client) -> Pooled:
    """Give the only connection of a client."""
    assert isinstance(client.store, PostgresStore)
    [connection] = client.store.pool._waiting
    return connection


def prepared(client: Client) -> int:
    [(count,)] = pooled(client).execute(OURS).fetchall()
    return int(count)


def stored(client: Client) -> int:
    return len(client.jobs.list().items)


def test_once_it_came_five_times(client):
    counts = []
    for _ in range(7):
        client.enqueue(JOB)
        counts.append(prepared(client))
    assert counts == [0, 0, 0, 0, 0, 1, 1]
    assert stored(client) == 7


async def test_so_does_one_that_is_awaited(store):
    own = open_async_store(store.url, schema=store.prefix.rstrip("."))
    async with AsyncClient(store=own) as client:
        for _ in range(7):
            await client.enqueue(JOB)
        assert isinstance(own, AsyncPostgresStore)
        [connection] = own.pool._waiting
        assert await (await connection.execute(OURS)).fetchone() == (1,)
        assert len(await client.jobs.list()) == 7


def test_answers_and_values_are_those_of_a_cursor(client):
    told = NewJob(
        job_type="t", payload={"text": "Zoë \\ ' \" \u2028", "n": 2**60, "x": 0.1, "none": None},
        key="k", tags=["a", "b"], priority=3, subject="s",
    )  # fmt: skip
    answers = [client.enqueue(told) for _ in range(7)]
    assert prepared(client) == 1
    assert [answer.created for answer in answers] == [True] + [False] * 6
    assert {answer.id for answer in answers} == {answers[0].id}
    other = client.enqueue(
        NewJob(job_type="t", payload=told.payload, key="l", tags=["c"], priority=4, subject="u")
    )
    job = client.jobs.get(other.id)
    assert (job.payload, job.key, job.priority, job.subject) == (told.payload, "l", 4, "u")


def test_what_was_forgotten_is_prepared_again(client):
    for _ in range(6):
        client.enqueue(JOB)
    pooled(client).execute("DEALLOCATE ALL")
    client.enqueue(JOB)
    assert (stored(client), prepared(client)) == (7, 1)


def test_an_error_of_the_server_leaves_the_connection_as_it_was(client, store):
    for number in range(6):
        client.enqueue(NewJob(job_type="t", key=f"free {number}"))
    connection = pooled(client)
    connection.execute("SET lock_timeout = '1ms'")
    with psycopg.connect(store.url) as other:
        client.within(other).enqueue(HELD)
        with pytest.raises(StoreBusy, match="nothing was stored"):
            client.enqueue(HELD)
        assert client.enqueue(NewJob(job_type="t", key="free")).created
        other.rollback()
    assert client.enqueue(HELD).created
    assert (pooled(client), prepared(client), stored(client)) == (connection, 1, 8)


def test_a_server_that_goes_is_told_of_and_found_again(client, postgres_url):
    for _ in range(6):
        client.enqueue(JOB)
    with psycopg.connect(postgres_url, autocommit=True) as operator:
        operator.execute("SELECT pg_terminate_backend(%s, 5000)", (pooled(client).info.backend_pid,))
    with pytest.raises(StoreUnreachable):
        client.enqueue(JOB)
    for _ in range(6):
        client.enqueue(JOB)
    assert (stored(client), prepared(client)) == (12, 1)


def test_no_more_forms_are_kept_than_are_common(client, monkeypatch):
    monkeypatch.setattr("onward.connections.libpq.prepared.MOST_PREPARED", 1)
    for _ in range(7):
        client.enqueue(JOB)
        client.enqueue(NewJob(job_type="t", subject="s"))
    assert (stored(client), prepared(client)) == (14, 1)


def test_not_within_a_transaction_which_could_not_be_tried_again(client, store):
    for _ in range(7):
        client.enqueue(NewJob(job_type="t", key="k", on_conflict="replace"))
    assert (stored(client), prepared(client)) == (1, 0)
    with psycopg.connect(store.url) as connection:
        for _ in range(7):
            client.within(connection).enqueue(JOB)
        assert connection.execute(OURS).fetchone() == (0,)
    assert stored(client) == 8


def test_not_where_a_pooler_stands_between(client):
    client.store.pooler = True
    for _ in range(7):
        client.enqueue(JOB)
    assert (stored(client), prepared(client)) == (7, 0)


async def test_who_is_cancelled_leaves_a_connection_that_is_at_rest_or_none(store):
    own = open_async_store(store.url, schema=store.prefix.rstrip("."))
    async with AsyncClient(store=own) as client:
        for number in range(6):
            await client.enqueue(NewJob(job_type="t", key=f"free {number}"))
        async with await psycopg.AsyncConnection.connect(store.url) as other:
            await client.within(other).enqueue(HELD)
            asked = asyncio.create_task(client.enqueue(HELD))
            await waiting(other)
            asked.cancel()
            with pytest.raises(asyncio.CancelledError):
                await asked
            await other.rollback()
        assert (await client.enqueue(HELD)).created, "what was cancelled has stored nothing"
