"""A pool of connections to PostgreSQL.

The caller that needs a connection opens it if none is idle. So that caller gets a connection error at once,
and the next caller finds a server that is back.
"""

from __future__ import annotations

import os
import socket
import time
import weakref
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

import psycopg
from psycopg.pq import TransactionStatus

from onward.connections.drivers.psycopg import AsyncPsycopgConnection
from onward.errors import StoreBusy
from onward.stores.postgres.semaphore import AsyncPlaces

# A firewall may silently have dropped a connection that was idle for longer (in seconds).
LONGEST_WAIT = 600.0


class AsyncPooled(psycopg.AsyncConnection[Any]):
    """A connection of the pool, adapted once for all operations that run on it.

    `prepared` maps the text of each statement that a pipeline has prepared on it to the statement's name.
    `uses` are the uses for which it was lent.
    """

    adapted: AsyncPsycopgConnection | None = None
    prepared: dict[bytes, bytes] | None = None
    org_id: str | None = None
    uses: frozenset[str] = frozenset()
    returned_at = 0.0


class AsyncPool:
    """At most `size` connections; a caller that finds all in use waits at most `timeout` seconds."""

    def __init__(self, connect: Callable[[], Awaitable[AsyncPooled]], *, size: int, timeout: float) -> None:
        self._connect = connect
        self._places = AsyncPlaces(size)
        self._size = size
        self._timeout = timeout
        self._waiting: list[AsyncPooled] = []
        self._lent: dict[AsyncPooled, float] = {}
        self._closed = False
        # For a pool that was never closed: end its idle connections without waiting, so that the server frees
        # them and psycopg does not warn of unclosed connections.
        weakref.finalize(self, _end_all, self._waiting, os.getpid())

    async def take(self, use: str = "") -> AsyncPooled:
        """Lend a connection, preferably one that had this use before; the caller returns it with `give`."""
        if not await self._places.take(self._timeout):
            raise StoreBusy(f"all {self._size} connections were in use for {self._timeout:g} s")
        try:
            connection = await self._found(use)
        except BaseException:
            self._places.free()
            raise
        if use not in connection.uses:
            connection.uses |= {use}
        return connection

    async def _found(self, use: str) -> AsyncPooled:
        while (connection := self._picked(use)) is not None:
            now = time.monotonic()
            if not connection.closed and now - connection.returned_at < LONGEST_WAIT:
                self._lent[connection] = now
                return connection
            await _close(connection)
        return await self._connect()

    def _picked(self, use: str) -> AsyncPooled | None:
        """Take an idle connection: one that had this use before, else the one that was returned last.

        A statement is planned anew on each connection, which takes longer than running it. Taking the last
        one lets surplus connections grow old. Other threads may take an idle connection at any moment, so
        `remove` and `pop` may fail.
        """
        for connection in reversed(self._waiting):
            if use in connection.uses:
                try:
                    self._waiting.remove(connection)
                except ValueError:
                    continue
                return connection
        try:
            return self._waiting.pop()
        except IndexError:
            return None

    async def give(self, connection: AsyncPooled) -> None:
        """Take a connection back; close it unless it is outside a transaction and the pool is open."""
        self.forget(connection)
        try:
            if self._closed or connection.pgconn.transaction_status != TransactionStatus.IDLE:
                await _close(connection)
            else:
                connection.returned_at = time.monotonic()
                self._waiting.append(connection)
        finally:
            self._places.free()

    def note(self, connection: AsyncPooled) -> None:
        """Start the clock that `hang_up` reads for a connection."""
        self._lent[connection] = time.monotonic()

    def forget(self, connection: AsyncPooled) -> None:
        """Exempt a connection from `hang_up`."""
        self._lent.pop(connection, None)

    def hang_up(self, seconds: float) -> None:
        """Break connections lent for longer than `seconds`; their users get an error. Safe from any thread.

        The network may lose answers and keep the connection open. A cancel request would need an answer too.
        """
        now = time.monotonic()
        for connection, since in list(self._lent.items()):
            if now - since > seconds:
                with (
                    suppress(psycopg.Error, OSError),
                    socket.socket(fileno=os.dup(connection.fileno())) as end,
                ):
                    end.shutdown(socket.SHUT_RDWR)

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[AsyncPooled]:
        """Lend a connection for the duration of a `with` block."""
        connection = await self.take()
        try:
            yield connection
        finally:
            await self.give(connection)

    async def drop(self) -> None:
        """Close the idle connections: the failure that broke one connection has broken the others too."""
        while self._waiting:
            await _close(self._waiting.pop())

    async def close(self) -> None:
        """Close the idle connections now, and each lent connection when it is returned."""
        self._closed = True
        await self.drop()


def _end_all(waiting: list[AsyncPooled], process: int) -> None:
    """End connections without waiting, except in a forked child: the parent still uses them."""
    for connection in waiting if os.getpid() == process else ():
        connection.pgconn.finish()


async def _close(connection: AsyncPooled) -> None:
    with suppress(psycopg.Error, OSError):
        await connection.close()
