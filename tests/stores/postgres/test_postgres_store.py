"""The PostgreSQL store: one round trip an operation, poolers, wake-ups that heal, errors in plain words."""

from __future__ import annotations

import asyncio
import gc
import logging
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import psycopg
import pytest

from onward import Client, Failed, JobFilter, NewJob, Outcome, Released, Succeeded
from onward.errors import NotAllowed, StoreBusy, StoreClosed, StoreUnreachable
from onward.operations.jobs.inspect import count
from onward.stores import open_wakeups
from onward.stores.postgres.postgres_store import AsyncPostgresStore
from onward.stores.postgres.postgres_wakeups import PostgresWakeups
from onward.stores.postgres.sync.postgres_store import PostgresStore
from tests.proxy import proxied
from tests.stores.postgres.postgres_schema import clean_schema
from tests.tenancy.plain_role import plain_role


@pytest.fixture
def store(postgres_url: str) -> Iterator[PostgresStore]:
    with clean_schema(postgres_url) as store:
        yield store


def beside(store: PostgresStore, url: str) -> PostgresStore:
    """The same schema by another address."""
    return PostgresStore(url, schema=store.prefix.rstrip("."), timeout=5)


def test_each_operation_of_a_worker_or_a_web_request_is_one_round_trip(store, postgres_url):
    with proxied(postgres_url) as proxy, Client(store=beside(store, proxy.url)) as client:
        job = client.enqueue(NewJob(job_type="warm", delay=timedelta(hours=1)))
        client.worker.register("w")
        seen: dict[str, int] = {}

        def trip(name, call):
            before = proxy.round_trips
            result = call()
            seen[name] = proxy.round_trips - before
            return result

        trip("enqueue", lambda: client.enqueue(NewJob(job_type="t", payload={"a": 1})))
        trip("enqueue with a key", lambda: client.enqueue(NewJob(job_type="t", key="k")))
        trip("enqueue a duplicate", lambda: client.enqueue(NewJob(job_type="t", key="k")))
        trip("enqueue many", lambda: client.enqueue_many([NewJob(job_type="t")] * 100))
        jobs = trip(
            "claim",
            lambda: client.worker.claim("q:default", 10, worker_id="w", paused_orgs=[], paused_types=[]),
        )
        trip("extend", lambda: client.worker.extend("w", [job.held_lease for job in jobs]))
        outcomes: list[Outcome] = [Succeeded(), Failed({"error_class": "E"})]
        ends = [
            client.policies.end_of(job, outcome, 0.5) for job, outcome in zip(jobs, outcomes, strict=False)
        ]
        trip("write ends", lambda: client.worker.write(ends))
        trip("write a stale end", lambda: client.worker.write(ends[:1]))
        trip("promote", client.worker.promote)
        trip("rescue nothing", client.worker.rescue)
        trip("cancel", lambda: client.jobs.cancel(job.id, reason="test"))
        trip("get", lambda: client.jobs.get(job.id))
        trip("list", client.jobs.list)
        trip("list dead jobs", lambda: client.jobs.list(JobFilter(state="dead")))
        trip("count", client.jobs.count)
        assert seen == dict.fromkeys(seen, 1)
        # By lease alone: the jobs are read first, then their ends are written.
        trip("finish", lambda: client.worker.finish([jobs[2].end_with(Succeeded())]))
        # How far to look is found first.
        trip("list by a filter", lambda: client.jobs.list(JobFilter(state="succeeded")))
        trip("release", lambda: client.worker.release([job.held_lease for job in jobs[3:]]))
    assert (seen["finish"], seen["list by a filter"], seen["release"]) == (2, 2, 2)


def test_a_pooler_in_between_is_recognised_and_nothing_is_prepared(store, postgres_url):
    # F19: prepared statements and LISTEN belong to a session, and a pooler lends out sessions.
    with proxied(postgres_url, pooler=True) as proxy, Client(store=beside(store, proxy.url)) as client:
        for _ in range(10):
            client.enqueue(NewJob(job_type="t"))
        pooled = client.store
        assert isinstance(pooled, PostgresStore)
        assert pooled.pooler is True
        with pooled.pool.connection() as connection:
            assert connection.execute("SELECT count(*) FROM pg_prepared_statements").fetchone() == (0,)


