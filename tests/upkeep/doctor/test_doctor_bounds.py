"""A diagnosis costs the same for one job and for a million: none of its statements reads all jobs."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from typing import Any

import psycopg
import pytest

from onward import Client, NewJob
from onward.connections.driver_calls import calls, postgres_call
from onward.operations.statement import Statement
from onward.sql.catalogue import catalogue
from onward.stores.postgres.sync.postgres_store import PostgresStore
from tests.sql.sql_runs import statements_of
from tests.stores.postgres.postgres_schema import fill
from tests.stores.postgres.test_postgres_plans import nodes

ASKED = [
    one
    for run in ("diagnose", "explain a job")
    for one in statements_of(run)
    # A job by its id, of which other tests tell.
    if one.name != "get_jobs"
]
# Ids of this month, so that they are all in one partition.
ENDED = """
INSERT INTO {schema}ended (
    id, job_type, queue, category, state, priority, run_at, max_attempts, payload, created_at, outcome,
    ended_at
)
SELECT
    CAST(
        lpad(to_hex(CAST(extract(epoch FROM now()) * 1000 AS bigint)), 12, '0') || '7'
        || lpad(to_hex(n), 3, '0') || '8' || substr(md5(CAST(n AS text)), 1, 15) AS uuid
    ),
    'fill', 'q:default', 'default', CASE WHEN n % 40 = 0 THEN 'dead' ELSE 'succeeded' END,
    5, now(), 5, '{{}}', now(), 'x', now()
FROM generate_series(1, 4000) AS n
RETURNING CAST(tableoid AS regclass)::text
"""


@pytest.fixture
def full(postgres: PostgresStore) -> tuple[PostgresStore, set[str]]:
    """Tables with many jobs, of which the statistics know; and the names of those that have them."""
    with psycopg.connect(postgres.url, autocommit=True) as connection:
        for state in ("queued", "scheduled", "running"):
            fill(connection, postgres, 4000, state=state)
        live = f"{postgres.prefix}live"
        connection.execute(f"UPDATE {live} SET worker_id = 'gone' WHERE state = 'running'".encode())
        ended = connection.execute(ENDED.format(schema=postgres.prefix).encode()).fetchall()
        connection.execute(f"ANALYZE {live}, {postgres.prefix}ended".encode())
    return postgres, {"live", *(name.partition(".")[2] for (name,) in ended)}


def test_on_postgresql_jobs_are_found_by_an_index_or_up_to_a_limit(full):
    store, tables = full
    with psycopg.connect(store.url, autocommit=True) as connection:
        for statement in ASKED:
            plan = planned(connection, store, statement)
            whole = [
                node["Relation Name"]
                for node in plan
                if node["Node Type"] == "Seq Scan" and node["Relation Name"] in tables
            ]
            assert whole == [], statement.name


def planned(
    connection: psycopg.Connection, store: PostgresStore, statement: Statement
) -> list[dict[str, Any]]:
    query, values = postgres_call(catalogue("postgres", "dollar", store.prefix)[statement.name], statement)
    with psycopg.RawCursor(connection) as cursor:
        [[found]] = cursor.execute(
            b"EXPLAIN (FORMAT JSON) " + query.encoded, values, prepare=False
        ).fetchall()
    return list(nodes((json.loads(found) if isinstance(found, str) else found)[0]["Plan"]))


def test_on_sqlite_jobs_are_found_by_an_index(tmp_path):
    with Client(f"sqlite:///{tmp_path}/onward.db") as client:
        client.enqueue_many(NewJob(job_type="t") for _ in range(10))
    queries = catalogue("sqlite", "question", "onward_")
    with closing(sqlite3.connect(tmp_path / "onward.db")) as connection:
        for statement in ASKED:
            for call in calls(queries[statement.name], statement):
                for arguments in call.rows:
                    plan = connection.execute(f"EXPLAIN QUERY PLAN {call.text}", arguments).fetchall()
                    read = [detail for *_, detail in plan]
                    whole = [line for line in read if line.startswith("SCAN") and "USING" not in line]
                    assert not [line for line in whole if "live" in line or "ended" in line], statement.name


def test_a_diagnosis_of_many_jobs_is_whole(full):
    store, _ = full
    found = {finding.code: finding for finding in Client(store=store).doctor.check()}
    assert found["stuck_jobs"].evidence["jobs"] == 1000
    assert found["dead_letters"].evidence["jobs"] == 100
    assert found["queues"].evidence["queues"] == {"q:default": 1000}
