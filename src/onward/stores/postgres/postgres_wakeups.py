"""Wake-ups by LISTEN on a dedicated connection, which is replaced whenever it breaks or falls silent."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any
from uuid import uuid4

import psycopg

from onward.logs import get_logger

log = get_logger("onward.wakeups")

_PROBE = "probe:"
_LONGEST_PAUSE = 30.0
_LONGEST_CONNECT = 10
_DEAF_SECONDS = 0.3


class PostgresWakeups:
    """Listens for the names of queues; behind a pooler it can't, and the worker only polls."""

    def __init__(
        self, url: str, channel: str, *, probe_seconds: float = 15.0, answer_seconds: float = 5.0
    ) -> None:
        self._url = url
        self._channel = channel
        self._probe_seconds = probe_seconds
        self._answer_seconds = answer_seconds
        self._woken = asyncio.Event()
        self._received: set[str] = set()
        self._unanswered = asyncio.Event()
        self._received_at = 0.0
        self._task: asyncio.Task[None] | None = None
        self._sessions: set[asyncio.Task[None]] = set()
        self.listening = asyncio.Event()
        self.poll_only = False

    @property
    def for_each_job(self) -> bool:
        """Whether each job that arrives while a worker is marked as idle causes its own wake-up."""
        return self.listening.is_set()

    async def wait(self, timeout: float) -> frozenset[str] | None:  # noqa: ASYNC109
        """Wait for a notification; return once when listening begins, to find earlier jobs."""
        if self._task is None:
            self._task = asyncio.create_task(self._keep_listening(), name="onward wake-ups")
        if not self.listening.is_set() and not self.poll_only:
            # The database may be back before we listen again; no notification arrives for jobs in between.
            timeout = min(timeout, _DEAF_SECONDS)
        try:
            async with asyncio.timeout(timeout):
                await self._woken.wait()
        except TimeoutError:
            return None
        self._woken.clear()
        received, self._received = frozenset(self._received), set()
        return received

    def wake(self) -> None:
        """Wake the worker that waits here."""
        self._woken.set()

    async def close(self) -> None:
        """Stop listening."""
        for task in (self._task, *self._sessions):
            if task is not None:
                task.cancel()
                with suppress(asyncio.CancelledError, psycopg.Error, OSError):
                    await task

    async def _keep_listening(self) -> None:
        failures, logged = 0, False
        while not self.poll_only:
            self._unanswered.clear()
            session = asyncio.create_task(self._session())
            deaf = asyncio.create_task(self._unanswered.wait())
            try:
                await asyncio.wait({session, deaf}, return_when=asyncio.FIRST_COMPLETED)
            finally:
                # Not awaited: a dead connection is slow to close, and the new one must not wait for it.
                for task in (session, deaf):
                    task.cancel()
                self._sessions.add(session)
                session.add_done_callback(self._ended)
            if self.listening.is_set():
                failures, logged = 0, False
            else:
                failures += 1
            self.listening.clear()
            if not self.poll_only:
                if not logged:
                    log.warning("wake-ups lost, polling until they are back")
                logged = True
                pause = min(_LONGEST_PAUSE, 0.1 * 2**failures)
                await asyncio.sleep(pause * random.uniform(0.5, 1.0))  # noqa: S311

    def _ended(self, session: asyncio.Task[None]) -> None:
        self._sessions.discard(session)
        if not session.cancelled() and (error := session.exception()):
            log.debug("a listening connection ended: %s", error)

    async def _session(self) -> None:
        bound: dict[str, Any] = {"connect_timeout": _LONGEST_CONNECT}
        if "connect_timeout" in self._url:
            bound = {}
        connection = await psycopg.AsyncConnection.connect(
            self._url, autocommit=True, prepare_threshold=None, application_name="onward wake-ups", **bound
        )
        try:
            await self._listen(connection)
            await self._receive(connection)
        finally:
            # Not a context manager, which would try to roll back on a connection that is still listening.
            await connection.close()

    async def _listen(self, connection: psycopg.AsyncConnection[Any]) -> None:
        cursor = await connection.execute("SELECT pg_backend_pid()")
        if await cursor.fetchone() != (connection.info.backend_pid,):
            # Behind a pooler, LISTEN would stay on a server connection that other clients share.
            self.poll_only = True
            log.warning("a connection pooler is in between: no wake-ups, polling instead")
            return
        await connection.execute(f'LISTEN "{self._channel}"'.encode())
        self.listening.set()
        # Jobs may have been committed before LISTEN took effect.
        self._woken.set()

    async def _receive(self, connection: psycopg.AsyncConnection[Any]) -> None:
        """Note each notification as it arrives, and send a probe after `probe_seconds` without one."""
        broken = asyncio.Event()
        self._received_at = time.monotonic()
        while not self.poll_only and not broken.is_set():
            left = self._received_at + self._probe_seconds - time.monotonic()
            if left <= 0:
                await self._probe(connection)
                continue
            with self._reading(connection, broken), suppress(TimeoutError):
                async with asyncio.timeout(left):
                    await broken.wait()

    @contextmanager
    def _reading(self, connection: psycopg.AsyncConnection[Any], broken: asyncio.Event) -> Iterator[None]:
        """Read notifications in a callback of the loop: `connection.notifies()` would switch tasks twice."""
        loop, server, socket = asyncio.get_running_loop(), connection.pgconn, connection.fileno()

        def read() -> None:
            try:
                server.consume_input()
                while notice := server.notifies():
                    self._note(notice.extra.decode())
            except psycopg.Error as error:
                log.debug("a listening connection broke: %s", error)
                loop.remove_reader(socket)
                broken.set()

        loop.add_reader(socket, read)
        try:
            # Notifications that came with the last answer are already in libpq's buffer.
            read()
            yield
        finally:
            loop.remove_reader(socket)

    async def _probe(self, connection: psycopg.AsyncConnection[Any]) -> None:
        """Send a notification to this connection: silence does not show whether notifications arrive."""
        token, received = f"{_PROBE}{uuid4()}", set[str]()
        timer = asyncio.get_running_loop().call_later(self._answer_seconds, self._unanswered.set)
        try:
            await connection.execute("SELECT pg_notify(%s, %s)", (self._channel, token))
            while token not in received:
                # Never leave the loop early: notifications that arrived together would be lost.
                async for notice in connection.notifies(stop_after=1):
                    received.add(notice.payload)
                    self._note(notice.payload)
        finally:
            timer.cancel()

    def _note(self, payload: str) -> None:
        self._received_at = time.monotonic()
        if not payload.startswith(_PROBE):
            self._received.add(payload)
            self._woken.set()