@pytest.mark.anyio
async def test_behind_a_pooler_waiting_is_polling_and_says_so_once(postgres_url, caplog):
    with proxied(postgres_url, pooler=True) as proxy, caplog.at_level(logging.WARNING, "onward"):
        wakeups = PostgresWakeups(proxy.url, "onward")
        try:
            while not wakeups.poll_only:
                await wakeups.wait(0.01)
            assert await wakeups.wait(0.01) is None
        finally:
            await wakeups.close()
    assert [record.message for record in caplog.records] == [
        "a connection pooler is in between: no wake-ups, polling instead"
    ]


@pytest.mark.anyio
async def test_an_enqueue_wakes_a_worker_that_idles_and_only_then(store, postgres_url):
    client = Client(store=store)
    client.worker.register("w")
    own = AsyncPostgresStore(postgres_url, schema=store.prefix.rstrip("."))
    wakeups = open_wakeups(own)
    try:
        assert await wakeups.wait(10) is not None, "once it listens it wakes by itself, to catch up"
        await asyncio.to_thread(client.enqueue, NewJob(job_type="t"))
        assert await wakeups.wait(0.2) is None, "nobody said that it idles"
        await asyncio.to_thread(client.worker.extend, "w", [], idle=True)
        await asyncio.to_thread(client.enqueue, NewJob(job_type="t"))
        assert await wakeups.wait(10) is not None
        await asyncio.to_thread(client.enqueue, NewJob(job_type="t", delay=timedelta(hours=1)))
        assert await wakeups.wait(0.2) is None, "a job for later wakes nobody now"
        await asyncio.to_thread(client.at(datetime.now(UTC) + timedelta(hours=2)).worker.promote)
        assert await wakeups.wait(10) is not None
    finally:
        await wakeups.close()
        await own.close()


@pytest.mark.anyio
async def test_wakeups_come_back_when_their_connection_was_cut(postgres_url, caplog):
    # F18
    wakeups = PostgresWakeups(postgres_url, "cut")
    try:
        assert await wakeups.wait(10) is not None
        with (
            psycopg.connect(postgres_url, autocommit=True) as connection,
            caplog.at_level(logging.WARNING, "onward"),
        ):
            connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                "WHERE application_name = 'onward wake-ups' AND datname = current_database()"
            )
            assert await wakeups.wait(10) is not None, "it catches up once it listens again"
            connection.execute("SELECT pg_notify('cut', 'q:default')")
            assert await wakeups.wait(10) is not None
        assert len(caplog.records) == 1
    finally:
        await wakeups.close()


@pytest.mark.anyio
@pytest.mark.parametrize("fault", ["unlisten", "deaf"])
async def test_wakeups_notice_that_they_are_deaf(postgres_url, fault):
    # F17, F18: the connection looks fine, but nothing arrives.
    with proxied(postgres_url) as proxy:
        wakeups = PostgresWakeups(proxy.url, "deaf", probe_seconds=0.05, answer_seconds=0.5)
        try:
            assert await wakeups.wait(10) is not None
            if fault == "deaf":
                proxy.go_deaf()
                while wakeups.listening.is_set():
                    await wakeups.wait(0.01)
                proxy.hear_again()
            else:
                await silence(wakeups)
            assert await wakeups.wait(20) is not None, "it listens again and catches up"
            assert proxy.connections >= 2
        finally:
            await wakeups.close()


async def silence(wakeups: PostgresWakeups) -> None:
    """Make the listening session forget its channel, as a careless `DISCARD ALL` would."""
    wakeups._channel, channel = "nobody", wakeups._channel
    while wakeups.listening.is_set():
        await wakeups.wait(0.01)
    wakeups._channel = channel


def test_a_server_that_is_not_there_is_told_in_plain_words():
    store = PostgresStore("postgresql://nobody@127.0.0.1:1/none", timeout=0.5)
    with Client(store=store) as client, pytest.raises(StoreUnreachable, match="reached"):
        client.jobs.count()


