"""The standard library's `sqlite3` connections."""

from __future__ import annotations

import sqlite3
from collections.abc import Hashable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from onward.connections.driver_calls import Call, calls
from onward.errors import TransactionNotOpen, TransactionOpen, UnsupportedConnection
from onward.operations.statement import Row, Statement
from onward.sql.catalogue import Database, catalogue

OTHER_LIBRARIES = frozenset({"apsw", "pysqlite3", "pysqlcipher3", "sqlcipher3"})

WRITE_LOCK = Statement("take_write_lock", {})
"""Makes an open transaction the writer: once it has read, it may be refused that when others write."""

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
            answers = [_rows(cursor, call) for call in calls(self._queries[statement.name], statement)]
            told = [rows for rows in answers if rows is not None]
            return told[0] if len(told) == 1 else [row for rows in told for row in rows]
        finally:
            self._connection.text_factory = factory
            cursor.close()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Begin a transaction; commits at the end, rolls back on an error."""
        connection = self._connection
        try:
            self._begin()
            # Gone if the block commits or rolls back by itself: what it wrote would not be one with the rest.
            connection.execute("SAVEPOINT onward_transaction")
            yield
            _release(connection)
            connection.commit()
        except TransactionOpen:
            raise
        except BaseException:
            connection.rollback()
            raise

    def _begin(self) -> None:
        if not self._connection.in_transaction:
            self._connection.execute("BEGIN IMMEDIATE")
        elif getattr(self._connection, "autocommit", _LEGACY) is not False:
            raise TransactionOpen(
                "this sqlite3 connection has a transaction open; commit it or roll it back before "
                "ctx.transaction(), which begins one and commits it"
            )
        else:
            # With autocommit=False there is always one.
            self.fetch(WRITE_LOCK)


def _rows(cursor: sqlite3.Cursor, call: Call) -> Sequence[Row] | None:
    if call.returns:
        rows = [row for arguments in call.rows for row in cursor.execute(call.text, arguments).fetchall()]
        return call.read(rows)
    cursor.executemany(call.text, call.rows)
    return None


def _release(connection: sqlite3.Connection) -> None:
    try:
        connection.execute("RELEASE onward_transaction")
    except sqlite3.OperationalError as error:
        raise TransactionNotOpen(
            "the transaction was ended inside ctx.transaction(); leave out commit(), rollback(), "
            "executescript() and `with connection:` there"
        ) from error


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
