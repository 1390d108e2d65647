"""Concurrent callers share statements, and nothing else: not their mistakes, nor their being cancelled."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from onward import AsyncClient, Client, DuplicateJob, InvalidJob, JobState, NewJob, NotAllowed
from onward.results import Enqueued
from onward.stores import AsyncStore, Store
from onward.stores.postgres.postgres_store import AsyncPostgresStore
from onward.stores.postgres.sync.postgres_store import PostgresStore
from onward.stores.sqlite.sqlite_store import AsyncSqliteStore, SqliteStore
from tests.proxy import proxied
from tests.stores.postgres.postgres_schema import clean_schema

pytestmark = pytest.mark.anyio


@pytest.fixture(params=["sqlite", "postgres"])
def stores(request, tmp_path) -> Iterator[Callable[[], tuple[Store, AsyncStore]]]:
    """Open a store on either database, for sync callers and for async ones."""
    if request.param == "sqlite":
        path = tmp_path / "onward.db"
        yield lambda: (SqliteStore(path), AsyncSqliteStore(path))
        return
    with clean_schema(request.getfixturevalue("postgres_url")) as store:
        schema = store.prefix.rstrip(".")
        yield lambda: (PostgresStore(store.url, schema=schema), AsyncPostgresStore(store.url, schema=schema))


@pytest.fixture
async def client(stores, anyio_backend):
    _, store = stores()
    async with AsyncClient(store=store) as client:
        yield client


def job(n: int, **options) -> NewJob:
    return NewJob(job_type="t", payload={"n": n}, **options)


async def test_each_caller_gets_its_own_job(client):
    answers = await asyncio.gather(*(client.enqueue(job(n)) for n in range(200)))
    found = await client.jobs.get_many([answer.id for answer in answers])
    assert [found[answer.id].payload["n"] for answer in answers] == list(range(200))
    assert all(answer.created for answer in answers)


async def test_they_need_far_fewer_round_trips_than_callers(postgres_url):
    with clean_schema(postgres_url) as store, proxied(store.url) as proxy:
        own = AsyncPostgresStore(proxy.url, schema=store.prefix.rstrip("."))
        async with AsyncClient(store=own) as client:
            await client.enqueue(job(0))
            before = proxy.round_trips
            await asyncio.gather(*(client.enqueue(job(n)) for n in range(200)))
            assert proxy.round_trips - before < 20


async def test_they_need_far_fewer_statements_than_callers(client, monkeypatch):
    await client.enqueue(job(0))
    run, runs = client.store.run, []

    async def counted(*arguments, **options):
        runs.append(1)
        return await run(*arguments, **options)

    monkeypatch.setattr(client.store, "run", counted)
    await asyncio.gather(*(client.enqueue(job(n)) for n in range(200)))
    assert len(runs) < 20


async def test_clients_of_many_orgs_share_statements_and_keep_their_jobs_apart(client, monkeypatch):
    await client.enqueue(job(0))
    run, runs = client.store.run, []

    async def counted(*arguments, **options):
        runs.append(1)
        return await run(*arguments, **options)

    monkeypatch.setattr(client.store, "run", counted)
    answers = await asyncio.gather(
        *(
            client.for_org(f"org{n % 4}")
            .acting_as(f"user:{n}")
            .for_project("p")
            .enqueue(job(n, key=f"k{n // 8}"))
            for n in range(200)
        )
    )
    assert len(runs) < 20
    monkeypatch.undo()
    found = await client.jobs.get_many({answer.id for answer in answers})
    # A key is held in each org for itself: of the eight jobs of a key, one of each org is stored.
    assert len(found) == 100
    for n, answer in enumerate(answers):
        stored = found[answer.id]
        assert (stored.org_id, stored.project_id) == (f"org{n % 4}", "p")
        kept = stored.payload["n"]
        assert (kept // 8, kept % 4) == (n // 8, n % 4)
        assert (answer.created, stored.actor_id) == (kept == n, str(kept))


async def test_sharing_lets_no_client_out_of_its_org(client):  # R14
    acme, bolt = client.for_org("acme"), client.for_org("bolt")
    parent = await bolt.enqueue(job(0))
    asked = [
        acme.enqueue(job(1)),
        acme.enqueue(job(2, org_id="bolt")),
        acme.enqueue(job(3, parent_id=parent.id)),
        bolt.enqueue(job(4, parent_id=parent.id)),
        *(client.for_org(f"org{n}").enqueue(job(n)) for n in range(20)),
    ]
    answers = await asyncio.gather(*asked, return_exceptions=True)
    assert [type(answer) for answer in answers[1:3]] == [NotAllowed, NotAllowed]
    assert all(isinstance(answer, Enqueued) for at, answer in enumerate(answers) if at not in {1, 2})
    assert len(await acme.jobs.list()) == 1


async def test_threads_of_many_orgs_share_statements_too(stores, monkeypatch):
    store, _ = stores()
    with Client(store=store) as client:
        client.enqueue(job(0))
        run, runs = store.run, []

        def counted(*arguments, **options):
            runs.append(1)
            return run(*arguments, **options)

        monkeypatch.setattr(store, "run", counted)
        with ThreadPoolExecutor(30) as threads:
            answers = list(threads.map(lambda n: client.for_org(f"org{n % 3}").enqueue(job(n)), range(300)))
        monkeypatch.undo()
        assert len(runs) < 250
        found = client.jobs.get_many([answer.id for answer in answers])
        assert [found[answer.id].org_id for answer in answers] == [f"org{n % 3}" for n in range(300)]


async def test_a_bad_job_fails_its_own_caller_only(client):
    await client.enqueue(job(0, key="taken"))
    asked = [
        job(n, key="taken", on_conflict="raise") if n == 17 else job(n, priority=1077) if n == 23 else job(n)
        for n in range(40)
    ]
    answers = await asyncio.gather(*map(client.enqueue, asked), return_exceptions=True)
    assert isinstance(answers[17], DuplicateJob)
    assert isinstance(answers[23], InvalidJob)
    assert sum(not isinstance(answer, Exception) for answer in answers) == 38
    assert (await client.jobs.count()).total(JobState.QUEUED) == 39


async def test_one_key_asked_for_at_once_makes_one_job(client):
    answers = await asyncio.gather(*(client.enqueue(job(n, key="k")) for n in range(50)))
    assert len({answer.id for answer in answers}) == 1
    assert sum(answer.created for answer in answers) == 1


async def test_a_cancelled_caller_takes_nobody_with_it(client):
    tasks = [asyncio.ensure_future(client.enqueue(job(n))) for n in range(60)]
    await asyncio.sleep(0)
    for task in tasks[::7]:
        task.cancel()
    answers = await asyncio.gather(*tasks, return_exceptions=True)
    others = [answer for at, answer in enumerate(answers) if at % 7]
    assert all(not isinstance(answer, BaseException) for answer in others)


async def test_threads_share_statements_too(stores):
    store, _ = stores()
    with Client(store=store) as client:
        asked = [job(n, priority=1077) if n == 5 else job(n) for n in range(300)]

        def enqueue(new: NewJob) -> object:
            try:
                return client.enqueue(new).created
            except InvalidJob as error:
                return error

        with ThreadPoolExecutor(30) as threads:
            answers = list(threads.map(enqueue, asked))
        assert isinstance(answers[5], InvalidJob)
        assert answers.count(True) == 299
        assert client.jobs.count().total(JobState.QUEUED) == 299
