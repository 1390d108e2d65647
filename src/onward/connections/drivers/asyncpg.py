"""The adapter for asyncpg connections, including those from a pool."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import asyncpg

from onward.connections.driver_calls import postgres_call
from onward.errors import TransactionNotOpen, TransactionOpen, UnsupportedConnection
from onward.operations.statement import Row, Statement
from onward.sql.catalogue import Database, catalogue


class AsyncpgConnection:
    """An `asyncpg.Connection`; statements run in the transaction that is open on it."""

    database: Database = "postgres"

    def __init__(self, connection: Any, prefix: str) -> None:
        self.prefix = prefix
        self._connection = connection
        self._queries = catalogue("postgres", "dollar", prefix)

    @property
    def identity(self) -> Hashable | None:
        """The address and name of the database; None if they are unknown."""
        # These attributes of asyncpg are private and may disappear; without them the database is unknown.
        params, address = (getattr(self._connection, name, None) for name in ("_params", "_addr"))
        return (address, params.database) if params and address else None

    def require_transaction(self) -> None:
        """Raise if the connection is closed, or if each statement would commit by itself."""
        if self._connection.is_closed():
            raise UnsupportedConnection("this asyncpg connection is closed; give an open one")
        if not self._connection.is_in_transaction():
            raise TransactionNotOpen(
                "this asyncpg connection has no transaction open, so each statement would commit by itself; "
                "call within() inside `async with connection.transaction():`"
            )

    def transaction(self) -> Any:
        """Begin a transaction that commits at its end and rolls back on an error."""
        if self._connection.is_in_transaction():
            raise TransactionOpen(
                "this asyncpg connection has a transaction open; end it before ctx.transaction(), which "
                "begins one and commits it"
            )
        return self._connection.transaction()

    async def fetch(self, statement: Statement) -> Sequence[Row]:
        """Run one named statement and return its rows."""
        query, values = postgres_call(self._queries[statement.name], statement)
        # The caller's connection may have another record class.
        rows: Sequence[Row] = await self._connection.fetch(
            query.steps[0].text, *values, record_class=asyncpg.Record
        )
        return rows
