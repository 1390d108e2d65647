"""Many rows: removed in bounded statements, by index, and nobody waits for it."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest

from onward import Client, NewJob
from onward.connections.driver_calls import postgres_call
from onward.core.jobs.ids import first_id_at
from onward.core.page import make_cursor
from onward.core.policy.policies import Policies
from onward.core.work.lifecycle import Succeeded
from onward.operations.statement import Statement
from onward.operations.upkeep.prune import KINDS, PruneStep
from onward.sql.catalogue import catalogue
from onward.stores.postgres.sync.postgres_store import PostgresStore
from tests.stores.postgres.postgres_schema import fresh_schema
from tests.upkeep.maintenance.maintenance_history import LONG

MANY = 50_000
NOW = datetime.now(UTC)
OLD = NOW - timedelta(days=40)

FILL_POSTGRES = """
INSERT INTO {p}ended (
    id, job_type, queue, category, state, priority, run_at, max_attempts, payload, created_at, outcome,
    ended_at
)
SELECT
    CAST(lpad(to_hex({millis} + n), 12, '0') || '7000' || '8' || lpad(to_hex(n), 15, '0') AS uuid),
    't', 'q:default', 'default', 'succeeded', 5, now(), 5, '{{}}', to_timestamp({seconds}), 'succeeded',
    to_timestamp({seconds})
FROM generate_series(1, {count}) AS n
"""
FILL_SQLITE = """
WITH RECURSIVE numbers(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < {count})
INSERT INTO {p}ended (
    id, job_type, queue, category, state, priority, run_at, max_attempts, payload, created_at, outcome,
    ended_at, attempt, lease, cost_micros, rerun_requested, waits, crashes
)
SELECT
    substr(h, 1, 8) || '-' || substr(h, 9, 4) || '-7000-8000-' || printf('%012x', n),
    't', 'q:default', 'default', 'succeeded', 5, 0, 5, '{{}}', {seconds} * 1000000, 'succeeded',
    {seconds} * 1000000, 1, 1, 0, 0, 0, 0
