"""The limit of a drain: Onward's own claim and finish statements, one after the other and nothing else."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import TypeVar

import psycopg
from psycopg import sql

from bench.measuring import seconds
from onward.clients.sync.client import Client
from onward.connections.driver_calls import postgres_call
from onward.connections.drivers.sqlite import SqliteConnection
from onward.connections.run import run
from onward.core.jobs.job import COLUMNS, Job
from onward.core.policy.policies import DEFAULT_POLICIES
from onward.core.work.lifecycle import End, Succeeded
from onward.operations.statement import Operation, Statement
from onward.operations.work import claim, finish, leases
from onward.sql.catalogue import catalogue
from onward.stores.postgres.sync.postgres_store import PostgresStore
from onward.stores.sqlite.sqlite_store import SqliteStore

__all__ = ["postgres", "sqlite"]

T = TypeVar("T")

BATCH = 500
WORKER = "limit"

# The statements are run as they are, so a function takes what the claim returns: a WITH that changes rows may
# not stand in a sub-select.
CLAIM = """
CREATE FUNCTION {prefix}bench_claim() RETURNS SETOF record LANGUAGE plpgsql AS $body$
BEGIN RETURN QUERY EXECUTE {claim} USING {claim_values}; END $body$
"""
DRAIN = """
CREATE PROCEDURE {prefix}bench_drain() LANGUAGE plpgsql AS $body$
DECLARE claimed uuid[];
BEGIN
    LOOP
        SELECT array_agg(CAST(id AS uuid)) INTO claimed
        FROM {prefix}bench_claim() AS job({columns});
        COMMIT;
        EXIT WHEN claimed IS NULL;
        EXECUTE {finish} USING {finish_values};
        COMMIT;
    END LOOP;
END $body$
"""
TYPES = """
SELECT array_agg(format_type(oid, NULL) ORDER BY at) FROM unnest(%s::oid[]) WITH ORDINALITY AS t(oid, at)
"""


def postgres(store: PostgresStore, jobs: int) -> float:
    """Drain a filled store within the server, commit by commit; gives jobs a second."""
    client = Client(store=store)
    client.worker.register(WORKER, lease=timedelta(days=1))
    with psycopg.connect(store.url, autocommit=True) as connection:
        sample = client.worker.claim("q:default", 2, worker_id=WORKER, paused_orgs=())
        make_procedure(connection, store.prefix, sample)
        client.worker.finish([job.end_with(Succeeded()) for job in sample]).require()
        passed = seconds(lambda: connection.execute(f"CALL {store.prefix}bench_drain()".encode()))
    return (jobs - len(sample)) / passed


def make_procedure(connection: psycopg.Connection, prefix: str, sample: Sequence[Job]) -> None:
    queries = catalogue("postgres", "arrays", prefix)
    to_claim = next(claim.claim_rows("q:default", BATCH, worker_id=WORKER))
    to_finish = next(
        finish.finish([End.of(job, Succeeded(), DEFAULT_POLICIES.policy_of(job)) for job in sample])
    )
    assert isinstance(to_claim, Statement)
    assert isinstance(to_finish, Statement)
    claiming, claim_values = postgres_call(queries["claim_jobs"], to_claim)
    # No-op jobs differ in nothing but their ids, which travel as an array.
    assert to_finish.name == "finish_alike"
    finishing, finish_values = postgres_call(queries[to_finish.name], to_finish)
    named = zip(finishing.steps[0].names, finish_values, strict=True)
    made = {
        "prefix": sql.SQL(prefix),
        "claim": sql.Literal(claiming.steps[0].text),
        "claim_values": values(claim_values),
        "columns": returned(connection, claiming.steps[0].text, claim_values),
        "finish": sql.Literal(finishing.steps[0].text),
        "finish_values": sql.SQL(", ").join(
            sql.SQL("claimed") if name == "ended" else sql.Literal(value) for name, value in named
        ),
    }
    for text in (CLAIM, DRAIN):
        connection.execute(sql.SQL(text).format(**made))


def values(given: Sequence[object]) -> sql.Composed:
    return sql.SQL(", ").join(map(sql.Literal, given))


def returned(connection: psycopg.Connection, claim: str, given: Sequence[object]) -> sql.Composed:
    """Name the columns of a claim with the types that the server gives them."""
    with connection.transaction(force_rollback=True), psycopg.RawCursor(connection) as cursor:
        cursor.execute(claim.encode(), given)
        described = cursor.description or []
    types = connection.execute(TYPES, [[column.type_code for column in described]]).fetchone()
    assert types
    pairs = zip(COLUMNS, types[0], strict=True)
    return sql.SQL(", ").join(
        sql.SQL("{} {}").format(sql.Identifier(name), sql.SQL(kind)) for name, kind in pairs
    )


def sqlite(path: Path, jobs: int) -> float:
    """Drain a filled file through one connection in this thread; gives jobs a second."""
    store = SqliteStore(path)
    with closing(store), closing(store.file.connect()) as connection:
        adapted = SqliteConnection(connection, store.prefix)

        def commit(operation: Operation[T]) -> T:
            connection.execute("BEGIN IMMEDIATE")
            result = run(operation, adapted)
            connection.execute("COMMIT")
            return result

        commit(leases.register(WORKER, lease=timedelta(days=1)))
        start = time.perf_counter()
        while claimed := commit(claim.claim("q:default", BATCH, worker_id=WORKER, paused_orgs=())):
            commit(
                finish.finish([End.of(job, Succeeded(), DEFAULT_POLICIES.policy_of(job)) for job in claimed])
            ).require()
        return jobs / (time.perf_counter() - start)
