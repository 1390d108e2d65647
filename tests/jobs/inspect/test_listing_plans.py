"""How the databases read listings and counts: by an index and a range, never a table from end to end."""

from __future__ import annotations

import itertools
import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import psycopg

from onward import Client, JobFilter, NewJob
from onward.connections.driver_calls import postgres_call
from onward.core.jobs.filters import Order
from onward.core.jobs.ids import first_id_at
from onward.operations.jobs import inspect, listing
from onward.operations.statement import Operation, Statement, with_params
from onward.sql.catalogue import catalogue
from tests.sql.reading_runs import LISTED, NOW
from tests.stores.postgres.postgres_schema import fresh_schema
from tests.stores.sqlite.using_sqlite import clean_file

# One job for each millisecond, up to three seconds after `NOW`.
ID = """
CAST(lpad(to_hex({now} - 27000 + n), 12, '0') || '70008000000000000000' AS uuid)
"""
ENDED = """
INSERT INTO {prefix}ended (
    id, job_type, queue, category, state, priority, run_at, max_attempts, payload, created_at, outcome,
    ended_at
)
SELECT {id}, 't', 'q', 'default', 'succeeded', 5, now(), 5, '{{}}', now(), 'succeeded', now()
FROM generate_series(1, CAST(30000 AS bigint)) AS n
"""
LIVE = """
INSERT INTO {prefix}live (
    id, job_type, queue, category, state, priority, run_at, max_attempts, payload, created_at
)
SELECT {id}, 't', 'q', 'default', 'queued', 5, now(), 5, '{{}}', now()
FROM generate_series(1, CAST(30000 AS bigint)) AS n
"""
CONDITIONS: list[dict[str, Any]] = [
    *LISTED.values(),
    *(
        {name: "x"}
        for name in ("job_type", "queue", "org_id", "key", "correlation_id", "worker_id", "request_id")
    ),
    {"tags": ["x"]},
    {"state": ("succeeded", "retrying", "stuck", "skipped")},
]
ORDERS: tuple[Order, ...] = ("newest", "oldest")


def statements(operation: Operation[Any]) -> Iterator[Statement]:
    """Every statement of an operation that finds something at which its page stops."""
    bound = with_params(operation, {"only_org": None, "only_project": None, "audited": 2, "now": 0})
    answer: list[tuple[Any, ...]] = []
    try:
        step = next(bound)
        while True:
            assert isinstance(step, Statement)
            yield step
            edge = NOW if "newest" in step.name else NOW - timedelta(seconds=24)
            answer = [(first_id_at(edge),)] if step.name.startswith("find_reach") else []
            step = bound.send(answer)
    except StopIteration:
        return


def every_read() -> Iterator[Statement]:
    yield from statements(inspect.count())
    for given, order in itertools.product(CONDITIONS, ORDERS):
        yield from statements(listing.list_jobs(JobFilter(**given), order=order))


def test_sqlite_searches_an_index_for_every_range(tmp_path: Path):
    path = clean_file(tmp_path).removeprefix("sqlite:///")
    queries = catalogue("sqlite", "question", "onward_")
    with closing(sqlite3.connect(path)) as connection:
        for statement in every_read():
            if statement.name == "count_jobs":
                continue
            [step] = queries[statement.name].steps
            values = [statement.params.get(name) for name in step.names]
            plan = [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {step.text}", values)]
            reads = [line for line in plan if re.match(r"\w+ (onward_)?(live|ended)\b", line)]
            assert len(reads) == 2, (statement.name, plan)
            assert all(line.startswith("SEARCH") and "id>? AND id<?" in line for line in reads), plan


def test_postgresql_reads_no_table_from_end_to_end(postgres_url: str):
    with fresh_schema(postgres_url) as store, psycopg.connect(postgres_url, autocommit=True) as connection:
        for text in (ENDED, LIVE):
            made = ID.format(now=int(NOW.timestamp() * 1000))
            connection.execute(text.format(prefix=store.prefix, id=made).encode())
        connection.execute(f"ANALYZE {store.prefix}live, {store.prefix}ended".encode())
        queries = catalogue("postgres", "dollar", store.prefix)
        for statement in every_read():
            query, values = postgres_call(queries[statement.name], statement)
            with psycopg.RawCursor(connection) as cursor:
                rows = cursor.execute(b"EXPLAIN " + query.encoded, values, prepare=False).fetchall()
            plan = [line for (line,) in rows]
            whole = [line for line in plan if "Seq Scan on live" in line or "Seq Scan on ended_rest" in line]
            assert not whole, (statement.name, plan)


def test_counts_stop_at_their_caps(client: Client, monkeypatch):
    monkeypatch.setattr(inspect, "_LIVE_CAP", 2)
    monkeypatch.setattr(inspect, "_CAP", 2)
    for number in range(5):
        client.enqueue_many([new("a"), new("b", delay=number)])
    counts = client.jobs.count()
    assert counts.live == {"a": {"queued": 2}, "b": {"queued": 1, "scheduled": 2}}
    assert (counts.cap, counts.live_cap) == (2, 2)


def new(queue: str, *, delay: int = 0) -> NewJob:
    return NewJob(job_type="t", queue=queue, delay=timedelta(hours=delay))
