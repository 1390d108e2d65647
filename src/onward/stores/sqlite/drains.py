"""Which worker drains a queue as fast as a SQLite file bears, as workers of one machine tell each other."""

from __future__ import annotations

import hashlib
import os
import struct
from contextlib import suppress
from pathlib import Path

from onward.stores.sqlite.write_queue import open_turns

# Who drains, which queue, and until when that holds if it is not said again.
_RECORD = struct.Struct("=16s16sd")
_LONGEST_SECONDS = 1.0


class SqliteDrains:
    """One record in a file beside the database, of whoever said so last; every time is a monotonic clock's.

    Nothing but speed depends on it, so it is read and written without a lock, and what is old, torn or by
    the clock of another machine counts for nothing.
    """

    def __init__(self, path: Path, prefix: str) -> None:
        self._path, self._prefix = path, prefix
        self._me = os.urandom(16)
        self._file: int | None = None

    def say(self, queue: str, until: float) -> None:
        """Say that this worker drains a queue, and goes on with it for a moment."""
        with suppress(OSError):
            os.pwrite(self._opened(), _RECORD.pack(self._me, self._name(queue), until), 0)

    def another(self, queue: str, now: float) -> bool:
        """Tell whether another worker drains a queue just now."""
        with suppress(OSError):
            record = os.pread(self._opened(), _RECORD.size, 0)
            if len(record) == _RECORD.size:
                who, what, until = _RECORD.unpack(record)
                return now < until < now + _LONGEST_SECONDS and bool(
                    who != self._me and what == self._name(queue)
                )
        return False

    def close(self) -> None:
        """Let go of the file."""
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _opened(self) -> int:
        if self._file is None:
            self._file = open_turns(self._path)
        return self._file

    def _name(self, queue: str) -> bytes:
        return hashlib.blake2b(f"{self._prefix} {queue}".encode(), digest_size=16).digest()
