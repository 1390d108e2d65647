"""A `sqlite3` connection for an event loop: what is run on it runs in threads."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Callable, Hashable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, TypeVar

from onward.connections.sqlite import SqliteConnection
from onward.connections.unbroken import unbroken_async
from onward.operations.statement import Row, Statement
from onward.sql.catalogue import Database

__all__ = ["AsyncSqlite", "AsyncSqliteConnection"]

T = TypeVar("T")


class AsyncSqlite:
    """What an async handler gets that brings no connection of its own to a SQLite file."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.sync = connection

    async def execute(self, sql: str, parameters: Any = ()) -> list[Any]:
        """Run one statement and give its rows."""
        return await self.call(lambda: self.sync.execute(sql, parameters).fetchall())

    async def executemany(self, sql: str, parameters: Any) -> None:
        """Run one statement once for each row of parameters."""
        rows = list(parameters)
        await self.call(lambda: self.sync.executemany(sql, rows))

    async def close(self) -> None:
        """Close it."""
        await self.call(self.sync.close)

    async def call(self, function: Callable[[], T]) -> T:
        """Call something in a thread; never left before its end: it could come after a rollback."""
        return await unbroken_async(asyncio.to_thread(function))


class AsyncSqliteConnection:
    """An `AsyncSqlite`; what is run on it belongs to the transaction that is open there."""

    database: Database = "sqlite"

    def __init__(self, connection: AsyncSqlite, prefix: str) -> None:
        self.prefix = prefix
        self._call = connection.call
        self._inner = SqliteConnection(connection.sync, prefix)

    @property
    def identity(self) -> Hashable | None:
        """Tell the file."""
        return self._inner.identity

    def require_transaction(self) -> None:
        """Refuse it when each statement would commit by itself."""
        self._inner.require_transaction()

    async def fetch(self, statement: Statement) -> Sequence[Row]:
        """Run one named statement and give its rows."""
        return await self._call(partial(self._inner.fetch, statement))

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[None]:
        """Begin a transaction; commits at the end, rolls back on an error."""
        manager = self._inner.transaction()
        await self._call(manager.__enter__)
        try:
            yield
        except BaseException as error:
            await self._call(partial(manager.__exit__, type(error), error, error.__traceback__))
            raise
        await self._call(partial(manager.__exit__, None, None, None))
