"""The adapter for connections of the standard library's `sqlite3`."""

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
"""Takes the write lock in an open transaction; after a read, SQLite may refuse it if others have written."""

_LEGACY = -1


class SqliteConnection:
    """A `sqlite3.Connection`; statements run in the transaction that is open on it."""

    database: Database = "sqlite"

    def __init__(self, connection: sqlite3.Connection, prefix: str) -> None:
        self.prefix = prefix
        self._connection = connection
        self._queries = catalogue("sqlite", "question", prefix)

    @property
    def identity(self) -> Hashable | None:
        """The path of the file; None for an in-memory database, of which each connection has its own."""
        cursor = self._connection.cursor()
        cursor.row_factory = None
        try:
            [_, _, path] = cursor.execute("PRAGMA database_list").fetchone()
        finally:
            cursor.close()
        return path or None

    def require_transaction(self) -> None:
        """Raise TransactionNotOpen if each statement would commit by itself."""
        if commits_by_itself(self._connection):
            raise TransactionNotOpen(
                "this sqlite3 connection is in autocommit mode with no transaction open, so each statement "
                "would commit by itself; run `BEGIN IMMEDIATE` first, or connect without "
                "isolation_level=None and autocommit=True"
            )

    def fetch(self, statement: Statement) -> Sequence[Row]:
        """Run the steps of one named statement and return the rows of all steps."""
        cursor = self._connection.cursor()
        # The caller's connection may return rows as dicts and text as bytes.
        cursor.row_factory = None
        factory, self._connection.text_factory = self._connection.text_factory, str
        try:
            answers = [_rows(cursor, call) for call in calls(self._queries[statement.name], statement)]
            results = [rows for rows in answers if rows is not None]
            return results[0] if len(results) == 1 else [row for rows in results for row in rows]
        finally:
            self._connection.text_factory = factory
            cursor.close()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Begin a transaction that commits at its end and rolls back on an error."""
        connection = self._connection
        try:
            self._begin()
            # A commit or rollback inside the block removes the savepoint; its release then fails and shows
            # that the block's writes are not one transaction.
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
            # With autocommit=False a transaction is always open.
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
    """Whether the next statement would commit by itself."""
    # Python before 3.12 has no `autocommit`; if `autocommit` is set, `isolation_level` has no effect.
    mode = getattr(connection, "autocommit", _LEGACY)
    automatic = connection.isolation_level is None if mode == _LEGACY else bool(mode)
    return automatic and not connection.in_transaction


def require_standard_library(connection: object) -> None:
    """Raise UnsupportedConnection for a connection of another SQLite library than Python's sqlite3."""
    if not isinstance(connection, sqlite3.Connection):
        kind = type(connection)
        raise UnsupportedConnection(
            f"{kind.__module__}.{kind.__qualname__} belongs to another SQLite library than Python's sqlite3, "
            "and two of them in one process break each other's file locks; connect with sqlite3"
        )
