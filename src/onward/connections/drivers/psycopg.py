"""The adapters for psycopg 3 connections, sync and async."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from typing import Any, TypeVar

import psycopg
from psycopg.adapt import Dumper
from psycopg.pq import Format, TransactionStatus
from psycopg.rows import tuple_row

from onward.connections.driver_calls import postgres_call
from onward.connections.libpq.arrays import Array
from onward.connections.libpq.prepared import Direct
from onward.connections.run import one_by_one, one_by_one_async
from onward.errors import TransactionNotOpen, TransactionOpen
from onward.operations.statement import Row, Statement
from onward.sql.catalogue import Database, catalogue

C = TypeVar("C", psycopg.RawCursor[Row], psycopg.AsyncRawCursor[Row])


class PsycopgConnection:
    """A `psycopg.Connection`; statements run in the transaction that is open on it.

    `direct` is only for a connection that Onward alone uses and that goes through no pooler.
    """

    database: Database = "postgres"

    def __init__(
        self,
        connection: psycopg.Connection[Any],
        prefix: str,
        *,
        direct: Direct | None = None,
        prepare: bool = False,
    ) -> None:
        self.prefix = prefix
        self._prepare = prepare
        self._connection = connection
        self._queries = catalogue("postgres", "arrays", prefix)
        self._direct = direct

    @property
    def identity(self) -> Hashable | None:
        """The address and name of the database."""
        return _identity(self._connection)

    def require_transaction(self) -> None:
        """Raise TransactionNotOpen if each statement would commit by itself."""
        _require_transaction(self._connection)

    def transaction(self) -> AbstractContextManager[object]:
        """Begin a transaction that commits at its end and rolls back on an error."""
        _require_none(self._connection)
        return self._connection.transaction()

    def fetch(self, statement: Statement) -> Sequence[Row]:
        """Run one named statement and return its rows."""
        query, values = postgres_call(self._queries[statement.name], statement)
        if self._direct is not None and self._direct.takes(query):
            return self._connection.wait(self._direct.exchange(query, values))
        prepare = None if query.plan_once else self._prepare and query.steady
        with self._new_cursor() as cursor:
            return cursor.execute(query.encoded, values, prepare=prepare).fetchall()

    def _new_cursor(self) -> psycopg.RawCursor[Row]:
        # Not `connection.cursor()`: the caller may have set another row factory. A raw cursor, because
        # psycopg would search a long text for placeholders each time.
        return _taking_arrays(psycopg.RawCursor(self._connection, row_factory=tuple_row))

    def fetch_ahead(self, statements: Iterator[Statement]) -> Sequence[Row]:
        """Run statements and return their rows; make each one while the server works on those before it."""
        if not psycopg.Pipeline.is_supported():
            return one_by_one(self, statements)
        cursors = []
        with self._connection.pipeline():
            for statement in statements:
                query, values = postgres_call(self._queries[statement.name], statement)
                cursor = self._new_cursor()
                cursor.execute(query.encoded, values, prepare=False)
                cursors.append(cursor)
            return [row for cursor in cursors for row in cursor.fetchall()]


class AsyncPsycopgConnection:
    """A `psycopg.AsyncConnection`; statements run in the transaction that is open on it.

    `direct` is only for a connection that Onward alone uses and that goes through no pooler.
    """

    database: Database = "postgres"

    def __init__(
        self,
        connection: psycopg.AsyncConnection[Any],
        prefix: str,
        *,
        direct: Direct | None = None,
        prepare: bool = False,
    ) -> None:
        self.prefix = prefix
        self._prepare = prepare
        self._connection = connection
        self._queries = catalogue("postgres", "arrays", prefix)
        self._direct = direct

    @property
    def identity(self) -> Hashable | None:
        """The address and name of the database."""
        return _identity(self._connection)

    def require_transaction(self) -> None:
        """Raise TransactionNotOpen if each statement would commit by itself."""
        _require_transaction(self._connection)

    def transaction(self) -> AbstractAsyncContextManager[object]:
        """Begin a transaction that commits at its end and rolls back on an error."""
        _require_none(self._connection)
        return self._connection.transaction()

    async def fetch(self, statement: Statement) -> Sequence[Row]:
        """Run one named statement and return its rows."""
        query, values = postgres_call(self._queries[statement.name], statement)
        if self._direct is not None and self._direct.takes(query):
            return await self._connection.wait(self._direct.exchange(query, values))
        prepare = None if query.plan_once else self._prepare and query.steady
        async with self._new_cursor() as cursor:
            return await (await cursor.execute(query.encoded, values, prepare=prepare)).fetchall()

    def _new_cursor(self) -> psycopg.AsyncRawCursor[Row]:
        return _taking_arrays(psycopg.AsyncRawCursor(self._connection, row_factory=tuple_row))

    async def fetch_ahead(self, statements: Iterator[Statement]) -> Sequence[Row]:
        """Run statements and return their rows; make each one while the server works on those before it."""
        if not psycopg.Pipeline.is_supported():
            return await one_by_one_async(self, statements)
        cursors = []
        async with self._connection.pipeline():
            for statement in statements:
                query, values = postgres_call(self._queries[statement.name], statement)
                cursor = self._new_cursor()
                await cursor.execute(query.encoded, values, prepare=False)
                cursors.append(cursor)
            return [row for cursor in cursors for row in await cursor.fetchall()]


class _ArrayDumper(Dumper):
    format = Format.BINARY

    def dump(self, obj: Array) -> bytes:
        """Return the array as it is sent, with text in the encoding of its connection."""
        return obj.written(self.connection.info.encoding if self.connection else "utf-8")


def _taking_arrays(cursor: C) -> C:
    # Registered on this cursor only: the connection may be the caller's.
    cursor.adapters.register_dumper(Array, _ArrayDumper)
    return cursor


def _identity(connection: psycopg.Connection[Any] | psycopg.AsyncConnection[Any]) -> Hashable:
    info = connection.info
    return info.host, info.port, info.dbname


def _require_transaction(connection: psycopg.Connection[Any] | psycopg.AsyncConnection[Any]) -> None:
    if connection.autocommit and connection.info.transaction_status == TransactionStatus.IDLE:
        raise TransactionNotOpen(
            "this psycopg connection is in autocommit mode with no transaction open, so each statement would "
            "commit by itself; call within() inside `with connection.transaction():`, or connect without it"
        )


def _require_none(connection: psycopg.Connection[Any] | psycopg.AsyncConnection[Any]) -> None:
    if connection.info.transaction_status not in {TransactionStatus.IDLE, TransactionStatus.UNKNOWN}:
        raise TransactionOpen(
            "this psycopg connection has a transaction open; commit it or roll it back before "
            "ctx.transaction(), which begins one and commits it"
        )
