"""Share the write lock of a SQLite file fairly: waiting writers announce themselves, and busy writers yield.

SQLite gives its lock to the connection that asks at the right moment. A worker that drains a queue asks again
as soon as it has released the lock. Other writers got the lock in between only by luck: an enqueue took
64 ms, and sometimes 370 ms.
"""

from __future__ import annotations

import fcntl
import os
import random
import sqlite3
import time
from contextlib import suppress
from pathlib import Path

from onward.stores.sqlite.file import is_busy

# Must exceed the poll interval of a writer that has announced itself.
_GIVE_WAY_SECONDS = 0.0015
_SHOWN_SECONDS = (0.0002, 0.001)
_SECONDS = (0.0005, 0.008)
# A writer that has waited for longer waits for a holder that does not yield, such as a backup or a forgotten
# transaction, so it polls less often.
_LOOKS_OFTEN_SECONDS = 1.0


class WriteQueue:
    """The write lock of a file, as one connection takes it.

    A waiting writer announces itself by a shared lock on a second file; the lock ends with its process. A
    writer that gets the write lock at once announces nothing. A writer with much to write, for which no
    caller waits, announces itself only after `patience` seconds: each change of writers costs both sides
    the pages that they have cached.
    """

    def __init__(self, path: Path, patience: float) -> None:
        self._path = path
        self._patience = patience
        self._sign: int | None = None

    def take(self, connection: sqlite3.Connection, seconds: float) -> None:
        """Begin a write transaction; raise SQLite's own error if the lock is not free within `seconds`."""
        if self.others_wait():
            time.sleep(_GIVE_WAY_SECONDS)
        since, shown = time.monotonic(), False
        try:
            while not _began(connection, since + seconds):
                waited = time.monotonic() - since
                if not shown and waited >= self._patience:
                    shown = self._show()
                often = shown and waited < self._patience + _LOOKS_OFTEN_SECONDS
                # Jitter keeps one process from starving in step with another.
                time.sleep(random.uniform(*(_SHOWN_SECONDS if often else _SECONDS)))  # noqa: S311
        finally:
            if shown:
                self._lock(fcntl.LOCK_UN)

    def others_wait(self) -> bool:
        """Whether another writer has announced that it waits; False if the second file can't be opened."""
        with suppress(OSError):
            try:
                self._lock(fcntl.LOCK_EX)
            except BlockingIOError:
                return True
            self._lock(fcntl.LOCK_UN)
        return False

    def close(self) -> None:
        """Close the file of announcements."""
        if self._sign is not None:
            os.close(self._sign)
            self._sign = None

    def _show(self) -> bool:
        with suppress(OSError):
            self._lock(fcntl.LOCK_SH)
            return True
        return False

    def _lock(self, kind: int) -> None:
        if self._sign is None:
            self._sign = os.open(f"{self._path}-turns", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        fcntl.flock(self._sign, kind | fcntl.LOCK_NB)


def _began(connection: sqlite3.Connection, deadline: float) -> bool:
    try:
        connection.execute("BEGIN IMMEDIATE")
    except sqlite3.OperationalError as error:
        if not is_busy(error) or time.monotonic() > deadline:
            raise
        return False
    return True
