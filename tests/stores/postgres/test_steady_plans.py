"""A worker plans each statement once: on an empty table, and in the way that is right for a full one."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from msgspec.structs import replace

from onward.connections.driver_calls import postgres_call
from onward.connections.libpq.arrays import Array
from onward.core.jobs.job import JobState
from onward.core.records.usage import Usage
from onward.core.work.lifecycle import End, Transition
from onward.core.work.progress import Report
from onward.operations.limits import limits
from onward.operations.records import usage
from onward.operations.schedules.fire import Known
from onward.operations.statement import Operation, Statement
from onward.operations.work import claim, finish, polls, progress, rescue
from onward.sql.catalogue import catalogue
from onward.stores.postgres.sync.postgres_store import _STEADY, PostgresStore
from tests.limits.queues.asking import Q, asked_by, ruled_claim
from tests.stores.postgres.postgres_schema import fill, fresh_schema
from tests.stores.postgres.test_postgres_plans import nodes, scans_of_live

ENDED = Transition(JobState.SUCCEEDED, "job.succeeded", "succeeded", 1, 0, 0)
BACK = Transition(JobState.SCHEDULED, "job.failed", "failed", 1, 0, 0)


def ends(count: int) -> list[End]:
    return [End(str(uuid4()), 1, 1, (ENDED, BACK)[number % 2]) for number in range(count)]


def alike(count: int) -> list[End]:
    return [End(str(uuid4()), 1, 1, ENDED) for _ in range(count)]


def metered(count: int) -> list[End]:
    return [replace(end, usage=(Usage("a", 1.0, 5), Usage("b", 2.0))) for end in ends(count)]


def reported(count: int) -> list[End]:
    return [replace(end, progress=Report(1)) for end in ends(count)]


def later(operation: Operation[Any], *answers: list[Any]) -> Operation[Any]:
    """Give what an operation asks once it was answered so."""
    asked = next(operation)
    for rows in answers:
        asked = operation.send(rows)
    yield asked


STANDING = ("a", 0, 0, 0, 0, None, '{"concurrency":2}', None, 0)

HOT: dict[str, tuple[Callable[[], Operation[Any]], set[str]]] = {
    "claim": (lambda: claim.claim("q:default", 100, worker_id="w"), {"live_ready", "Tid Scan"}),
    "claim beside pauses": (
        lambda: claim.claim("q:default", 100, worker_id="w", paused_types=["t"]),
        {"live_ready", "Tid Scan"},
    ),
    "finish": (lambda: finish.finish(ends(100)), {"live_pkey"}),
    "finish what came to the same": (lambda: finish.finish(alike(100)), {"live_pkey"}),
    "finish one": (lambda: finish.finish(ends(1)), {"live_pkey"}),
    "store progress": (lambda: progress.store([(str(uuid4()), 1, Report(1))]), {"live_pkey"}),
    "store the last progress": (lambda: progress.store_last(reported(2)), {"live_pkey"}),
    "record usage": (lambda: usage.record(metered(100)), {"live_pkey"}),
    "record the usage of one": (lambda: usage.record(metered(1)), {"live_pkey"}),
    "spend": (lambda: usage.spend({"a": 1, "b": 2}), set()),
    "ready queues": (polls.ready_queues, {"live_ready", "live_due"}),
    "instructions": (lambda: polls.instructions("w"), {"live_held"}),
    "find lost": (rescue.find_lost, {"live_held"}),
    "promote": (rescue.promote, {"live_due", "Tid Scan"}),
    "lock slots": (lambda: limits.admit(["a"]), {"live_waiting"}),
    "count slots": (
        lambda: later(limits.admit(["a"]), [("a",)]),
        {"live_begun", "live_limited"},
    ),
    "admit": (
        lambda: later(limits.admit(["a"]), [("a",)], [STANDING]),
        {"live_pkey", "live_waiting"},
    ),
    "find who may be admitted": (limits.find_admissible, {"live_begun", "live_limited", "live_waiting"}),
    "due": (lambda: polls.due(Known(["t"])), {"live_due"}),
    "count what runs of a queue": (lambda: ruled_claim("count_running"), {"live_held"}),
    "find orgs": (lambda: ruled_claim("find_orgs"), {"live_fair"}),
    "find jobs of orgs": (lambda: ruled_claim("find_fair_jobs"), {"live_fair", "live_ready"}),
    "claim what was picked": (lambda: ruled_claim("claim_picked_jobs"), {"live_pkey", "Tid Scan"}),
}

EXPECTED = {name: scans for name, (_, scans) in HOT.items()}
BY_A_RULE = [name for name, (make, _) in HOT.items() if next(make()).name in asked_by('{"fair":true}')]


def test_these_are_all_that_are_planned_once(store):
    steady = {name for name, query in catalogue("postgres", "dollar", store.prefix).items() if query.steady}
    assert {next(make()).name for make, _ in HOT.values()} == steady


@pytest.fixture
def store(postgres_url: str) -> Iterator[PostgresStore]:
    with fresh_schema(postgres_url) as store:
        yield store


def test_plans_made_on_an_empty_table_are_those_for_a_full_table(store):
    with unvacuumed(store) as connection:
        connection.execute(f"VACUUM ANALYZE {store.prefix}live".encode())
        scans = {name: prepared(connection, store, name) for name in HOT}
        before = {name: scans[name]() for name in HOT}
        fill(connection, store, 20_000)
        fill(connection, store, 20_000, state="scheduled", due="1 day")
        assert (before, {name: scans[name]() for name in HOT}) == (EXPECTED, EXPECTED)


def test_plans_made_after_the_table_was_drained_are_those_for_a_full_table(store):
    # A vacuum of the drained table makes the server plan anew, and believe that it will stay empty.
    with unvacuumed(store) as connection:
        fill(connection, store, 5000)
        scans = {name: prepared(connection, store, name) for name in HOT}
        connection.execute(f"DELETE FROM {store.prefix}live".encode())
        connection.execute(f"VACUUM (ANALYZE, TRUNCATE OFF) {store.prefix}live".encode())
        assert {name: scans[name]() for name in HOT} == EXPECTED


def test_plans_made_before_the_table_was_ever_analysed_are_those_for_a_full_table(store):
    # Without statistics all rows are taken for one: to read it by any index and to sort it costs no more than
    # to read it in order, and less where that index is deeper.
    with unvacuumed(store) as connection:
        fill(connection, store, 40_000)
        connection.execute(
            f"UPDATE {store.prefix}live SET fair = true, org_id = repeat(md5(CAST(id AS text)), 6)".encode()
        )
        scans = {name: prepared(connection, store, name) for name in HOT}
        found = {name: scans[name]() for name in HOT if name not in BY_A_RULE}
        with connection.transaction():
            begin_claim(connection, store)
            found |= {name: scans[name]() for name in BY_A_RULE}
        assert found == EXPECTED


def test_a_claim_by_a_rule_reads_the_table_by_its_indexes_in_any_session(store):
    # Few enough for a reading from end to end to look cheap, and enough for as many of them to take a second.
    with unvacuumed(store) as connection:
        fill(connection, store, 10_000)
        connection.execute(f"UPDATE {store.prefix}live SET fair = true, org_id = 'a'".encode())
        settings = "SET plan_cache_mode = force_custom_plan"
        scans = {name: prepared(connection, store, name, settings=settings) for name in BY_A_RULE}
        with connection.transaction():
            begin_claim(connection, store)
            assert [name for name in BY_A_RULE if "Seq Scan" in scans[name]()] == []


def begin_claim(connection: psycopg.Connection, store: PostgresStore) -> None:
    """Do what a claim by a rule begins with: it holds for all that it asks then."""
    connection.execute(f"INSERT INTO {store.prefix}queues (name) VALUES ('{Q}')".encode())
    lock = catalogue("postgres", "dollar", store.prefix)["lock_queue"]
    query, values = postgres_call(lock, asked_by("{}")["lock_queue"])
    psycopg.RawCursor(connection).execute(query.encoded, values)


@contextmanager
def unvacuumed(store: PostgresStore) -> Iterator[psycopg.Connection]:
    with psycopg.connect(store.url, autocommit=True) as connection:
        connection.execute(f"ALTER TABLE {store.prefix}live SET (autovacuum_enabled = off)".encode())
        yield connection


def prepared(
    connection: psycopg.Connection,
    store: PostgresStore,
    name: str,
    settings: str = _STEADY,
) -> Callable[[], set[str]]:
    """Prepare a statement, as a worker does; gives a way to see how its plan reads the hot table."""
    statement = next(HOT[name][0]())
    assert isinstance(statement, Statement)
    query, values = postgres_call(catalogue("postgres", "arrays", store.prefix)[statement.name], statement)
    connection.execute(settings.encode())
    hot = f"hot_{list(HOT).index(name)}"
    connection.execute(f"PREPARE {hot} AS ".encode() + query.encoded)
    return lambda: scans_of_live(plan_of_hot(connection, values, hot))


def plan_of_hot(
    connection: psycopg.Connection, values: tuple[Any, ...], hot: str = "hot"
) -> list[dict[str, Any]]:
    marks = ", ".join(["%s"] * len(values))
    values = tuple(list(value.values) if isinstance(value, Array) else value for value in values)
    with psycopg.ClientCursor(connection) as cursor:
        cursor.execute(f"EXPLAIN (FORMAT JSON) EXECUTE {hot}({marks})".encode(), values)
        [[found]] = cursor.fetchall()
    return list(nodes((json.loads(found) if isinstance(found, str) else found)[0]["Plan"]))