FROM (SELECT n, printf('%012x', {millis} + n) AS h FROM numbers)
"""


SIDE_TABLES = {
    "usage": "id, 1, 'u', 1, NULL, NULL, 't', 'q', 'c', 1, 1, ended_at",
    "attempts": "id, 1, 1, NULL, NULL, ended_at, 'failed'",
    "keys": "'', '', CAST(id AS text), id, ended_at, ended_at, ended_at",
    "workers": "CAST(id AS text), NULL, NULL, '{{}}', ended_at, ended_at, ended_at",
    "effects": "id, 'e', 'once', 'done', '', 1, NULL, 1, 1",
    "dead_letters": "id, 1, NULL, 'discarded', ended_at, NULL, NULL, ''",
}

RUNS = """
INSERT INTO {p}schedule_runs
SELECT 's', ended_at + n * interval '1 s', 'occurrence', ended_at + n * interval '1 s', 0
FROM (SELECT ended_at, row_number() OVER () AS n FROM {p}ended) AS one
"""


def fill(client: Client, count: int) -> None:
    """Put old jobs straight into the table."""
    text = FILL_SQLITE if client.store.database == "sqlite" else FILL_POSTGRES
    seconds = int(OLD.timestamp())
    connection: Any = client.store.connect()
    connection.execute(
        text.format(p=client.store.prefix, count=count, seconds=seconds, millis=seconds * 1000)
    )
    connection.commit()
    connection.close()


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_fifty_thousand_jobs_go_in_bounded_rounds_and_no_claim_waits(kind, request, tmp_path):
    # S4-16
    client = (
        Client(f"sqlite:///{tmp_path}/o.db")
        if kind == "sqlite"
        else Client(store=request.getfixturevalue("postgres"))
    )
    client.migrate()
    fill(client, MANY)
    client.worker.register("w", lease=LONG)
    over = threading.Event()
    waits: list[float] = []

    def work() -> None:
        while not over.is_set():
            began = time.monotonic()
            client.enqueue(NewJob(job_type="t"))
            for job in client.worker.claim("q:default", 10, worker_id="w"):
                client.worker.finish([job.end_with(Succeeded())])
            waits.append(time.monotonic() - began)

    worker = threading.Thread(target=work)
    worker.start()
    cursor, removed, rounds = None, 0, 0
    while True:
        done = client.maintenance.prune(cursor=cursor, limit=5000)
        assert done.counts.get("succeeded", 0) <= 5000
        removed, rounds, cursor = removed + done.counts.get("succeeded", 0), rounds + 1, done.next_cursor
        if cursor is None:
            break
    over.set()
    worker.join()
    if kind == "sqlite":
        client.close()
    assert removed == MANY
    assert rounds >= MANY / 5000
    assert len(waits) > 3
    # As long as a round may take on a machine that does much else.
    assert max(waits) < 5


@pytest.fixture(scope="module")
def store(postgres_url: str) -> Iterator[PostgresStore]:
    """Tables with many rows, none of which the planner takes for few."""
    with fresh_schema(postgres_url) as store:
        client = Client(store=store)
        fill(client, 20_000)
        with psycopg.connect(postgres_url, autocommit=True) as connection:
            for table, columns in SIDE_TABLES.items():
                text = f"INSERT INTO {{p}}{table} SELECT {columns} FROM {{p}}ended"
                connection.execute(text.format(p=store.prefix).encode())
            connection.execute(RUNS.format(p=store.prefix).encode())
            for table in ("ended", "schedule_runs", *SIDE_TABLES):
                connection.execute(f"VACUUM ANALYZE {store.prefix}{table}".encode())
        yield store


def plans(store: PostgresStore, kind: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every node of the plan of each statement of a step, run and rolled back."""
    walk = KINDS[kind](Policies(), PruneStep(kind, NOW, limit=1000))
    with psycopg.connect(store.url) as connection:
        statement = next(walk)
        try:
            while True:
                assert isinstance(statement, Statement)
                asked = Statement(
                    statement.name, {**statement.params, "only_org": None, "only_project": None, "audited": 2}
                )
                found = catalogue("postgres", "dollar", store.prefix)[statement.name]
                query, values = postgres_call(found, asked)
                with psycopg.RawCursor(connection) as cursor:
                    connection.execute("SAVEPOINT before")
                    explained = b"EXPLAIN (ANALYZE, FORMAT JSON) " + query.encoded
                    [[plan]] = cursor.execute(explained, values, prepare=False).fetchall()
                    connection.execute("ROLLBACK TO before")
                    rows = cursor.execute(query.encoded, values, prepare=False).fetchall()
                for node in nodes((json.loads(plan) if isinstance(plan, str) else plan)[0]["Plan"]):
                    yield statement.name, node
                statement = walk.send(rows)
        except StopIteration:
            connection.rollback()


def nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for part in plan.get("Plans", []):
        yield from nodes(part)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "signals"])
def test_no_step_reads_a_large_table_from_end_to_end(store, kind):
    # S4-16
    read = [
        (name, node.get("Relation Name"), node["Actual Rows"] * node["Actual Loops"])
        for name, node in plans(store, kind)
        if node["Node Type"] == "Seq Scan" and node["Actual Rows"] * node["Actual Loops"] > 1000
    ]
    assert read == []


def test_a_page_of_a_walk_costs_the_same_wherever_it_begins(store):
    costs = []
    for begin in (None, make_cursor("prune.jobs", first_id_at(OLD + timedelta(seconds=15)))):
        page = PruneStep("jobs", NOW, begin, limit=100)
        walk = KINDS["jobs"](Policies(), page)
        statement = next(walk)
        assert isinstance(statement, Statement)
        query, values = postgres_call(
            catalogue("postgres", "dollar", store.prefix)[statement.name], statement
        )
        with psycopg.connect(store.url) as connection, psycopg.RawCursor(connection) as cursor:
            explained = b"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) " + query.encoded
            [[plan]] = cursor.execute(explained, values, prepare=False).fetchall()
        [top] = json.loads(plan) if isinstance(plan, str) else plan
        costs.append(top["Plan"]["Shared Hit Blocks"] + top["Plan"]["Shared Read Blocks"])
    assert max(costs) < 400
