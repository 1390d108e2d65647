"""A SQLite database file: where it may be, how it is opened, and when its write-ahead log is checkpointed.

To fold the log is to checkpoint it. One process at a time does so; SQLite's automatic checkpoints are off.
"""

from __future__ import annotations

import fcntl
import os
import random
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from onward.errors import StorageFull, StoreBusy, StoreError, StoreUnreachable

_OLDEST = (3, 35, 0)
_NETWORK = {
    "nfs",
    "nfs4",
    "cifs",
    "smb3",
    "smbfs",
    "afs",
    "fuse.sshfs",
    "ceph",
    "glusterfs",
    "fuse.glusterfs",
}
_MOUNTS = Path("/proc/self/mounts")
_OPEN_SECONDS = 30.0
_FOLD_BYTES = 4 * 2**20
_PAGE_BYTES = 65_536
_KEPT_LOG_BYTES = 64 * 2**20


# No other thread may open the file between its creation and the close in create(): that close would drop the
# locks that SQLite holds on the file in this process.
_creating = threading.Lock()

Identity = tuple[int, int] | None


class SqliteFile:
    """One database file; it opens every connection of Onward to that file."""

    def __init__(self, path: Path) -> None:
        # Absolute, because the process may change its current folder.
        self.path = path.absolute()
        self._log = Path(f"{self.path}-wal")
        self._made: Identity = None
        self._abandoned = False
        self._fold_at = _FOLD_BYTES

    def create(self) -> None:
        """Create the file if it is missing, readable by its owner only; raise where it can't work."""
        if sqlite3.sqlite_version_info < _OLDEST:
            raise StoreUnreachable(f"SQLite {sqlite3.sqlite_version} is too old; Onward needs 3.35 or newer")
        if self._made is not None and not self.still_there():
            raise self.removed()
        folder = self.path.parent
        if not folder.is_dir():
            raise StoreUnreachable(f"{folder} is not a folder; make it before you open {self.path}")
        kind = _file_system(folder)
        if kind in _NETWORK:
            raise StoreUnreachable(
                f"{folder} is on {kind}, whose locks SQLite can't trust; use a local disk or PostgreSQL"
            )
        try:
            with _creating:
                if not self.path.exists():
                    # Create it with its mode in one call: another user could open it before a chmod. Never
                    # open it when it exists: closing it would drop every lock that SQLite holds on it in
                    # this process, and another process could then remove its log.
                    os.close(os.open(self.path, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o600))
        except FileExistsError:
            pass  # Another process has created it.
        except OSError as error:
            raise StoreUnreachable(f"can't open {self.path} for writing: {error.strerror}") from error
        if not self.path.is_file() or not os.access(self.path, os.R_OK | os.W_OK):
            raise StoreUnreachable(
                f"can't open {self.path} for writing: it is no file, or not yours to write"
            )
        self._made = _identity(self.path)

    def connect(self, *, read_only: bool = False) -> sqlite3.Connection:
        """Open a connection that syncs every commit and has automatic checkpoints off."""
        uri = f"{self.path.resolve().as_uri()}?mode=rw"
        try:
            connection = sqlite3.connect(
                uri, uri=True, isolation_level=None, check_same_thread=False, timeout=5
            )
        except sqlite3.Error as error:
            raise self._explained(error) from error
        try:
            if not read_only:
                self._use_a_log(connection)
            connection.execute("PRAGMA synchronous = FULL")
            connection.execute("PRAGMA wal_autocheckpoint = 0")
            connection.execute(f"PRAGMA journal_size_limit = {_KEPT_LOG_BYTES}")
            connection.execute("PRAGMA cache_size = -16000")
            if read_only:
                connection.execute("PRAGMA query_only = ON")
            # The caller waits for the write lock with jitter: SQLite's own fixed steps starve some processes.
            connection.execute("PRAGMA busy_timeout = 0" if not read_only else "PRAGMA busy_timeout = 5000")
        except sqlite3.Error as error:
            connection.close()
            raise self._explained(error) from error
        except StoreUnreachable:
            connection.close()
            raise
        return connection

    def _explained(self, error: sqlite3.Error) -> StoreError:
        # For a file that was removed, SQLite reports only that it can't be opened.
        gone = self._made is not None and not self.still_there()
        return self.removed() if gone else translated(error, self.path)

    def still_there(self) -> bool:
        """Whether the path still leads to the file that was opened."""
        return not self._abandoned and self._made is not None and _identity(self.path) == self._made

    def give_up(self) -> None:
        """Stop all connections from using the file: some of them see rows that others don't."""
        self._abandoned = True

    def removed(self) -> StoreUnreachable:
        """Return the error for a file that was removed or replaced while open."""
        return StoreUnreachable(
            f"{self.path} or its -wal was removed or replaced while open; put it back and restart"
        )

    def log_identity(self) -> Identity:
        """Return device and inode of the log, which stay the same while any connection is open."""
        return _identity(self._log)

    def fold_log(self, connection: sqlite3.Connection) -> None:
        """Checkpoint the log if it has grown, one process at a time.

        Before SQLite 3.51.3, two connections that write and checkpoint at once can corrupt the file, if a
        second checkpoint follows a complete one before any write. So this writes right after a complete
        checkpoint. If that write fails, the connection must not be used again.
        """
        size = self.log_size()
        # Another process may have truncated a log that we could not checkpoint.
        self._fold_at = min(self._fold_at, size + _FOLD_BYTES)
        if size < self._fold_at:
            return
        # Overwriting an old log syncs in half the time that appending to a growing one takes. The log is
        # folded again when it exceeds its size, so it grows a little each time, until it is truncated.
        cut = size >= 2 * _FOLD_BYTES
        folded = False
        with suppress(OSError), self._folding():
            folded = _checkpoint(connection, "TRUNCATE" if cut else "RESTART")
            if folded and not cut:
                _begin_anew(connection)
        size = self.log_size()
        self._fold_at = size + 1 if folded and size else size + _FOLD_BYTES

    @contextmanager
    def _folding(self) -> Iterator[None]:
        lock = os.open(f"{self.path}-checkpoint", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            try:
                yield
            finally:
                # Closing is not enough: a process that was forked meanwhile holds the lock too.
                fcntl.flock(lock, fcntl.LOCK_UN)
        finally:
            os.close(lock)

    def _use_a_log(self, connection: sqlite3.Connection) -> None:
        """Switch to WAL; retry, since SQLite refuses concurrent switches without waiting."""
        deadline = time.monotonic() + _OPEN_SECONDS
        while True:
            try:
                [mode] = connection.execute("PRAGMA journal_mode = WAL").fetchone()
            except sqlite3.OperationalError as error:
                if not is_busy(error) or time.monotonic() > deadline:
                    raise
                time.sleep(random.uniform(0.0005, 0.008))  # noqa: S311
                continue
            if mode != "wal":
                raise StoreUnreachable(f"{self.path} can't have a write-ahead log here (its journal: {mode})")
            return

    def log_size(self) -> int:
        """Return the size of the log in bytes; 0 if there is none."""
        try:
            return self._log.stat().st_size
        except OSError:
            return 0


def _checkpoint(connection: sqlite3.Connection, mode: str) -> bool:
    """Checkpoint the log; return False if the checkpoint is incomplete.

    It is incomplete if another connection reads, or the disk is full. The log then grows on, and the next
    attempt is at its next step. All commits are safe in the log.
    """
    try:
        [busy, *_] = connection.execute(f"PRAGMA wal_checkpoint({mode})").fetchone()
    except sqlite3.Error:
        return False
    return not busy


def _begin_anew(connection: sqlite3.Connection) -> None:
    """Write to the start of a log that was folded: set the file's `user_version` to its current value."""
    try:
        connection.execute("BEGIN IMMEDIATE")
    except sqlite3.OperationalError as error:
        if is_busy(error):
            return  # The connection that holds the lock writes.
        raise
    [version] = connection.execute("PRAGMA user_version").fetchone()
    connection.execute(f"PRAGMA user_version = {version}")
    connection.execute("COMMIT")


def is_busy(error: sqlite3.Error) -> bool:
    """Whether SQLite failed because another connection holds a lock."""
    return (getattr(error, "sqlite_errorname", "") or "").startswith(("SQLITE_BUSY", "SQLITE_LOCKED"))


def translated(error: sqlite3.Error, path: Path) -> StoreError:
    """Return Onward's error for an error that SQLite raised about the file."""
    name = getattr(error, "sqlite_errorname", "") or ""
    if is_busy(error):
        return StoreBusy(
            f"{path} is held by another writer ({error}); end its transaction: a shell's, a backup's, or "
            "one of your own around within() that was neither committed nor rolled back"
        )
    if name.startswith("SQLITE_FULL") or (name.startswith("SQLITE_IOERR") and _is_full(path)):
        return StorageFull(f"no space is left for {path}; what was not acknowledged was not stored")
    if name.startswith(("SQLITE_CANTOPEN", "SQLITE_READONLY", "SQLITE_PERM", "SQLITE_AUTH")):
        return StoreUnreachable(f"can't open {path} for writing: {error}")
    if name.startswith(("SQLITE_CORRUPT", "SQLITE_NOTADB")):
        return StoreUnreachable(f"{path} is damaged or no SQLite database: {error}; restore it from a backup")
    return StoreError(f"{path}: {error}")


def _is_full(path: Path) -> bool:
    """Whether the disk has no room for a page: SQLite often reports that as an error of the disk."""
    try:
        free = os.statvfs(path.parent)
    except OSError:
        return False
    return free.f_bavail * free.f_frsize < _PAGE_BYTES


def _file_system(folder: Path) -> str:
    """Return the type of the file system of a folder, or '' if it is unknown."""
    try:
        mounts = [line.split()[1:3] for line in _MOUNTS.read_text(encoding="utf-8").splitlines()]
    except OSError:
        return ""
    place = folder.resolve()
    # Mounts are listed in order: a later mount on the same folder hides an earlier one.
    under = [
        (len(point), at, kind)
        for at, (point, kind) in enumerate(mounts)
        if place.is_relative_to(point.replace("\\040", " "))
    ]
    return max(under, default=(0, 0, ""))[2]


def _identity(path: Path) -> Identity:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino
