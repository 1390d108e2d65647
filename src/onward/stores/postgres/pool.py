"""Connections to PostgreSQL that are used again and again.

A connection is made when one is needed and none waits, by whoever needs it: an error is theirs at once, and a
server that is back is found by the next try.
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

# What waited for longer may have been cut by a firewall that told nobody.
LONGEST_WAIT = 600.0


class AsyncPooled(psycopg.AsyncConnection[Any]):
    """A connection of the pool, adapted once for all operations that it will run.

    `prepared` has the names of the statements that a pipeline has prepared on it, `uses` what it was lent
    for.
    """

    adapted: AsyncPsycopgConnection | None = None
    prepared: dict[bytes, bytes] | None = None
    org_id: str | None = None
    uses: frozenset[str] = frozenset()
    given_at = 0.0


class AsyncPool:
    """At most `size` connections; whoever finds all in use waits for `timeout` seconds."""

    def __init__(self, connect: Callable[[], Awaitable[AsyncPooled]], *, size: int, timeout: float) -> None:
        self._connect = connect
        self._places = AsyncPlaces(size)
        self._size = size
        self._timeout = timeout
        self._waiting: list[AsyncPooled] = []
        self._lent: dict[AsyncPooled, float] = {}
        self._closed = False
        # Who forgets to close it can't be made to wait, but the server should know, and nobody be warned.
        weakref.finalize(self, _let_go, self._waiting, os.getpid())

    async def take(self, use: str = "") -> AsyncPooled:
        """Lend a connection, if possible one that had this use before; give it back with `give`."""
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
            if not connection.closed and now - connection.given_at < LONGEST_WAIT:
                self._lent[connection] = now
                return connection
            await _close(connection)
        return await self._connect()

    def _picked(self, use: str) -> AsyncPooled | None:
        """Take one that waits: the last that came back, so that those which nobody needs grow old.

        But what a statement reads is looked up and planned anew on each connection, which takes longer than
        to run it. Other threads may take at any moment what was just seen here.
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
        """Take a connection back; one that is not at rest is closed."""
        self.forget(connection)
        try:
            if self._closed or connection.pgconn.transaction_status != TransactionStatus.IDLE:
                await _close(connection)
            else:
                connection.given_at = time.monotonic()
                self._waiting.append(connection)
        finally:
            self._places.free()

    def note(self, connection: AsyncPooled) -> None:
        """Count the time of a connection from now on."""
        self._lent[connection] = time.monotonic()

    def forget(self, connection: AsyncPooled) -> None:
        """Let a connection take as long as it may."""
        self._lent.pop(connection, None)

    def hang_up(self, seconds: float) -> None:
        """Break what was lent for longer: who waits there for an answer gets an error; from any thread.

        The network may swallow answers and keep the connection; to cancel would be to wait for one more.
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
        """Lend a connection for a while."""
        connection = await self.take()
        try:
            yield connection
        finally:
            await self.give(connection)

    async def drop(self) -> None:
        """Close what waits: whatever cut one connection has cut the others too."""
        while self._waiting:
            await _close(self._waiting.pop())

    async def close(self) -> None:
        """Close every connection, and those that are lent when they come back."""
        self._closed = True
        await self.drop()


def _let_go(waiting: list[AsyncPooled], process: int) -> None:
    """End connections without waiting; not those of a parent, who still uses them."""
    for connection in waiting if os.getpid() == process else ():
        connection.pgconn.finish()


async def _close(connection: AsyncPooled) -> None:
    with suppress(psycopg.Error, OSError):
        await connection.close()
