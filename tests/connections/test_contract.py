"""One contract for every kind of connection: the caller's transaction decides, and nothing else differs."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from onward.connections import driver_calls, require_tables, run
from onward.core.jobs.job import NewJob
from onward.errors import OnwardError, PayloadRejected, PayloadTooLarge
from onward.operations.jobs import enqueue, inspect
from onward.operations.statement import Row, Statement
from onward.stores.postgres.postgres_store import AsyncPostgresStore
from onward.stores.postgres.sync.postgres_store import PostgresStore
from onward.stores.sqlite.sqlite_store import AsyncSqliteStore, SqliteStore
from tests.connections.caller import NOW, bound
from tests.connections.kinds import KINDS, Address, Caller, Kind, open_caller
from tests.connections.scenarios import controlling, enqueueing, keying, metering, resolving, working
from tests.connections.scenarios.steps import ids, put
from tests.extent import FULL

SCENARIOS = [
    *enqueueing.SCENARIOS,
    *working.SCENARIOS,
    *controlling.SCENARIOS,
    *keying.SCENARIOS,
    *metering.SCENARIOS,
    *resolving.SCENARIOS,
]
# Each scenario over a few kinds and each kind with a few scenarios, unless all is run.
APART = 1 if FULL else 7
PAIRS = [
    pytest.param(kind, scenario, id=f"{kind.name}-{scenario.__name__}")
    for row, kind in enumerate(KINDS)
    for column, scenario in enumerate(SCENARIOS)
    if (row + column) % APART == 0
]


@pytest.fixture(params=KINDS, ids=lambda kind: kind.name)
def caller(request, address):
    kind: Kind = request.param
    with open_caller(kind, address) as caller:
        yield caller


@pytest.mark.parametrize(("caller", "scenario"), PAIRS, indirect=["caller"])
def test_the_callers_transaction_decides(caller: Caller, scenario, observer):  # S0-2
    database = caller.kind.database
    caller.begin()
    scenario(caller.go)
    caller.rollback()
    assert observer.rows(database) == {}

    caller.begin()
    job_ids = scenario(caller.go)
    seen = caller.go(inspect.get_many(job_ids))
    assert observer.rows(database) == {}
    caller.commit()

    def outside(operation):
        return run(bound(operation), observer.connection(database))

    assert outside(inspect.get_many(job_ids)) == seen
    assert seen.keys() == set(job_ids)
    assert all(outside(inspect.events_of(job_id))[0].event == "job.enqueued" for job_id in job_ids)


STORES: list[Callable[[Address], Any]] = [
    lambda address: SqliteStore(address.path),
    lambda address: AsyncSqliteStore(address.path),
    lambda address: PostgresStore(address.url),
    lambda address: AsyncPostgresStore(address.url),
]


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
@pytest.mark.parametrize("open_store", STORES, ids=["sqlite", "sqlite-async", "postgres", "postgres-async"])
def test_a_store_keeps_the_same_contract(open_store, scenario, address, observer):
    with asyncio.Runner() as runner:

        def settled(result):
            return runner.run(result) if asyncio.iscoroutine(result) else result

        store = open_store(address)
        try:
            job_ids = scenario(lambda operation, at=NOW: settled(store.run(lambda: bound(operation, at))))
        finally:
            settled(store.close())
    found = run(bound(inspect.get_many(job_ids)), observer.connection(store.database))
    assert found.keys() == set(job_ids)


class Counting:
    """Counts the statements that reach a connection."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner
        self.statements = 0

    def fetch(self, statement: Statement) -> Sequence[Row]:
        self.statements += 1
        rows: Sequence[Row] = self.inner.fetch(statement)
        return rows


class Plain:
    """Not JSON."""


HOSTILE = {
    "NaN": float("nan"),
    "infinity": [float("-inf")],
    "NUL": "a\0b",
    "NUL in a key": {"\0": 1},
    "a lone surrogate": "\ud800",
    "too large a number": 2**70,
    "bytes": b"x",
    "an object": Plain(),
    "too deep": json.loads("[" * 100 + "]" * 100),
}


def test_a_hostile_payload_is_refused_before_any_sql(caller: Caller, observer):
    caller.begin()
    counting = caller.adapted = Counting(caller.adapted)
    for name, value in HOSTILE.items():
        for key in (None, "k"):
            with pytest.raises(PayloadRejected):
                put(caller.go, payload={name: [value]}, key=key)
    with pytest.raises(PayloadTooLarge):
        put(caller.go, payload={"large": "x" * 10_000_000})
    good = [NewJob(job_type="good", payload={"n": n}) for n in range(3)]
    with pytest.raises(PayloadRejected):
        caller.go(
            enqueue.enqueue_many([*good, NewJob(job_type="bad", payload={"x": b"x"})], ids.make_many(4))
        )
    assert counting.statements == 0
    put(caller.go, "good")
    caller.commit()
    assert observer.rows(caller.kind.database) == {"live": 1, "audit": 1}


def test_a_database_error_reaches_the_caller_as_it_is(caller: Caller, observer):
    caller.begin()
    job_id = put(caller.go).id
    with pytest.raises(Exception, match=r"(?i)unique|duplicate") as caught:
        caller.go(enqueue.enqueue(NewJob(job_type="mail"), job_id))
    assert not isinstance(caught.value, OnwardError)
    caller.rollback()
    assert observer.rows(caller.kind.database) == {}


def test_the_tables_are_asked_for_once(caller: Caller, observer):
    caller.begin()
    caller.go(require_tables(caller.adapted))
    if caller.adapted.identity is not None:
        assert list(require_tables(caller.adapted)) == []
    caller.rollback()


def test_numbered_marks_are_spelt_out_where_python_takes_them_for_names(address, observer, monkeypatch):
    monkeypatch.setattr(driver_calls, "_MISTAKES_NUMBERS_FOR_NAMES", True)
    with open_caller(KINDS[0], address) as caller:
        for scenario in SCENARIOS:
            caller.begin()
            scenario(caller.go)
            caller.rollback()
    assert observer.rows("sqlite") == {}
