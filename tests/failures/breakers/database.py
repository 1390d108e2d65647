"""SQL beside the store, for what no operation does."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import psycopg

from onward import Client
from onward.stores.postgres.sync.postgres_store import PostgresStore
from onward.stores.sqlite.sqlite_store import SqliteStore

__all__ = ["execute"]


def execute(client: Client, text: str) -> None:
    """Run a statement on the client's database, and commit."""
    store = client.store
    if isinstance(store, SqliteStore):
        with closing(sqlite3.connect(store.file.path)) as connection, connection:
            connection.execute(text)
    elif isinstance(store, PostgresStore):
        with psycopg.connect(store.url, autocommit=True) as asked:
            asked.execute(text.encode())
