"""The two threads that own the connections of a SQLite file: one writes, one reads.

The writer runs whole operations. Those that wait at the same time share one transaction and one disk sync.
"""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Callable
from concurrent.futures import Future
from queue import SimpleQueue
from typing import Any, TypeVar

from onward.connections.drivers.sqlite import SqliteConnection
from onward.connections.run import Begun, run
from onward.errors import StoreClosed
from onward.operations.statement import Operation
from onward.stores.sqlite.file import Identity, SqliteFile, translated
from onward.stores.sqlite.write_queue import WriteQueue

T = TypeVar("T")

_CLOSED = "this store was closed; open a new one"
_MOST_AT_ONCE = 200
# Errors that are the fault of one operation, not of the database.
_OWN_FAULT = (sqlite3.IntegrityError, sqlite3.DataError, sqlite3.InterfaceError, sqlite3.ProgrammingError)

Work = tuple[Operation[Any], Future[Any]]


class Reader:
    """A thread that runs operations one by one on its own connection, outside any transaction."""

    read_only = True

    def __init__(self, file: SqliteFile, prefix: str, busy_seconds: float) -> None:
        self._file = file
        self._prefix = prefix
        self._busy_seconds = busy_seconds
        self._work: SimpleQueue[Work | None] = SimpleQueue()
        self._handing = threading.Lock()
        self._closing = False
        self._process = os.getpid()
        self._connection: sqlite3.Connection | None = None
        self._log: Identity = None
        self._thread = threading.Thread(target=self._loop, name=f"onward {type(self).__name__}", daemon=True)
        self._thread.start()

    def submit(self, make: Callable[[], Operation[T]]) -> Future[T]:
        """Submit an operation; its future is done when its writes are durable.

        The calling thread builds the first statement, which saves time on the writer thread, for which all
        callers wait.
        """
        if os.getpid() != self._process:
            raise StoreClosed("this store was opened before a fork; open a new one in the child")
        if self._closing:
            raise StoreClosed(_CLOSED)
        future: Future[T] = Future()
        try:
            operation = Begun(make())
        except Exception as error:  # noqa: BLE001 - the future raises it
            future.set_exception(error)
            return future
        # Under the lock: an operation after the end mark of the queue would never run.
        with self._handing:
            if self._closing:
                raise StoreClosed(_CLOSED)
            self._work.put((operation, future))
        return future

    def close(self) -> None:
        """Finish all submitted operations, then close the connection."""
        if os.getpid() != self._process:
            return
        with self._handing:
            if not self._closing:
                self._closing = True
                self._work.put(None)
        self._thread.join()

    def _loop(self) -> None:
        while (first := self._work.get()) is not None:
            works = [first]
            more = True
            while more and len(works) < _MOST_AT_ONCE and not self._work.empty():
                work = self._work.get()
                more = work is not None
                if work is None:
                    self._work.put(None)
                else:
                    works.append(work)
            if wanted := [work for work in works if work[1].set_running_or_notify_cancel()]:
                self._serve(wanted)
        self._drop()

    def _serve(self, works: list[Work]) -> None:
        for operation, future in works:
            try:
                future.set_result(run(operation, SqliteConnection(self._open(), self._prefix)))
            except sqlite3.Error as error:
                self._drop()
                future.set_exception(_caused(error, self._file))
            except Exception as error:  # noqa: BLE001
                future.set_exception(error)

    def _open(self) -> sqlite3.Connection:
        if not self._file.still_there():
            self._drop()
            raise self._file.removed()
        if self._connection is None:
            self._connection = self._file.connect(read_only=self.read_only)
        return self._connection

    def _drop(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = self._log = None


class Writer(Reader):
    """The thread that writes; it commits operations that wait at the same time in one transaction."""

    read_only = False

    def __init__(self, file: SqliteFile, prefix: str, busy_seconds: float, patience: float) -> None:
        self._write_queue = WriteQueue(file.path, patience)
        super().__init__(file, prefix, busy_seconds)

    def _drop(self) -> None:
        super()._drop()
        self._write_queue.close()

    def _serve(self, works: list[Work]) -> None:
        done: list[tuple[Future[Any], Any]] = []
        try:
            connection = self._open()
            self._write_queue.take(connection, self._busy_seconds)
            self._log = self._log or self._file.log_identity()
            self._require_files(connection)
            for operation, future in works:
                result = self._one(connection, operation, future, alone=len(works) == 1)
                if not future.done():
                    done.append((future, result))
            if connection.in_transaction:
                connection.execute("COMMIT")
            self._require_files(connection)
        except Exception as error:  # noqa: BLE001
            # After a failed commit the state of the connection's pages is unknown: never use it again.
            self._drop()
            for _, future in works:
                if not future.done():
                    future.set_exception(_caused(error, self._file))
            return
        for future, result in done:
            future.set_result(result)
        try:
            self._file.fold_log(connection)
        except sqlite3.Error:
            self._drop()

    def _one(
        self, connection: sqlite3.Connection, operation: Operation[Any], future: Future[Any], *, alone: bool
    ) -> Any:
        """Run one operation so that its failure rolls back no other operation of the transaction."""
        if not alone:
            connection.execute("SAVEPOINT onward_operation")
        try:
            result = run(operation, SqliteConnection(connection, self._prefix))
        except Exception as error:
            if isinstance(error, sqlite3.Error) and not isinstance(error, _OWN_FAULT):
                raise
            connection.execute("ROLLBACK" if alone else "ROLLBACK TO onward_operation")
            future.set_exception(_caused(error, self._file))
            return None
        finally:
            if not alone and connection.in_transaction:
                connection.execute("RELEASE onward_operation")
        return result

    def _require_files(self, connection: sqlite3.Connection) -> None:
        """Raise if the file or its log was removed: a commit into a removed file must not be acknowledged."""
        if self._file.still_there() and self._file.log_identity() == self._log:
            return
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        # This connection may be the last that sees a removed log: save the commits acknowledged before.
        connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
        self._file.give_up()
        raise self._file.removed()


def _caused(error: Exception, file: SqliteFile) -> Exception:
    if not isinstance(error, sqlite3.Error):
        return error
    translation = translated(error, file.path)
    translation.__cause__ = error
    return translation
