"""A `sqlite3` connection for an event loop: what is run on it runs in a thread of its own."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Callable, Hashable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, TypeVar

from onward.connections.drivers.sqlite import SqliteConnection
from onward.connections.shielded import unbroken_async
from onward.operations.statement import Row, Statement
from onward.sql.catalogue import Database

T = TypeVar("T")


class AsyncSqlite:
    """What an async handler gets that brings no connection of its own to a SQLite file."""

    sync: sqlite3.Connection

    def __init__(self) -> None:
        # Not one of the loop's threads: those that wait for the write lock would keep its holder from one.
        # And only one: to close a connection that another thread is at can crash the process.
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="onward transaction")

    @classmethod
    async def opened(cls, connect: Callable[[], sqlite3.Connection]) -> AsyncSqlite:
        """Open one."""
        made = cls()
        try:
            await made.call(lambda: made._open(connect))
        except BaseException:
            made._end()
            raise
        return made

    async def execute(self, sql: str, parameters: Any = ()) -> list[Any]:
        """Run one statement and give its rows."""
        return await self.call(lambda: self.sync.execute(sql, parameters).fetchall())

    async def executemany(self, sql: str, parameters: Any) -> None:
        """Run one statement once for each row of parameters."""
        rows = list(parameters)
        await self.call(lambda: self.sync.executemany(sql, rows))

    async def close(self) -> None:
        """Close it, after all that was asked of it before."""
        await unbroken_async(_come_to(self._end()))

    async def call(self, function: Callable[[], T]) -> T:
        """Call something in its thread; not left before its end: it could come after a rollback."""
        return await unbroken_async(_come_to(self._thread.submit(function)))

    def _open(self, connect: Callable[[], sqlite3.Connection]) -> None:
        self.sync = connect()

    def _end(self) -> Future[None]:
        closing = self._thread.submit(self._close)
        self._thread.shutdown(wait=False)
        return closing

    def _close(self) -> None:
        if hasattr(self, "sync"):
            self.sync.close()


async def _come_to(called: Future[T]) -> T:
    # What was handed over is done, also when nobody waits for it any more.
    return await asyncio.shield(asyncio.wrap_future(called))


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
        try:
            # Also who is cancelled here has begun, or will have.
            await self._call(manager.__enter__)
            yield
        except BaseException as error:
            await self._call(partial(manager.__exit__, type(error), error, error.__traceback__))
            raise
        await self._call(partial(manager.__exit__, None, None, None))
