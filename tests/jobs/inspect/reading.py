"""A look into the tables from outside, for what no operation tells."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import Any

import psycopg

from onward import Client
from onward.stores.postgres.sync.postgres_store import PostgresStore
from onward.stores.sqlite.sqlite_store import SqliteStore

__all__ = ["rows"]


def rows(client: Client, text: str) -> list[tuple[Any, ...]]:
    """Run one statement on a connection of its own; `{prefix}` stands before a table's name."""
    store = client.store
    query = text.format(prefix=store.prefix)
    if isinstance(store, SqliteStore):
        with closing(sqlite3.connect(store.file.path, isolation_level=None)) as connection:
            return connection.execute(query).fetchall()
    assert isinstance(store, PostgresStore)
    with psycopg.connect(store.url, autocommit=True) as connection:
        cursor = connection.execute(query.encode())
        return cursor.fetchall() if cursor.description else []
