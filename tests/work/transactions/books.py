"""A table of the application's own beside Onward's, and connections to it."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

import psycopg

from onward import Onward

__all__ = ["Books"]


class Books:
    """What handlers write in their transactions."""

    def __init__(self, app: Onward) -> None:
        self.url = str(app.clients.url)
        self.sqlite = self.url.startswith("sqlite")
        self.table = "books" if self.sqlite else f"{app.clients.schema}.books"
        self.insert = f"INSERT INTO {self.table} VALUES ({'?' if self.sqlite else '%s'})"

    def create(self) -> None:
        with self.connected() as connection, connection:
            connection.execute(f"CREATE TABLE {self.table} (n bigint)")

    @contextmanager
    def connected(self) -> Iterator[Any]:
        """A connection of the application's own, which Onward has nothing to do with."""
        if self.sqlite:
            with closing(sqlite3.connect(self.url.removeprefix("sqlite:///"), timeout=20)) as connection:
                connection.execute("PRAGMA wal_autocheckpoint = 0")
                yield connection
        else:
            with closing(psycopg.connect(self.url)) as connection:
                yield connection

    def rows(self) -> list[int]:
        """What has been committed."""
        with self.connected() as connection:
            return sorted(n for (n,) in connection.execute(f"SELECT n FROM {self.table}").fetchall())
