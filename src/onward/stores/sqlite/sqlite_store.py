"""A SQLite file as a store for sync and async callers; the first use creates and migrates the file."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import Callable
from concurrent.futures import Future
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import TypeVar

from onward.connections.drivers.sqlite_async import AsyncSqlite
from onward.core.upkeep.maintenance import Migration, Plan
from onward.errors import InvalidSetting, StoreClosed
from onward.operations.statement import Operation
from onward.sql.catalogue import Database
from onward.stores.migrations import BUNDLED, check_prefix, plan, read_migrations, statements
from onward.stores.sqlite.file import SqliteFile, translated
from onward.stores.sqlite.threads import Reader, Writer

T = TypeVar("T")


class _SqliteStore:
    """The part that the sync and the async store share: the file, its two threads, its schema."""

    database: Database = "sqlite"
    row_security = False

    def __init__(
        self,
        path: Path,
        *,
        prefix: str = "onward_",
        busy_seconds: float = 30.0,
        patience: float = 0.0,
        migrations: Traversable = BUNDLED,
    ) -> None:
        self.file = SqliteFile(path)
        self.prefix = check_prefix("sqlite", prefix)
        self._migrations = migrations
        self._busy_seconds, self._patience = busy_seconds, patience
        self._opening = threading.Lock()
        self._closed = False
        self._threads: tuple[Reader, Writer] | None = None

    def hang_up(self, seconds: float) -> None:
        """Do nothing: unlike a network, a file always answers or fails."""

    def _submit(self, make: Callable[[], Operation[T]], *, write: bool) -> Future[T]:
        reader, writer = self._threads or self._open()
        return (writer if write else reader).submit(make)

    def _open(self) -> tuple[Reader, Writer]:
        with self._opening:
            if self._closed:
                raise StoreClosed("this store was closed; open a new one")
            if self._threads is None:
                self._migrate()
                arguments = (self.file, self.prefix, self._busy_seconds)
                self._threads = Reader(*arguments), Writer(*arguments, self._patience)
        return self._threads

    def _bundled(self) -> tuple[Migration, ...]:
        return read_migrations("sqlite", self.prefix, self._migrations)

    def _plan(self) -> Plan:
        if not self.file.path.exists():
            return plan(self._bundled(), ())
        connection = self.file.connect(read_only=True)
        try:
            return plan(self._bundled(), _applied(connection, self.prefix))
        except sqlite3.Error as error:
            raise translated(error, self.file.path) from error
        finally:
            connection.close()

    def _migrate(self) -> Plan:
        self.file.create()
        connection = self.file.connect()
        try:
            connection.execute(f"PRAGMA busy_timeout = {int(self._busy_seconds * 1000)}")
            before = plan(self._bundled(), _applied(connection, self.prefix))
            for step in before.pending:
                connection.execute("BEGIN IMMEDIATE")
                # Look again under the lock: another process may have applied it.
                if step.version not in _applied(connection, self.prefix):
                    for statement in statements(step.sql):
                        connection.execute(statement)
                connection.execute("COMMIT")
        except sqlite3.Error as error:
            raise translated(error, self.file.path) from error
        finally:
            connection.close()
        return before

    def _connect(self) -> sqlite3.Connection:
        if self._threads is None:
            self._open()
        connection = self.file.connect()
        connection.execute(f"PRAGMA busy_timeout = {int(self._busy_seconds * 1000)}")
        return connection

    def _close(self) -> None:
        with self._opening:
            self._closed = True
            for thread in self._threads or ():
                thread.close()


class SqliteStore(_SqliteStore):
    """Runs operations for sync callers."""

    def run(
        self,
        make: Callable[[], Operation[T]],
        *,
        write: bool = True,
        atomic: bool = False,
        org_id: str | None = None,
    ) -> T:
        """Run an operation in one transaction; its writes are durable when this returns."""
        del atomic, org_id
        return self._submit(make, write=write).result()

    def plan(self) -> Plan:
        """Compare the schema with this code and return the pending migrations; change nothing."""
        return self._plan()

    def migrate(self) -> Plan:
        """Apply all pending migrations and return the plan as it was before; concurrent migrators wait."""
        return self._migrate()

    def protect_orgs(self, *, enable: bool) -> None:
        """Raise InvalidSetting if `enable` is set: SQLite has no roles to separate."""
        check_no_row_security(enable=enable)

    def vacuum(self) -> bool:
        """Do nothing and return False: SQLite reuses the space of deleted rows at once."""
        return False

    def connect(self) -> sqlite3.Connection:
        """Open a connection to the file, outside a transaction; the caller closes it."""
        return self._connect()

    def close(self) -> None:
        """Finish all submitted operations and close the file."""
        self._close()


class AsyncSqliteStore(_SqliteStore):
    """Runs operations for async callers; the event loop never waits for the disk."""

    async def run(
        self,
        make: Callable[[], Operation[T]],
        *,
        write: bool = True,
        atomic: bool = False,
        org_id: str | None = None,
    ) -> T:
        """Run an operation in one transaction; its writes are durable when this returns."""
        del atomic, org_id
        if self._threads is None:
            await asyncio.to_thread(self._open)
        return await asyncio.wrap_future(self._submit(make, write=write))

    async def plan(self) -> Plan:
        """Compare the schema with this code and return the pending migrations; change nothing."""
        return await asyncio.to_thread(self._plan)

    async def migrate(self) -> Plan:
        """Apply all pending migrations and return the plan as it was before; concurrent migrators wait."""
        return await asyncio.to_thread(self._migrate)

    async def protect_orgs(self, *, enable: bool) -> None:
        """Raise InvalidSetting if `enable` is set: SQLite has no roles to separate."""
        check_no_row_security(enable=enable)

    async def vacuum(self) -> bool:
        """Do nothing and return False: SQLite reuses the space of deleted rows at once."""
        return False

    async def connect(self) -> AsyncSqlite:
        """Open a connection to the file, outside a transaction; the caller closes it."""
        return await AsyncSqlite.opened(self._connect)

    async def close(self) -> None:
        """Finish all submitted operations and close the file."""
        await asyncio.to_thread(self._close)


def check_no_row_security(*, enable: bool) -> None:
    """Raise InvalidSetting if `enable` is set: only PostgreSQL has row-level security."""
    if enable:
        raise InvalidSetting(
            "row_security is PostgreSQL's, and this is SQLite: every process that can open the file can "
            "read all of it; for_org() confines a client here too"
        )


def _applied(connection: sqlite3.Connection, prefix: str) -> set[int]:
    table_exists = connection.execute(
        "SELECT 1 FROM sqlite_master WHERE name = ?", (f"{prefix}migrations",)
    ).fetchall()
    if not table_exists:
        return set()
    return {version for (version,) in connection.execute(f"SELECT version FROM {prefix}migrations")}  # noqa: S608
