"""Whose turn it is to write to a SQLite file: who waits shows it, and who writes on and on lets them in.

SQLite's lock is had by who asks at the right moment. A worker that drains a queue asks again as soon as it
has let go, and others met the moment between by luck alone: an enqueue took 64 ms, and now and then 370.
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

# Longer than who shows that it waits sleeps between two looks.
_GIVE_WAY_SECONDS = 0.0015
_SHOWN_SECONDS = (0.0002, 0.001)
_SECONDS = (0.0005, 0.008)
# After that it waits for somebody who gives no way: a backup, or a transaction that was forgotten.
_LOOKS_OFTEN_SECONDS = 1.0


class Turns:
    """The write lock of a file, as one connection takes it.

    Waiting is shown by a shared lock on a file beside it, which is gone with its process. Who may write at
    once shows nothing. `patience` is how long who has much to write, and nobody who waits for it, waits
    unseen: each change of turns costs both sides the pages that they have read.
    """

    def __init__(self, path: Path, patience: float) -> None:
        self._path = path
        self._patience = patience
        self._sign: int | None = None

    def take(self, connection: sqlite3.Connection, seconds: float) -> None:
        """Begin a transaction that writes; raises SQLite's own error if that takes longer."""
        if self.others_wait():
            time.sleep(_GIVE_WAY_SECONDS)
        since, shown = time.monotonic(), False
        try:
            while not _began(connection, since + seconds):
                waited = time.monotonic() - since
                if not shown and waited >= self._patience:
                    shown = self._show()
                often = shown and waited < self._patience + _LOOKS_OFTEN_SECONDS
                # Jittered, so that no process starves by the rhythm of another.
                time.sleep(random.uniform(*(_SHOWN_SECONDS if often else _SECONDS)))  # noqa: S311
        finally:
            if shown:
                self._lock(fcntl.LOCK_UN)

    def others_wait(self) -> bool:
        """Tell whether somebody shows that it waits; nobody does where there can be no such file."""
        with suppress(OSError):
            try:
                self._lock(fcntl.LOCK_EX)
            except BlockingIOError:
                return True
            self._lock(fcntl.LOCK_UN)
        return False

    def close(self) -> None:
        """Let go of the file."""
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
