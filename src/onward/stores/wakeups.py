"""Wake-ups tell a waiting worker that there may be work.

A wake-up is a hint, not a promise: a waiting worker also polls from time to time.
"""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import suppress
from typing import Protocol

from onward.stores.sqlite.file import SqliteFile, translated


class Wakeups(Protocol):
    """A source of wake-ups."""

    @property
    def for_each_job(self) -> bool:
        """Whether each job that arrives while a worker is marked as idle causes its own wake-up."""
        ...

    async def wait(self, timeout: float) -> frozenset[str] | None:  # noqa: ASYNC109
        """Wait for a wake-up; return the queues that it names, if any, or None after `timeout` seconds."""
        ...

    def wake(self) -> None:
        """Wake the worker that waits here."""
        ...

    async def close(self) -> None:
        """Stop listening."""
        ...


class SqliteWakeups:
    """Polls the file for changes by other connections; one poll takes 4 µs, so it can be frequent."""

    # (idle seconds, seconds between polls): an idle file is polled less often.
    _PAUSES = ((1.0, 0.005), (10.0, 0.02), (float("inf"), 0.05))

    def __init__(self, file: SqliteFile) -> None:
        self._file = file
        self._connection: sqlite3.Connection | None = None
        self._seen: int | None = None
        self._changed_at = 0.0
        self._woken = asyncio.Event()
        # Any write changes the file, including the writes of this worker, so a change need not be a new job.
        self.for_each_job = False

    async def wait(self, timeout: float) -> frozenset[str] | None:  # noqa: ASYNC109
        """Wait until the file has changed; the first call returns at once, so that earlier jobs are found."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout
        while not self._has_changed(loop.time()) and not self._woken.is_set():
            now = loop.time()
            if now >= deadline:
                return None
            pause = next(pause for idle, pause in self._PAUSES if now - self._changed_at < idle)
            with suppress(TimeoutError):
                async with asyncio.timeout(min(pause, deadline - now)):
                    await self._woken.wait()
        self._woken.clear()
        return frozenset()

    def wake(self) -> None:
        """Wake the worker that waits here."""
        self._woken.set()

    async def close(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _has_changed(self, now: float) -> bool:
        if self._connection is None:
            self._connection = self._file.connect(read_only=True)
        try:
            [version] = self._connection.execute("PRAGMA data_version").fetchone()
        except sqlite3.Error as error:
            raise translated(error, self._file.path) from error
        if version == self._seen:
            return False
        self._seen, self._changed_at = version, now
        return True
