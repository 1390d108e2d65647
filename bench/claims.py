"""Claim and finish in batches, and the claim whose plan was made when the table was empty."""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import psycopg

from bench.measuring import Measure, fresh_store, new_job, seconds
from bench.sizes import Sizes
from onward.clients.sync.client import Client
from onward.connections.driver_calls import postgres_call
from onward.core.work.lifecycle import Succeeded
from onward.operations.statement import Statement
from onward.operations.work import claim
from onward.sql.catalogue import catalogue
from onward.stores.postgres.sync.postgres_store import PostgresStore
from onward.stores.sqlite.sqlite_store import SqliteStore
from tests.stores.postgres.postgres_schema import fill

JOBS = 20_000
BATCH = 500


def drained(client: Client) -> float:
    """Claim and finish all jobs, one after the other and without a worker; gives jobs a second."""
    client.worker.register("w", lease=timedelta(days=1))
    client.enqueue_many(new_job(number) for number in range(JOBS))

    def drain() -> None:
        while jobs := client.worker.claim("q:default", BATCH, worker_id="w", paused_orgs=()):
            client.worker.write([client.policies.end_of(job, Succeeded(), 0.5) for job in jobs]).require()

    return JOBS / seconds(drain)


def postgres(url: str, sizes: Sizes) -> Iterator[Measure]:
    with fresh_store(url) as store:
        rate = drained(Client(store=store))
    yield Measure("postgres: claim 500 and finish 500, no worker", "jobs/s", rate, 0, "")
    with fresh_store(url) as store, psycopg.connect(url, autocommit=True) as connection:
        client = Client(store=store)
        client.worker.register("w", lease=timedelta(days=1))
        connection.execute(f"ALTER TABLE {store.prefix}live SET (autovacuum_enabled = off)".encode())
        connection.execute(f"VACUUM ANALYZE {store.prefix}live".encode())
        for _ in range(20):
            client.worker.claim("q:default", 100, worker_id="w", paused_orgs=())
        fill(connection, store, 200_000)
        first = claims_of_100(client)
        connection.execute(f"ANALYZE {store.prefix}live".encode())
        with closing(PostgresStore(url, schema=store.prefix.rstrip("."))) as fresh:
            planned_now = claims_of_100(Client(store=fresh))
    yield Measure(
        "postgres: claim of 100, first made on an empty table",
        "ms",
        first,
        planned_now,
        "< 5 ms",
    )
    with fresh_store(url) as store, psycopg.connect(url, autocommit=True) as connection:
        fill(connection, store, sizes.scheduled, state="scheduled", due="1 day")
        spent = idle_claim(connection, store)
    yield Measure(f"postgres: idle claim over {sizes.scheduled:,} scheduled", "ms", spent, 0, "< 1 ms")


def idle_claim(connection: psycopg.Connection, store: PostgresStore) -> float:
    """Give the database's own time for a claim that finds nothing, planning included."""
    Client(store=store).worker.register("w", lease=timedelta(days=1))
    asked = next(claim.claim_rows("q:default", 100, worker_id="w"))
    assert isinstance(asked, Statement)
    query, values = postgres_call(catalogue("postgres", "arrays", store.prefix)["claim_jobs"], asked)
    times = []
    with psycopg.RawCursor(connection) as cursor:
        for _ in range(20):
            explained = cursor.execute(b"EXPLAIN (ANALYZE, FORMAT JSON) " + query.encoded, values).fetchone()
            assert explained
            [plan] = explained[0]
            times.append(float(plan["Planning Time"] + plan["Execution Time"]))
    return statistics.median(times)


def claims_of_100(client: Client) -> float:
    times = [
        seconds(lambda: client.worker.claim("q:default", 100, worker_id="w", paused_orgs=()))
        for _ in range(20)
    ]
    return statistics.median(times) * 1e3


def sqlite(_url: str, _sizes: Sizes) -> Iterator[Measure]:
    with (
        tempfile.TemporaryDirectory() as folder,
        Client(store=SqliteStore(Path(folder) / "onward.db")) as client,
    ):
        rate = drained(client)
    yield Measure("sqlite: claim 500 and finish 500, no worker", "jobs/s", rate, 0, "")
