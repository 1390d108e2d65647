"""A `sqlite3` connection for an event loop; each connection runs its statements in its own thread."""

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
    """The connection that an async handler gets for a SQLite file if it passes none of its own."""

    sync: sqlite3.Connection

    def __init__(self) -> None:
        # Not the loop's thread pool: threads that wait for the write lock would leave none for its holder.
        # And only one thread: closing a connection that another thread uses can crash the process.
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="onward transaction")

    @classmethod
    async def opened(cls, connect: Callable[[], sqlite3.Connection]) -> AsyncSqlite:
        """Open a connection with `connect`, in its own thread."""
        made = cls()
        try:
            await made.call(lambda: made._open(connect))
        except BaseException:
            made._end()
            raise
        return made

    async def execute(self, sql: str, parameters: Any = ()) -> list[Any]:
        """Run one statement and return its rows."""
        return await self.call(lambda: self.sync.execute(sql, parameters).fetchall())

    async def executemany(self, sql: str, parameters: Any) -> None:
        """Run one statement once for each row of parameters."""
        rows = list(parameters)
        await self.call(lambda: self.sync.executemany(sql, rows))

    async def close(self) -> None:
        """Close the connection after all calls submitted before."""
        await unbroken_async(_come_to(self._end()))

    async def call(self, function: Callable[[], T]) -> T:
        """Call a function in the thread and wait for its end, even if the caller is cancelled.

        Else the function could run after a rollback.
        """
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
    # The thread completes a submitted call even if the caller no longer waits for it.
    return await asyncio.shield(asyncio.wrap_future(called))


class AsyncSqliteConnection:
    """An `AsyncSqlite`; statements run in the transaction that is open on it."""

    database: Database = "sqlite"

    def __init__(self, connection: AsyncSqlite, prefix: str) -> None:
        self.prefix = prefix
        self._call = connection.call
        self._inner = SqliteConnection(connection.sync, prefix)

    @property
    def identity(self) -> Hashable | None:
        """The path of the file."""
        return self._inner.identity

    def require_transaction(self) -> None:
        """Raise TransactionNotOpen if each statement would commit by itself."""
        self._inner.require_transaction()

    async def fetch(self, statement: Statement) -> Sequence[Row]:
        """Run one named statement and return its rows."""
        return await self._call(partial(self._inner.fetch, statement))

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[None]:
        """Begin a transaction that commits at its end and rolls back on an error."""
        manager = self._inner.transaction()
        try:
            # If the caller is cancelled here, the transaction has begun or will begin, so it must be exited.
            await self._call(manager.__enter__)
            yield
        except BaseException as error:
            await self._call(partial(manager.__exit__, type(error), error, error.__traceback__))
            raise
        await self._call(partial(manager.__exit__, None, None, None))
