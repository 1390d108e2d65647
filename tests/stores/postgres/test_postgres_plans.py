"""PostgreSQL's plans: a wrong one is a hundred times slower, and claims more than it was asked for."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from datetime import timedelta
from typing import Any
from uuid import uuid4

import psycopg
import pytest

from onward.clients.sync.client import Client
from onward.connections.driver_calls import postgres_call
from onward.core.jobs.filters import JobFilter
from onward.core.jobs.job import Job, NewJob
from onward.core.policy.policies import DEFAULT_POLICIES
from onward.core.work.lifecycle import End, Failed, Succeeded
from onward.operations.jobs import enqueue, listing
from onward.operations.statement import Operation, Statement
from onward.operations.work import claim, finish, polls, rescue
from onward.sql.catalogue import catalogue
from onward.stores.postgres.sync.postgres_store import PostgresStore
from tests.stores.postgres.postgres_schema import fill, fresh_schema


@pytest.fixture
def store(postgres_url: str) -> Iterator[PostgresStore]:
    with fresh_schema(postgres_url) as store:
        yield store


@pytest.fixture
def client(store: PostgresStore) -> Client:
    client = Client(store=store)
    client.worker.register("w", lease=timedelta(days=1))
    return client


@pytest.fixture
def connection(postgres_url: str) -> Iterator[psycopg.Connection]:
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        yield connection


def plan_of(
    connection: psycopg.Connection, store: PostgresStore, operation: Operation[Any], *, ran: bool = False
) -> list[dict[str, Any]]:
    """Every node of the plan of an operation's first statement, as the store would have it planned.

    What a recursive part looks up is planned in full only when it has `ran`.
    """
    statement = next(operation)
    assert isinstance(statement, Statement)
    query, values = postgres_call(catalogue("postgres", "dollar", store.prefix)[statement.name], statement)
    with psycopg.RawCursor(connection) as cursor:
        [[found]] = cursor.execute(
            b"EXPLAIN (ANALYZE %s, FORMAT JSON) " % str(ran).encode() + query.encoded, values, prepare=False
        ).fetchall()
    return list(nodes((json.loads(found) if isinstance(found, str) else found)[0]["Plan"]))


def nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for part in plan.get("Plans", []):
        yield from nodes(part)


def scans_of_live(plan: list[dict[str, Any]]) -> set[str]:
    """How the plan reads the hot table: by which index, by row address, or from end to end."""
    limited = [part for node in plan if node["Node Type"] == "Limit" for part in node["Plans"]]
    return {
        f"whole {node['Index Name']}"
        if "Index Name" in node and "Index Cond" not in node and node not in limited
        else node.get("Index Name", node["Node Type"])
        for node in plan
        if node.get("Relation Name") == "live" or node.get("Index Name", "").startswith("live")
    } - {"ModifyTable"}


def test_a_claim_of_five_takes_five_when_the_statistics_are_stale(client, store, connection):
    # S1-21, S3-13, S3-16
    # F23, R18: the planner believes in one row and would gladly run the LIMIT once for each of them.
    fill(connection, store, 1)
    connection.execute(f"ALTER TABLE {store.prefix}live SET (autovacuum_enabled = off)".encode())
    connection.execute(f"ANALYZE {store.prefix}live".encode())
    fill(connection, store, 10_000)
    assert len(client.worker.claim("q:default", 5, worker_id="w")) == 5
    [[running]] = connection.execute(
        f"SELECT count(*) FROM {store.prefix}live WHERE state = 'running'".encode()
    )
    assert running == 5


def test_a_claim_first_made_on_an_empty_table_is_planned_anew_when_jobs_have_come(client, store, connection):
    connection.execute(f"ALTER TABLE {store.prefix}live SET (autovacuum_enabled = off)".encode())
    connection.execute(f"VACUUM ANALYZE {store.prefix}live".encode())
    # More often than it takes for a driver to prepare a statement and for the server to keep its plan.
    for _ in range(20):
        assert client.worker.claim("q:default", 100, worker_id="w") == []
    with store.pool.connection() as own:
        kept = [name for (name,) in own.execute("SELECT statement FROM pg_prepared_statements")]
    assert not [text for text in kept if "job.started" in text], "the server keeps a plan of the claim"
    fill(connection, store, 20_000)
    plan = plan_of(connection, store, claim.claim("q:default", 100, worker_id="w"))
    assert scans_of_live(plan) == {"live_ready", "Tid Scan"}
    assert len(client.worker.claim("q:default", 100, worker_id="w")) == 100


def test_a_look_reads_one_row_of_each_index_although_the_statistics_know_of_none(client, store, connection):
    # min(run_at) took 200 ms over a million jobs here: the planner saw no gain in stopping after the first.
    connection.execute(f"ALTER TABLE {store.prefix}live SET (autovacuum_enabled = off)".encode())
    fill(connection, store, 1000)
    connection.execute(f"ANALYZE {store.prefix}live".encode())
    fill(connection, store, 20_000, state="scheduled", due="1 day")
    plan = plan_of(connection, store, polls.ready_queues(), ran=True)
    assert scans_of_live(plan) == {"live_ready", "live_due"}
    limited = [part for node in plan if node["Node Type"] == "Limit" for part in node["Plans"]]
    read = [node for node in plan if node.get("Relation Name") == "live"]
    assert len(read) == 3
    assert all(node in limited for node in read)
    assert {node["Node Type"] for node in read} <= {"Index Scan", "Index Only Scan"}
    assert sum(node["Actual Rows"] for node in read) == 2
    assert client.worker.ready_queues().next_due is not None


@pytest.fixture
def crowded(client: Client, store: PostgresStore, connection: psycopg.Connection) -> list[Job]:
    """A hundred thousand jobs of each kind, and a hundred that are held."""
    fill(connection, store, 100_000)
    fill(connection, store, 100_000, state="scheduled", due="1 day")
    fill(connection, store, 100, state="scheduled", due="-1 s")
    jobs = client.worker.claim("q:default", 100, worker_id="w")
    connection.execute(f"VACUUM ANALYZE {store.prefix}live".encode())
    return jobs


def test_no_hot_statement_reads_the_whole_table(crowded, store, connection):  # S0-2, S0-17, S2-11
    policy = DEFAULT_POLICIES.policy_of(crowded[0])
    ends = [End.of(job, Succeeded(), policy) for job in crowded[:50]]
    ends += [End.of(job, Failed({"error_class": "E"}), policy) for job in crowded[50:]]
    plans = {
        "claim": scans_of_live(plan_of(connection, store, claim.claim("q:default", 100, worker_id="w"))),
        "finish": scans_of_live(plan_of(connection, store, finish.finish(ends))),
        "claim beside pauses": scans_of_live(
            plan_of(connection, store, claim.claim("q:default", 100, worker_id="w", paused_types=["t"]))
        ),
        "ready queues": scans_of_live(plan_of(connection, store, polls.ready_queues(), ran=True)),
        "instructions": scans_of_live(plan_of(connection, store, polls.instructions("w"))),
        "promote": scans_of_live(plan_of(connection, store, rescue.promote(100))),
        "rescue": scans_of_live(plan_of(connection, store, rescue.find_lost(100))),
        "list": scans_of_live(plan_of(connection, store, listing.list_jobs(JobFilter(key="k")))),
    }
    new = [NewJob(job_type="t", key=f"k{number}") for number in range(10)]
    for count in (1, 10):
        enqueued = enqueue.enqueue_many(new[:count], [str(uuid4()) for _ in range(count)])
        scans = {
            node.get("Relation Name")
            for node in plan_of(connection, store, enqueued)
            if "Scan" in node["Node Type"]
        }
        assert scans <= {None, "workers"}, "an enqueue's plan is kept, so it must read nothing that grows"
    assert plans == {
        "claim": {"live_ready", "Tid Scan"},
        "claim beside pauses": {"live_ready", "Tid Scan"},
        "finish": {"live_pkey"},
        "ready queues": {"live_ready", "live_due"},
        "instructions": {"live_held"},
        "promote": {"live_due", "Tid Scan"},
        "rescue": {"live_held"},
        "list": {"live_pkey"},
    }


def test_a_thousand_failures_are_not_compared_with_each_other(client, store, connection):
    # The server never counted these rows, and all have one lease: joined by it, each would meet each.
    connection.execute(f"ALTER TABLE {store.prefix}live SET (autovacuum_enabled = off)".encode())
    client.enqueue_many([NewJob(job_type="t") for _ in range(1000)])
    jobs = client.worker.claim("q:default", 1000, worker_id="w")
    policy = DEFAULT_POLICIES.policy_of(jobs[0])
    ends = [End.of(job, Failed("x"), policy, number / 1000) for number, job in enumerate(jobs)]
    read = [node for node in plan_of(connection, store, finish.finish(ends)) if node.get("Alias") == "live_1"]
    assert [node.get("Index Name") for node in read] == ["live_pkey"]


def test_the_hot_table_is_vacuumed_when_much_of_it_is_dead(store, connection):
    connection.execute(f"ALTER TABLE {store.prefix}live SET (autovacuum_enabled = off)".encode())
    fill(connection, store, 30_000)
    assert not store.vacuum()
    connection.execute(f"DELETE FROM {store.prefix}live".encode())
    # The server counts a session's dead rows when it ends, or later.
    connection.close()
    deadline = time.monotonic() + 20
    while not store.vacuum():
        assert time.monotonic() < deadline
    with psycopg.connect(store.url, autocommit=True) as fresh:
        [[dead]] = fresh.execute(f"SELECT pg_stat_get_dead_tuples('{store.prefix}live'::regclass)".encode())
        assert dead < 20_000
