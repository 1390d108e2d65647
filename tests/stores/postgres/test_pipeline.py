"""A worker's claims and ends, each on one connection where the next is sent before the last is answered."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import psycopg
import pytest

from onward import AsyncClient, NewJob, Succeeded
from onward.connections.driver_calls import postgres_call
from onward.connections.libpq.arrays import Array
from onward.core.jobs.job import JobState
from onward.core.policy.policies import DEFAULT_POLICIES, Policies
from onward.core.policy.settings import AuditLevel
from onward.core.work.lifecycle import End, Transition
from onward.errors import StoreBusy, StoreClosed, StoreUnreachable, WorkerLost
from onward.operations.statement import Operation, Statement
from onward.operations.work import claim, finish
from onward.results import Job
from onward.sql.catalogue import catalogue
from onward.stores import open_async_store
from onward.stores.postgres.pipeline import Pipeline
from onward.stores.postgres.pipelined import PipelinedStore
from onward.stores.postgres.pool import AsyncPooled
from onward.stores.postgres.sync.postgres_store import PostgresStore
from tests.proxy import proxied
from tests.stores.postgres.postgres_schema import clean_schema
from tests.stores.sqlite.blocking import waiting
from tests.worker.waiting import until

pytestmark = pytest.mark.anyio

ENDED = Transition(JobState.SUCCEEDED, "job.succeeded", "succeeded", 1, 0, 0)


@pytest.fixture
def schema(postgres_url) -> Iterator[PostgresStore]:
    with clean_schema(postgres_url) as store:
        yield store


@asynccontextmanager
async def working(
    schema: PostgresStore, url: str | None = None, audit: AuditLevel = "full"
) -> AsyncIterator[AsyncClient]:
    store = open_async_store(url or schema.url, schema=schema.prefix.rstrip("."), steady=True)
    async with AsyncClient(store=store, policies=Policies.of(audit=audit)) as client:
        await client.worker.register("w1")
        yield client


def store_of(client: AsyncClient) -> PipelinedStore:
    assert isinstance(client.store, PipelinedStore)
    return client.store


async def given_back(client: AsyncClient) -> list[AsyncPooled]:
    """Have the connections of all pipelines given back; gives what waits in the pool."""
    await store_of(client)._close_unused()
    return store_of(client).pool._waiting


async def claimed(client: AsyncClient, count: int) -> list[Job]:
    await client.enqueue_many([NewJob(job_type="t") for _ in range(count)])
    return await client.worker.claim("q:default", count, worker_id="w1")


async def claimed_after_one(client: AsyncClient, count: int) -> list[Job]:
    """Claim jobs, and one more that ends: so ends have their connection already."""
    before, *jobs = await claimed(client, count + 1)
    await client.worker.write(end(before))
    return jobs


def end(job: Job) -> list[End]:
    return [End.of(job, Succeeded(), DEFAULT_POLICIES.policy_of(job))]


@asynccontextmanager
async def held(schema: PostgresStore, job: Job) -> AsyncIterator[psycopg.AsyncConnection]:
    """Lock the row of a job, so that whoever ends it waits."""
    async with await psycopg.AsyncConnection.connect(schema.url) as connection:
        await connection.execute(
            f"SELECT FROM {schema.prefix}live WHERE id = %s FOR UPDATE".encode(), (job.id,)
        )
        yield connection


async def test_the_next_is_sent_before_the_last_is_answered(schema):
    async with working(schema) as client:
        first, second = await claimed_after_one(client, 2)
        pipeline = store_of(client)._pipelines["ends"]
        async with held(schema, first) as lock:
            writes = [
                asyncio.create_task(client.worker.write(end(first))),
                asyncio.create_task(client.worker.write(end(second))),
            ]
            assert len(await waiting(lock)) == 1
            assert len(pipeline._waiting) == 2
            assert (await client.jobs.get(second.id)).ended_at is None, "they go one after the other"
        done = await asyncio.gather(*writes)
    assert [write.held for write in done] == [{first.id}, {second.id}]


async def test_jobs_are_claimed_and_ended_as_on_any_connection(schema):
    async with working(schema) as client:
        await client.enqueue_many([NewJob(job_type="t", payload={"n": "ü" * n}) for n in range(200)])
        claims = await asyncio.gather(
            *[client.worker.claim("q:default", 50, worker_id="w1") for _ in range(4)]
        )
        jobs = [job for claim in claims for job in claim]
        assert sorted(len(job.payload["n"]) for job in jobs) == list(range(200))
        await asyncio.gather(*[client.worker.write(end(job)) for job in jobs])
        found = await client.jobs.get_many([job.id for job in jobs])
        assert {job.state for job in found.values()} == {"succeeded"}
        assert not store_of(client).pool._lent, "one at rest may rest as long as it likes"


async def test_a_claim_that_asks_for_something_else_is_written_anew(schema):
    async with working(schema) as client:
        await client.enqueue_many([NewJob(job_type="t", queue=f"q:{n % 2}") for n in range(20)])
        asked = [("q:0", 1), ("q:0", 1), ("q:0", 3), ("q:1", 3), ("q:1", 3), ("q:0", 1)]
        for queue, limit in asked:
            jobs = await client.worker.claim(queue, limit, worker_id="w1")
            assert [job.queue for job in jobs] == [queue] * limit


async def test_ends_that_are_alike_name_their_jobs_in_an_array(schema):
    async with working(schema) as client:
        jobs = await claimed(client, 300)
        asked = finishing([job.id for job in jobs])
        assert asked.name == "finish_alike"
        query = catalogue("postgres", "arrays", schema.prefix)[asked.name]
        assert Array in map(type, postgres_call(query, asked)[1])
        assert not await store_of(client).fetch(asked)
        found = await client.jobs.get_many([job.id for job in jobs])
        assert {job.state for job in found.values()} == {"succeeded"}


@pytest.mark.parametrize(("audit", "started"), [("full", 1), ("ends", 0), ("off", 0)])
async def test_a_claim_is_the_same_whatever_is_audited(schema, audit, started):
    async with working(schema, audit=audit) as client:
        assert await client.worker.claim("q:default", worker_id="w1") == []
        new = [
            NewJob(job_type="t", payload={"n": n}, priority=9 - n, tags=["a"], org_id="o") for n in range(6)
        ]
        made = await client.enqueue_many(new)
        jobs = await client.worker.claim("q:default", 5, worker_id="w1")
        assert [job.id for job in jobs] == [one.id for one in made[:0:-1]]
        assert await client.jobs.get_many([job.id for job in jobs]) == {job.id: job for job in jobs}
        events = [event for job in jobs for event in await client.jobs.events(job.id)]
        assert len([event for event in events if event.event == "job.started"]) == started * len(jobs)
        assert len(await client.worker.claim("q:default", 5, worker_id="w1")) == 1
        for lost in ("w1", "w2"):
            await client.worker.retire(lost)
            with pytest.raises(WorkerLost):
                await client.worker.claim("q:default", worker_id=lost)


@pytest.mark.parametrize("wrong", [["x", "y"], ["00", "11"], ["", ""], [f"{7:030x}", f"{7:034x}"]])
async def test_what_is_no_id_is_refused(schema, wrong):
    async with working(schema) as client:
        with pytest.raises((ValueError, psycopg.Error)):
            await store_of(client).fetch(finishing(wrong))
        assert len(await claimed(client, 2)) == 2


def finishing(ids: list[str]) -> Statement:
    asked = next(finish.finish([End(job_id, 1, 1, ENDED) for job_id in ids]))
    assert isinstance(asked, Statement)
    return asked


async def test_a_statement_that_fails_leaves_the_next_alone(schema):
    def spoilt() -> Operation[object]:
        asked = next(claim.claim_rows("q", 1, worker_id="w1"))
        return (yield Statement("claim_jobs", {**asked.params, "limit": "many"}))

    async with working(schema) as client:
        jobs = await claimed(client, 1)
        await client.enqueue(NewJob(job_type="t"))
        told = await asyncio.gather(
            store_of(client).run(spoilt),
            client.worker.claim("q:default", worker_id="w1"),
            store_of(client).run(spoilt),
            return_exceptions=True,
        )
        assert isinstance(told[0], psycopg.errors.InvalidTextRepresentation)
        assert isinstance(told[2], psycopg.errors.InvalidTextRepresentation)
        assert isinstance(told[1], list)
        assert len(told[1]) == len(jobs) == 1


async def test_who_waits_on_a_connection_that_breaks_is_told_and_the_next_goes_on(schema):  # F14
    async with working(schema) as client:
        first, second = await claimed_after_one(client, 2)
        async with held(schema, first) as lock:
            writes = [asyncio.create_task(client.worker.write(end(job))) for job in (first, second)]
            [pid] = await waiting(lock)
            await lock.execute("SELECT pg_terminate_backend(%s)", (pid,))
            told = await asyncio.gather(*writes, return_exceptions=True)
        assert [type(error) for error in told] == [StoreUnreachable, StoreUnreachable]
        assert not store_of(client)._pipelines, "what cut one has cut those at rest, too"
        assert (await client.worker.write([*end(first), *end(second)])).held == {first.id, second.id}


async def test_a_network_that_swallows_the_answer_is_hung_up_on(schema):  # F17
    with proxied(schema.url) as proxy:
        async with working(schema, proxy.url) as client:
            [job] = await claimed_after_one(client, 1)
            proxy.go_deaf()
            write = asyncio.create_task(client.worker.write(end(job)))
            await until(lambda: bool(store_of(client).pool._lent))
            store_of(client).hang_up(60)
            assert not write.done()
            store_of(client).hang_up(0)
            with pytest.raises(StoreUnreachable):
                await write
            proxy.hear_again()
            assert (await client.jobs.get(job.id)).state == "succeeded", (
                "whether it was done, only the database knows"
            )


async def test_a_connection_that_breaks_while_something_is_sent_is_given_up_at_once(schema):  # F14
    async with working(schema) as client:
        first, second = await claimed_after_one(client, 2)
        large = [End.of(second, Succeeded("x" * 100_000), DEFAULT_POLICIES.policy_of(second))]
        async with held(schema, first) as lock:
            write = asyncio.create_task(client.worker.write(end(first)))
            await waiting(lock)
            # Sent before the loop hears of it: libpq finds out, and closes the connection by itself.
            store_of(client).hang_up(0)
            with pytest.raises(StoreUnreachable):
                await client.worker.write(large)
            with pytest.raises(StoreUnreachable):
                await write
        assert (await client.worker.write(large)).held == {second.id}
        assert not store_of(client).pool._lent


async def test_who_come_together_share_one_connection(schema, monkeypatch):
    open_ones, most = set(), []
    begin, close = Pipeline.__init__, Pipeline.close

    def begun(self: Pipeline, *arguments: Any) -> None:
        begin(self, *arguments)
        open_ones.add(self)
        most.append(len(open_ones))

    async def closed(self: Pipeline) -> None:
        open_ones.discard(self)
        await close(self)

    monkeypatch.setattr(Pipeline, "__init__", begun)
    monkeypatch.setattr(Pipeline, "close", closed)
    async with working(schema) as client:
        await client.enqueue_many([NewJob(job_type="t") for _ in range(10)])
        await given_back(client)
        await store_of(client).pool.drop()
        claims = [client.worker.claim("q:default", worker_id="w1") for _ in range(10)]
        assert [len(jobs) for jobs in await asyncio.gather(*claims)] == [1] * 10
    assert set(most) == {1}, "whoever connects finds that another was faster"


async def test_one_whose_connection_broke_or_grew_old_at_rest_is_replaced(schema, monkeypatch):  # F14
    async with working(schema) as client:
        await claimed(client, 1)
        old = store_of(client)._pipelines["claims"]
        async with await psycopg.AsyncConnection.connect(schema.url, autocommit=True) as other:
            pid = old._connection.info.backend_pid
            await other.execute("SELECT pg_terminate_backend(%s)", (pid,))
        await until(lambda: old.broken)
        assert len(await claimed(client, 1)) == 1, "nobody had to be told"
        new = store_of(client)._pipelines["claims"]
        monkeypatch.setattr("onward.stores.postgres.pipeline.LONGEST_WAIT", 0)
        assert len(await claimed(client, 1)) == 1
        assert store_of(client)._pipelines["claims"] not in (old, new)
        monkeypatch.undo()
        await given_back(client)
        pool = store_of(client).pool
        assert pool._places._semaphore._value == pool._size, "their places are free again"


async def test_a_statement_that_fails_again_and_again_is_prepared_once(schema):
    async with working(schema) as client:
        [job] = await claimed(client, 1)
        async with held(schema, job):
            for connection in await given_back(client):
                await connection.execute("SET lock_timeout = '1ms'")
            for _ in range(5):
                with pytest.raises(StoreBusy):
                    await client.worker.write(end(job))
        prepared = [connection.prepared or {} for connection in await given_back(client)]
        names = [name for one in prepared for name in one.values()]
        for connection in store_of(client).pool._waiting:
            cursor = await connection.execute(
                "SELECT name FROM pg_prepared_statements WHERE name LIKE 'onward%'"
            )
            assert {name.encode() for (name,) in await cursor.fetchall()} <= set(names)
        assert (await client.worker.write(end(job))).held == {job.id}


async def test_no_more_forms_of_a_statement_are_kept_than_are_common(schema, monkeypatch):
    monkeypatch.setattr("onward.stores.postgres.pipeline.MOST_PREPARED", 1)
    async with working(schema) as client:
        first, second = await claimed(client, 2)
        assert (await client.worker.write(end(first))).held == {first.id}
        said = [End.of(second, Succeeded("done"), DEFAULT_POLICIES.policy_of(second))]
        assert (await client.worker.write(said)).held == {second.id}
        assert all(len(one.prepared or {}) <= 1 for one in await given_back(client))


async def test_a_store_that_was_closed_takes_no_more(schema):
    async with working(schema) as client:
        first, second = await claimed(client, 2)
        async with held(schema, first) as lock:
            write = asyncio.create_task(client.worker.write(end(first)))
            await waiting(lock)
            await client.close()
            with pytest.raises(StoreClosed):
                await client.worker.write(end(second))
        assert (await write).held == {first.id}, "what was sent before is waited for"


def test_a_pipeline_of_a_loop_that_is_gone_is_left_alone(schema):
    store = open_async_store(schema.url, schema=schema.prefix.rstrip("."), steady=True)
    client = AsyncClient(store=store)

    async def leave_one_behind(lock: psycopg.Connection) -> Job:
        await client.worker.register("w1")
        first, second = await claimed(client, 2)
        lock.execute(f"SELECT FROM {schema.prefix}live WHERE id = %s FOR UPDATE".encode(), (first.id,))
        forgotten.append(client._binding.run(lambda: finish.finish(end(first))))
        forgotten[0].send(None)
        return second

    forgotten: list[Any] = []
    loop = asyncio.new_event_loop()
    with psycopg.connect(schema.url) as lock:
        second = loop.run_until_complete(leave_one_behind(lock))
        loop.close()
        assert asyncio.run(client.worker.write(end(second))).held == {second.id}
    forgotten[0].close()


async def test_who_is_cancelled_takes_the_connection_along(schema):
    async with working(schema) as client:
        first, second = await claimed_after_one(client, 2)
        async with held(schema, first) as lock:
            writes = [asyncio.create_task(client.worker.write(end(job))) for job in (first, second)]
            await waiting(lock)
            writes[0].cancel()
            told = await asyncio.gather(*writes, return_exceptions=True)
        assert [type(error) for error in told] == [asyncio.CancelledError, StoreUnreachable]
        # The server may have done what was sent to it, or not.
        await client.worker.write(end(second))
        assert (await client.jobs.get(second.id)).state == "succeeded"


async def test_statements_that_were_forgotten_are_prepared_again(schema):
    async with working(schema) as client:
        await claimed(client, 1)
        for connection in await given_back(client):
            await connection.execute("DEALLOCATE ALL")
        assert len(await claimed(client, 1)) == 1


async def test_what_the_protocol_would_cut_short_is_refused(schema):
    async with working(schema) as client:
        with pytest.raises(psycopg.DataError, match="NUL"):
            await client.worker.claim("q:default", worker_id="w1\0x")


async def test_not_where_a_pooler_or_policies_stand_between(schema, monkeypatch):
    entered = []
    monkeypatch.setattr(Pipeline, "__init__", lambda *_: entered.append(1))
    async with working(schema) as client:
        store_of(client).pooler = True
        assert len(await claimed(client, 1)) == 1
        store_of(client).pooler = False
        store_of(client).row_security = True
        assert len(await claimed(client, 1)) == 1
    assert not entered


def test_callers_who_are_no_workers_have_none(schema):
    assert not isinstance(open_async_store(schema.url, schema=schema.prefix.rstrip(".")), PipelinedStore)
