"""The standard library's `sqlite3` connections."""

from __future__ import annotations

import sqlite3
from collections.abc import Hashable, Sequence
from typing import Any

from onward.connections.parameters import Call, calls
from onward.errors import TransactionNotOpen, UnsupportedConnection
from onward.operations.statement import Row, Statement
from onward.sql.catalogue import Database, catalogue

__all__ = ["OTHER_LIBRARIES", "SqliteConnection", "commits_by_itself", "require_standard_library"]

OTHER_LIBRARIES = frozenset({"apsw", "pysqlite3", "pysqlcipher3", "sqlcipher3"})

_LEGACY = -1


class SqliteConnection:
    """A `sqlite3.Connection`; what is run on it belongs to the transaction that is open there."""

    database: Database = "sqlite"

    def __init__(self, connection: sqlite3.Connection, prefix: str) -> None:
        self.prefix = prefix
        self._connection = connection
        self._queries = catalogue("sqlite", "question", prefix)

    @property
    def identity(self) -> Hashable | None:
        """Tell the file; None for a database in memory, which each connection has for itself."""
        cursor = self._connection.cursor()
        cursor.row_factory = None
        try:
            [_, _, path] = cursor.execute("PRAGMA database_list").fetchone()
        finally:
            cursor.close()
        return path or None

    def require_transaction(self) -> None:
        """Refuse a connection that would commit each statement by itself."""
        if commits_by_itself(self._connection):
            raise TransactionNotOpen(
                "this sqlite3 connection is in autocommit mode with no transaction open, so each statement "
                "would commit by itself; run `BEGIN IMMEDIATE` first, or connect without "
                "isolation_level=None and autocommit=True"
            )

    def fetch(self, statement: Statement) -> Sequence[Row]:
        """Run the steps of one named statement and put their rows together."""
        cursor = self._connection.cursor()
        # The caller's connection may make dicts of rows, and bytes of text.
        cursor.row_factory = None
        factory, self._connection.text_factory = self._connection.text_factory, str
        try:
            return [
                row for call in calls(self._queries[statement.name], statement) for row in _rows(cursor, call)
            ]
        finally:
            self._connection.text_factory = factory
            cursor.close()


def _rows(cursor: sqlite3.Cursor, call: Call) -> Sequence[Row]:
    if call.returns:
        rows = [row for arguments in call.rows for row in cursor.execute(call.text, arguments).fetchall()]
        return call.read(rows)
    cursor.executemany(call.text, call.rows)
    return ()


def commits_by_itself(connection: Any) -> bool:
    """Tell whether the next statement would be a transaction of its own."""
    # Before Python 3.12 there is no `autocommit`, and where it is set `isolation_level` says nothing.
    mode = getattr(connection, "autocommit", _LEGACY)
    automatic = connection.isolation_level is None if mode == _LEGACY else bool(mode)
    return automatic and not connection.in_transaction


def require_standard_library(connection: object) -> None:
    """Refuse a connection of another SQLite library than Python's own."""
    if not isinstance(connection, sqlite3.Connection):
        kind = type(connection)
        raise UnsupportedConnection(
            f"{kind.__module__}.{kind.__qualname__} belongs to another SQLite library than Python's sqlite3, "
            "and two of them in one process break each other's file locks; connect with sqlite3"
        )
