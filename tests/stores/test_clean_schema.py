"""The schemas that tests take turns with are as good as new ones."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest

from onward import Client, NewJob
from tests.extent import FULL
from tests.postgres import fresh_database
from tests.stores.postgres import postgres_schema
from tests.stores.postgres.postgres_schema import clean_schema, close_schemas


@pytest.fixture(scope="module")
def url(postgres_server_url: str, worker_id: str) -> Iterator[str]:
    """A database without any."""
    with fresh_database(postgres_server_url, f"onward_turns_{worker_id}_{os.getpid()}") as url:
        yield url
        close_schemas(url)


@contextmanager
def turn(url: str) -> Iterator[tuple[Client, psycopg.Connection[Any]]]:
    """One test that uses a schema."""
    with clean_schema(url) as store, psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"SET search_path = {store.prefix.rstrip('.')}".encode())
        yield Client(store=store), connection


def test_what_a_test_wrote_is_gone_and_what_migrations_wrote_is_back(url, monkeypatch):
    monkeypatch.setattr(postgres_schema, "_SPARE", 1)
    with turn(url) as (_, connection):
        [[oid]] = connection.execute("SELECT CAST('live' AS regclass)::oid")
        settings = connection.execute("SELECT * FROM settings").fetchall()
    with turn(url) as (client, connection):
        client.enqueue(NewJob(job_type="t"))
        connection.execute("DELETE FROM settings")
        connection.execute("DELETE FROM migrations")
    with turn(url) as (client, connection):
        assert connection.execute("SELECT CAST('live' AS regclass)::oid").fetchall() == [(oid,)]
        assert connection.execute("SELECT * FROM settings").fetchall() == settings
        assert not client.store.plan().pending
        assert connection.execute("SELECT count(*) FROM live").fetchall() == [(0,)]
        assert connection.execute("SELECT count(*) FROM audit").fetchall() == [(0,)]
        client.enqueue(NewJob(job_type="t"))
        assert connection.execute("SELECT seq FROM audit").fetchall() == [(1,)]


CHANGES = [
    "CREATE TABLE books (id integer)",
    "ALTER TABLE live ADD COLUMN more integer",
    "ALTER TABLE audit DISABLE TRIGGER ALL",
    "ANALYZE migrations",
    "DROP TABLE effects",
    "DROP INDEX live_due",
    "ALTER TABLE live SET (autovacuum_enabled = off)",
    "ALTER TABLE live ENABLE ROW LEVEL SECURITY",
    "GRANT SELECT ON live TO public",
    "SELECT tend_partitions(now() + interval '1 year', 1)",
]


@pytest.mark.parametrize("change", CHANGES if FULL else CHANGES[:4])
def test_a_schema_that_was_changed_is_made_anew(url, monkeypatch, change):
    monkeypatch.setattr(postgres_schema, "_SPARE", 1)
    with turn(url) as (_, connection):
        [[oid]] = connection.execute("SELECT CAST('live' AS regclass)::oid")
        connection.execute(change.encode())
    with turn(url) as (client, connection):
        assert connection.execute("SELECT CAST('live' AS regclass)::oid").fetchall() != [(oid,)]
        assert client.store.plan().pending == ()