def test_what_the_server_says_about_a_statement_is_not_taken_for_a_cut(store):
    # F29: a time-out set by an administrator says that the server is slow; the connection is fine.
    client = Client(store=store)
    client.jobs.count()
    with store.pool.connection() as own:
        own.execute("SET statement_timeout = '1ms'")
    with pytest.raises(StoreBusy, match="gave up on a statement"):
        client.enqueue_many([NewJob(job_type="t")] * 20_000)
    with store.pool.connection() as own:
        own.execute("SET statement_timeout = 0")
    assert client.jobs.count().live == {}


def test_nothing_to_do_is_done(store):
    client = Client(store=store)
    assert client.enqueue_many([]) == []
    assert not client.worker.finish([]).lost


def test_a_closed_store_is_not_used_again(store):
    store.close()
    with pytest.raises(StoreClosed):
        store.run(count)


def test_a_lost_deadlock_is_tried_again_and_never_reaches_the_caller(store, postgres_url):
    # F21: two callers lock the same two keys in opposite orders; the store's own statement loses at times.
    client = Client(store=store)
    with psycopg.connect(postgres_url) as rival, psycopg.connect(postgres_url) as watcher:
        bound = client.within(rival)
        bound.enqueue(NewJob(job_type="t", key="b"))
        answers: list[bool] = []
        asking = threading.Thread(
            target=lambda: answers.extend(
                answer.created
                for answer in client.enqueue_many([NewJob(job_type="t", key=key) for key in "ab"])
            )
        )
        asking.start()
        wait_for_a_lock(watcher)
        # Closes the circle: one of the two is chosen by the server and rolled back.
        try:
            bound.enqueue(NewJob(job_type="t", key="a"))
            rival.commit()
        except psycopg.errors.DeadlockDetected:
            rival.rollback()
        asking.join()
    assert len(answers) == 2
    assert sorted(str(job.key) for job in client.jobs.list().items) == ["a", "b"]


def wait_for_a_lock(watcher: psycopg.Connection) -> None:
    watcher.autocommit = True
    while not watcher.execute(
        "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
    ).fetchone():
        pass


def test_a_release_burns_no_attempt(store):
    client = Client(store=store)
    client.worker.register("w")
    client.enqueue(NewJob(job_type="t"))
    [job] = client.worker.claim("q:default", worker_id="w")
    client.worker.finish([job.end_with(Released())]).require()
    assert client.jobs.get(job.id).attempt == 0


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_a_store_that_nobody_closed_leaves_no_connection_and_no_warning(postgres_url, kind, recwarn):
    def use() -> str:
        if kind == "sync":
            store = PostgresStore(postgres_url, schema="nowhere")
            with store.pool.connection() as connection:
                return str(connection.execute("SELECT pg_backend_pid()").fetchone()[0])
        return asyncio.run(use_async())

    async def use_async() -> str:
        store = AsyncPostgresStore(postgres_url, schema="nowhere")
        async with store.pool.connection() as connection:
            return str((await (await connection.execute("SELECT pg_backend_pid()")).fetchone())[0])

    process = use()
    gc.collect()
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        asked = "SELECT count(*) FROM pg_stat_activity WHERE pid = %s"
        for _ in range(100):
            [[left]] = connection.execute(asked, (process,))
            if not left:
                break
            connection.execute("SELECT pg_sleep(0.05)")
        assert left == 0
    assert [str(warning.message) for warning in recwarn] == []


def test_a_server_that_is_read_only_is_named_and_is_a_lost_connection(store, postgres_url):
    mark = "&" if "?" in postgres_url else "?"
    standby = f"{postgres_url}{mark}options=-c%20default_transaction_read_only%3Don"
    with (
        Client(store=beside(store, standby)) as client,
        pytest.raises(StoreUnreachable, match=r"read-only .*: connect to the primary"),
    ):
        client.enqueue(NewJob(job_type="t"))


def test_a_role_without_a_grant_is_named_with_the_grant_that_it_lacks(store):
    schema = store.prefix.rstrip(".")
    with (
        plain_role(store, rights="SELECT") as confined,
        Client(store=PostgresStore(confined.url, schema=schema)) as client,
    ):
        with pytest.raises(NotAllowed, match=f"ON ALL TABLES IN SCHEMA {schema} TO app_") as refused:
            client.enqueue(NewJob(job_type="t"))
        assert "another org" not in str(refused.value)
