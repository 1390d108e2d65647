"""A drain among many ended, scheduled and queued jobs, and after much churn, beside the first one."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg

from bench.children import ONWARD, working
from bench.drains import drained, fill_noops
from bench.measuring import Measure, fresh_store, settle
from bench.sizes import Sizes
from onward.clients.sync.client import Client
from onward.stores.postgres.sync.postgres_store import PostgresStore
from tests.stores.postgres.postgres_schema import fill

# Copies of one ended job, each with an id of its own in the same partition.
ENDED = """
INSERT INTO {prefix}ended ({columns})
SELECT {values} FROM (SELECT * FROM {prefix}ended LIMIT 1) AS old, generate_series(1, {count})
"""
FRESH_ID = (
    "CAST(overlay(CAST(gen_random_uuid() AS text) PLACING left(CAST(old.id AS text), 13) FROM 1) AS uuid)"
)
BEHIND = """
UPDATE {prefix}live SET priority = 10, job_type = 'noop', payload = '{{"n": 1}}' WHERE state = 'queued'
"""
NAMES = "SELECT attname FROM pg_attribute WHERE attrelid = %s::regclass AND attnum > 0 ORDER BY attnum"


def postgres(url: str, sizes: Sizes) -> Iterator[Measure]:
    jobs = sizes.drained
    with fresh_store(url) as store:
        fill_noops(Client(store=store), jobs)
        before = first(store, jobs)
        grow(store, sizes)
        fill_noops(Client(store=store), jobs)
        grown = first(store, jobs)
    with fresh_store(url) as store:
        fill_noops(Client(store=store), jobs)
        after = first(store, jobs)
    # To grow takes minutes, in which the machine may have changed its speed.
    empty = (before + after) / 2
    much = f"{sizes.ended:,} ended, {sizes.scheduled:,} scheduled, {sizes.behind:,} queued"
    yield Measure(f"postgres: drain with {much}, by none", "jobs/s", grown, empty, ">= 0.8")
    yield churn(url, sizes)


def first(store: PostgresStore, jobs: int) -> float:
    """Give the speed of a worker's first jobs; less urgent ones may be left."""
    with working(ONWARD(store.url, schema=store.prefix.rstrip("."))) as worker:
        worker.tell("go")
        report = worker.until(jobs)
        worker.stop()
    return float(report["jobs"] / (report["at"] - report["first"]) * 1e6)


def grow(store: PostgresStore, sizes: Sizes) -> None:
    with psycopg.connect(store.url, autocommit=True) as connection:
        fill(connection, store, sizes.behind)
        connection.execute(BEHIND.format(prefix=store.prefix).encode())
        fill(connection, store, sizes.scheduled, state="scheduled", due="1 day")
        names = [name for (name,) in connection.execute(NAMES, [f"{store.prefix}ended"])]
        values = ", ".join(FRESH_ID if name == "id" else f"old.{name}" for name in names)
        text = ENDED.format(prefix=store.prefix, columns=", ".join(names), values=values, count=sizes.ended)
        connection.execute(text.encode())
        for table in ("live", "ended"):
            connection.execute(f"VACUUM ANALYZE {store.prefix}{table}".encode())
    settle(store.url)


def churn(url: str, sizes: Sizes) -> Measure:
    """Drain again and again in the same tables; autovacuum is on."""
    rates = []
    with fresh_store(url) as store:
        for _ in range(max(3, sizes.churned // sizes.drained)):
            fill_noops(Client(store=store), sizes.drained)
            rates.append(drained(store, sizes.drained).rate)
    name = f"postgres: drain after {sizes.churned:,} jobs of churn, by the first"
    return Measure(name, "jobs/s", rates[-1], rates[0], ">= 0.7")
