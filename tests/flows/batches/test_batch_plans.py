"""PostgreSQL's plan of the look whether a batch has ended: a probe, also while a long transaction is open."""

from __future__ import annotations

import json
from collections.abc import Iterator

import psycopg
import pytest

from onward import Client, NewJob
from onward.connections.driver_calls import postgres_call
from onward.operations.flows.batches import end_idle
from onward.operations.statement import Statement
from onward.sql.catalogue import catalogue
from onward.stores.postgres.sync.postgres_store import PostgresStore
from tests.stores.postgres.postgres_schema import fill, fresh_schema
from tests.stores.postgres.test_postgres_plans import nodes, scans_of_live

MOST_PAGES = 100


@pytest.fixture
def store(postgres_url: str) -> Iterator[PostgresStore]:
    with fresh_schema(postgres_url) as store:
        yield store


@pytest.mark.parametrize("statistics", ["old", "new"])
def test_to_look_whether_a_batch_has_ended_goes_not_over_those_that_are_gone(store, statistics):
    batch_id = Client(store=store).batches.enqueue([NewJob(job_type="work")]).id
    live = f"{store.prefix}live"
    with (
        psycopg.connect(store.url) as long,
        psycopg.connect(store.url, autocommit=True) as connection,
    ):
        connection.execute(f"ALTER TABLE {live} SET (autovacuum_enabled = off)".encode())
        connection.execute(f"ANALYZE {live}".encode())
        fill(connection, store, 20_000)
        connection.execute(f"UPDATE {live} SET batch_id = '{batch_id}', flow = 2".encode())
        if statistics == "new":
            connection.execute(f"VACUUM ANALYZE {live}".encode())
        long.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        long.execute("SELECT 1")
        connection.execute(
            f"DELETE FROM {live} WHERE id IN (SELECT id FROM {live} ORDER BY id LIMIT 19900)".encode()
        )
        look = next(end_idle([batch_id]))
        assert isinstance(look, Statement)
        query, values = postgres_call(catalogue("postgres", "dollar", store.prefix)[look.name], look)
        with psycopg.RawCursor(connection) as cursor:
            cursor.execute(b"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) " + query.encoded, values, prepare=False)
            [[[found]]] = cursor.fetchall()
    plan = found["Plan"] if isinstance(found, dict) else json.loads(found)["Plan"]
    assert plan["Actual Rows"] == 0
    assert scans_of_live([*nodes(plan)]) == {"live_batch"}
    assert plan["Shared Hit Blocks"] + plan["Shared Read Blocks"] < MOST_PAGES
