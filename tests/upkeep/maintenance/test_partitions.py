"""The monthly partitions of ended jobs: made ahead, and dropped when they are empty."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import psycopg
import pytest

from onward import Client, NewJob
from onward.core.jobs.ids import first_id_at
from onward.stores.postgres.sync.postgres_store import PostgresStore
from tests.stores.postgres.postgres_schema import fresh_schema
from tests.upkeep.maintenance.maintenance_history import put_ended


@pytest.fixture
def store(postgres_url: str) -> Iterator[PostgresStore]:
    with fresh_schema(postgres_url) as store:
        yield store


@pytest.fixture
def connection(postgres_url: str) -> Iterator[psycopg.Connection]:
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        yield connection


def partitions(connection: psycopg.Connection, store: PostgresStore) -> list[str]:
    rows = connection.execute(
        "SELECT c.relname FROM pg_inherits AS i JOIN pg_class AS c ON c.oid = i.inhrelid "
        "WHERE i.inhparent = CAST(%s AS regclass) ORDER BY 1",
        [f"{store.prefix}ended"],
    )
    return [name for (name,) in rows.fetchall()]


def in_months(months: int) -> datetime:
    """The middle of a month to come."""
    return datetime.now(UTC).replace(day=15) + timedelta(days=30.4 * months)


def month_of(at: datetime) -> str:
    return f"ended_{at:%Y%m}"


def test_a_new_schema_has_this_month_three_ahead_and_the_rest(store, connection):
    months = [month_of(in_months(ahead)) for ahead in range(4)]
    assert partitions(connection, store) == [*months, "ended_rest"]


def test_the_months_to_come_are_made_ahead_and_those_that_are_there_are_left(store, connection):
    client = Client(store=store)
    assert client.worker.maintenance.tend().items == []
    made = client.at(in_months(2)).worker.maintenance.tend()
    assert [(one.done, one.name) for one in made] == [
        ("made", month_of(in_months(4))),
        ("made", month_of(in_months(5))),
    ]
    assert made[1].name in partitions(connection, store)
    assert client.at(in_months(2)).worker.maintenance.tend().items == []


def test_jobs_of_such_a_month_come_out_of_the_rest(store, connection):
    client = Client(store=store)
    job_id = put_ended(client)
    late = first_id_at(in_months(5))
    connection.execute(f"UPDATE {store.prefix}ended SET id = '{late}' WHERE id = '{job_id}'".encode())
    [(rest,)] = connection.execute(f"SELECT count(*) FROM {store.prefix}ended_rest".encode()).fetchall()
    assert rest == 1
    made = client.at(in_months(2)).worker.maintenance.tend()
    assert [one.detail for one in made] == ["0", "1"]
    [(place,)] = connection.execute(
        f"SELECT CAST(tableoid AS regclass)::text FROM {store.prefix}ended WHERE id = '{late}'".encode()
    ).fetchall()
    assert place == f"{store.prefix}{made[1].name}"
    assert client.jobs.get(late).id == late


def test_a_month_of_the_past_that_is_empty_is_dropped_and_another_is_not(store, connection):
    client = Client(store=store)
    put_ended(client)
    here = partitions(connection, store)
    done = client.at(in_months(5)).worker.maintenance.tend()
    dropped = [one.name for one in done if one.done == "dropped"]
    # The first has a job; the last two before the present one may still get some.
    assert dropped == here[1:3]
    assert here[0] in partitions(connection, store)
    client.enqueue(NewJob(job_type="t"))


def test_nobody_waits_for_it_and_it_waits_for_nobody(store, connection):
    client = Client(store=store)
    with connection.transaction():
        # Who reads all of them, and does not come to an end.
        connection.execute(f"SELECT count(*) FROM {store.prefix}ended".encode())
        [failed] = client.at(in_months(2)).worker.maintenance.tend()
        assert (failed.done, failed.name) == ("failed", month_of(in_months(4)))
        assert "lock timeout" in (failed.detail or "")
        put_ended(client)
    assert [one.done for one in client.at(in_months(2)).worker.maintenance.tend()] == ["made", "made"]


def test_a_new_one_has_the_protection_of_the_others(store, connection):
    client = Client(store=store)
    client.protect_orgs()
    [made, _] = client.at(in_months(2)).worker.maintenance.tend()
    [(protected,)] = connection.execute(
        "SELECT relrowsecurity FROM pg_class WHERE oid = CAST(%s AS regclass)", [f"{store.prefix}{made.name}"]
    ).fetchall()
    assert protected
