# Generated from src/onward/stores/postgres/pool.py by tools/make_sync.py. Edit that file instead.
"""Connections to PostgreSQL that are used again and again.

A connection is made when one is needed and none waits, by whoever needs it: an error is theirs at once, and a
server that is back is found by the next try.
"""

from __future__ import annotations

import os
import socket
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import psycopg
from psycopg.pq import TransactionStatus

from onward.connections.drivers.psycopg import PsycopgConnection
from onward.errors import StoreBusy
from onward.stores.postgres.semaphore import Places

# What waited for longer may have been cut by a firewall that told nobody.
LONGEST_WAIT = 600.0


class Pooled(psycopg.Connection[Any]):
    """A connection of the pool, adapted once for all operations that it will run.

    `prepared` has the names of the statements that a pipeline has prepared on it, `uses` what it was lent
    for.
    """

    adapted: PsycopgConnection | None = None
    prepared: dict[bytes, bytes] | None = None
    org_id: str | None = None
    uses: frozenset[str] = frozenset()
    given_at = 0.0


class Pool:
    """At most `size` connections; whoever finds all in use waits for `timeout` seconds."""

    def __init__(self, connect: Callable[[], Pooled], *, size: int, timeout: float) -> None:
        self._connect = connect
        self._places = Places(size)
        self._size = size
        self._timeout = timeout
        self._waiting: list[Pooled] = []
        self._lent: dict[Pooled, float] = {}
        self._closed = False
        # Who forgets to close it can't be made to wait, but the server should know, and nobody be warned.
        weakref.finalize(self, _let_go, self._waiting, os.getpid())

    def take(self, use: str = "") -> Pooled:
        """Lend a connection, if possible one that had this use before; give it back with `give`."""
        if not self._places.take(self._timeout):
            raise StoreBusy(f"all {self._size} connections were in use for {self._timeout:g} s")
        try:
            connection = self._found(use)
        except BaseException:
            self._places.free()
            raise
        if use not in connection.uses:
            connection.uses |= {use}
        return connection

    def _found(self, use: str) -> Pooled:
        while (connection := self._picked(use)) is not None:
            now = time.monotonic()
            if not connection.closed and now - connection.given_at < LONGEST_WAIT:
                self._lent[connection] = now
                return connection
            _close(connection)
        return self._connect()

    def _picked(self, use: str) -> Pooled | None:
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

    def give(self, connection: Pooled) -> None:
        """Take a connection back; one that is not at rest is closed."""
        self.forget(connection)
        try:
            if self._closed or connection.pgconn.transaction_status != TransactionStatus.IDLE:
                _close(connection)
            else:
                connection.given_at = time.monotonic()
                self._waiting.append(connection)
        finally:
            self._places.free()

    def note(self, connection: Pooled) -> None:
        """Count the time of a connection from now on."""
        self._lent[connection] = time.monotonic()

    def forget(self, connection: Pooled) -> None:
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

    @contextmanager
    def connection(self) -> Iterator[Pooled]:
        """Lend a connection for a while."""
        connection = self.take()
        try:
            yield connection
        finally:
            self.give(connection)

    def drop(self) -> None:
        """Close what waits: whatever cut one connection has cut the others too."""
        while self._waiting:
            _close(self._waiting.pop())

    def close(self) -> None:
        """Close every connection, and those that are lent when they come back."""
        self._closed = True
        self.drop()


def _let_go(waiting: list[Pooled], process: int) -> None:
    """End connections without waiting; not those of a parent, who still uses them."""
    for connection in waiting if os.getpid() == process else ():
        connection.pgconn.finish()


def _close(connection: Pooled) -> None:
    with suppress(psycopg.Error, OSError):
        connection.close()
