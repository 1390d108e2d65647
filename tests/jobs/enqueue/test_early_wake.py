"""Workers at rest are woken before the disk has a job; whoever enqueued it goes on only after that."""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import timedelta
from uuid import uuid4

import psycopg
import pytest

from onward import AsyncClient, Client, JobState, NewJob
from onward.connections.libpq import prepared
from onward.sql.catalogue import Content, catalogue, formed
from onward.stores import open_async_store
from onward.stores.postgres.postgres_store import AsyncPostgresStore
from onward.stores.postgres.sync.postgres_store import PostgresStore
from tests.extent import FULL
from tests.postgres import PostgresServer, fresh_database, start_postgres
from tests.stores.postgres.postgres_schema import clean_schema, fresh_schema
from tests.tenancy.plain_role import plain_role

pytestmark = pytest.mark.anyio

JOB = NewJob(job_type="t")
WAITED = "SELECT count(*) FROM pg_prepared_statements WHERE statement LIKE '%emit_message%'"
LONG = timedelta(hours=1)


@pytest.fixture
def client(postgres_url) -> Iterator[Client]:
    with clean_schema(postgres_url) as store:
        yield often(Client(store=store))


def often(client: Client) -> Client:
    """Enqueue often enough for the statement to be prepared."""
    for _ in range(6):
        client.enqueue(JOB)
    return client


def rest(client: Client) -> None:
    """Have a worker that waits for jobs."""
    client.worker.register("w", lease=LONG)
    client.worker.extend("w", [], lease=LONG, idle=True)


def waited(client: Client) -> bool:
    """Tell whether the only connection of a client has ever waited for the disk."""
    assert isinstance(client.store, PostgresStore)
    [connection] = client.store.pool._waiting
    return connection.execute(WAITED).fetchone() == (1,)


def test_only_while_a_worker_waits(client):
    client.enqueue(JOB)
    assert not waited(client)
    rest(client)
    made = client.enqueue(JOB)
    assert waited(client)
    assert (made.created, made.state, client.jobs.get(made.id).state) == (True, "queued", "queued")


async def test_so_does_one_that_is_awaited(postgres_url):
    with clean_schema(postgres_url) as store:
        rest(Client(store=store))
        own = open_async_store(store.url, schema=store.prefix.rstrip("."))
        async with AsyncClient(store=own) as client:
            for _ in range(7):
                made = await client.enqueue(JOB)
            assert isinstance(own, AsyncPostgresStore)
            [connection] = own.pool._waiting
            assert await (await connection.execute(WAITED)).fetchone() == (1,)
            assert (made.state, (await client.jobs.get(made.id)).state) == ("queued", "queued")


def test_whoever_waits_is_told(client):
    rest(client)
    with psycopg.connect(client.store.url, autocommit=True) as listener:
        listener.execute(f'LISTEN "{client.store.prefix.rstrip(".")}"')
        client.enqueue(JOB)
        assert [notice.payload for notice in listener.notifies(timeout=5, stop_after=1)] == ["q:default"]


@pytest.mark.parametrize(
    "new",
    [
        # What is found by its key would be told of by somebody who writes nothing, and waits for no disk.
        NewJob(job_type="t", key="k", on_conflict="return", unique="active"),
        NewJob(job_type="t", delay=LONG),
        NewJob(job_type="t", limit_key="limit"),
    ],
    ids=["with a key", "for later", "with a limit"],
)
def test_not_a_job(client, new):
    rest(client)
    for _ in range(7):
        made = client.enqueue(new)
    assert not waited(client)
    assert client.jobs.get(made.id).state == made.state != JobState.RUNNING


def test_several_at_once_are_told_of_and_waited_for_once(client):
    rest(client)
    jobs = [*[NewJob(job_type="t", payload={"n": n}) for n in range(30)], NewJob(job_type="t", delay=LONG)]
    with psycopg.connect(client.store.url, autocommit=True) as listener:
        listener.execute(f'LISTEN "{client.store.prefix.rstrip(".")}"')
        made = [client.enqueue_many(jobs) for _ in range(7)]
        assert {notice.payload for notice in listener.notifies(timeout=5, stop_after=7)} == {"q:default"}
    assert waited(client)
    for answers in made:
        assert all(answer.created for answer in answers)
        assert [answer.state for answer in answers] == ["queued"] * 30 + ["scheduled"]
        assert len(client.jobs.get_many([answer.id for answer in answers])) == 31


def test_not_more_than_one_statement_takes(client, monkeypatch):
    monkeypatch.setattr("onward.clients.sync.jobs.storing._PART", 10)
    rest(client)
    for _ in range(7):
        assert len(client.enqueue_many([NewJob(job_type="t", payload={"n": n}) for n in range(30)])) == 30
    assert not waited(client)


def test_a_callers_transaction_waits_for_the_disk_as_it_would_have(client):
    rest(client)
    with psycopg.connect(client.store.url) as tx:
        for _ in range(7):
            client.within(tx).enqueue(JOB)
            assert tx.execute("SHOW synchronous_commit").fetchone() == ("on",)


def test_the_next_transaction_of_the_connection_does_too(client):
    rest(client)
    client.enqueue(JOB)
    [connection] = client.store.pool._waiting
    assert connection.execute("SHOW synchronous_commit").fetchone() == ("on",)


@pytest.mark.parametrize("allowed", [True, False])
def test_only_who_may_write_to_the_log(postgres_server_url, allowed):
    with (
        fresh_database(postgres_server_url, f"early_{os.getpid()}_{uuid4().hex[:8]}") as url,
        fresh_schema(url) as store,
    ):
        rest(Client(store=store))
        with psycopg.connect(url) as owner:
            functions = owner.execute(
                "SELECT oid::regprocedure FROM pg_proc WHERE proname = 'pg_logical_emit_message'"
            ).fetchall()
            for (function,) in [] if allowed else functions:
                owner.execute(f"REVOKE EXECUTE ON FUNCTION {function} FROM PUBLIC")
        with plain_role(store) as confined:
            client = often(Client(store=confined).for_org("acme"))
            assert client.enqueue(JOB).created
            assert waited(client) is allowed


def test_the_form_takes_the_same_parameters():
    query = catalogue("postgres", "arrays", "onward.")["enqueue_jobs"]
    for own, common in [
        ((), ("id", "payload", "org_id", "tags")),
        (("id", "payload"), ("queue", "deadline")),
    ]:
        made = formed(query, (Content(own, common, empty=False),))
        assert b"synchronous_commit" in made.early
        marks = {f"${number}".encode() for number in range(1, 100)}
        assert {mark for mark in marks if mark in made.early} == {
            mark for mark in marks if mark in made.encoded
        }
        asked, early = made.encoded.split(b"\nSELECT CAST(id"), made.early.split(b"\nSELECT CAST(id")
        assert asked[0] == early[0]


@pytest.fixture(scope="module")
def lazy() -> Iterator[PostgresServer]:
    """A server that writes its log only for those who wait for it."""
    with start_postgres() as server:
        with psycopg.connect(server.url(), autocommit=True) as operator:
            operator.execute("ALTER SYSTEM SET wal_writer_delay = '10s'")
            operator.execute("ALTER SYSTEM SET autovacuum = off")
        server.stop()
        server.start()
        yield server


def survives(server: PostgresServer, jobs: int = 1) -> bool:
    """Crash the server as soon as an enqueue has returned, and look for what it stored."""
    schema = f"t_{uuid4().hex[:12]}"
    with Client(store=PostgresStore(server.url(), schema=schema)) as client:
        client.migrate()
        rest(client)
        for _ in range(7):
            made = client.enqueue_many([JOB] * jobs) if jobs > 1 else [client.enqueue(JOB)]
        server.stop("immediate")
        server.start()
        return len(client.jobs.get_many([one.id for one in made])) == jobs


@pytest.mark.parametrize("jobs", [1, 20])
def test_what_has_returned_survives_a_crash(lazy, jobs):
    assert {survives(lazy, jobs) for _ in range(3 if FULL else 1)} == {True}


@pytest.mark.parametrize("jobs", [1, 20])
def test_which_it_would_not_without_the_wait(lazy, jobs, monkeypatch):
    monkeypatch.setattr(prepared, "_REACH_THE_DISK", b"SELECT 1")
    # Something else may write the log in the same moment.
    assert not all(survives(lazy, jobs) for _ in range(5))
