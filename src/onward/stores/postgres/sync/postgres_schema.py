# Generated from src/onward/stores/postgres/postgres_schema.py by tools/make_sync.py. Edit that file instead.
"""The schema of Onward's tables on PostgreSQL: its version, its migrations, and row-level security."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from importlib.resources.abc import Traversable
from typing import Any

import psycopg
from psycopg import errors

from onward.core.upkeep.maintenance import Migration, Plan
from onward.errors import StoreBusy
from onward.stores.migrations import plan, read_migrations
from onward.stores.postgres.sync.pool import Pooled

_LOCK_TRIES = 30


class PostgresSchema:
    """Compares and changes the schema; `checked` once it was found to be that of this code."""

    def __init__(
        self,
        prefix: str,
        migrations: Traversable,
        connection: Callable[[], AbstractContextManager[Pooled]],
    ) -> None:
        self._prefix = prefix
        self._migrations = migrations
        self._connection = connection
        self.checked = False

    def check(self, connection: psycopg.Connection[Any]) -> None:
        """Raise unless the schema is that of this code."""
        plan(self._bundled(), self._applied(connection)).check()
        self.checked = True

    def plan(self) -> Plan:
        """Compare the schema with this code and return the pending migrations; change nothing."""
        with self._connection() as connection:
            return plan(self._bundled(), self._applied(connection))

    def migrate(self) -> Plan:
        """Apply all pending migrations and return the plan as it was before; concurrent migrators wait."""
        before = self.plan()
        for step in before.pending:
            self._change(partial(self._apply, step))
        return before

    def protect_orgs(self, *, enable: bool) -> None:
        """Turn row-level security on or off."""
        self._change(partial(self._protect, enable=enable))

    def _change(self, change: Callable[[], None]) -> None:
        """Change the schema, and retry after a lock timeout.

        A lock request that waits for a long transaction would block all sessions that come after it.
        """
        for attempt in range(_LOCK_TRIES):
            try:
                return change()
            except StoreBusy as error:
                locked = isinstance(error.__cause__, errors.LockNotAvailable)
                if not locked or attempt == _LOCK_TRIES - 1:
                    raise
                time.sleep(random.uniform(0.5, 1.5))  # noqa: S311
        raise AssertionError

    def _apply(self, step: Migration) -> None:
        with self._connection() as connection, connection.transaction():
            connection.execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", (self._prefix,))
            if step.version in self._applied(connection):
                return
            connection.execute("SET LOCAL lock_timeout = '2s'")
            connection.execute(step.sql.encode())

    def _protect(self, *, enable: bool) -> None:
        with self._connection() as connection, connection.transaction():
            plan(self._bundled(), self._applied(connection)).check()
            connection.execute("SET LOCAL lock_timeout = '2s'")
            query = f"SELECT {self._prefix}protect_orgs(%s)"
            connection.execute(query.encode(), (enable,))

    def _bundled(self) -> tuple[Migration, ...]:
        return read_migrations("postgres", self._prefix, self._migrations)

    def _applied(self, connection: psycopg.Connection[Any]) -> set[int]:
        name = f"{self._prefix}migrations"
        cursor = connection.execute("SELECT to_regclass(%s) IS NOT NULL", (name,))
        if not (cursor.fetchone() or (False,))[0]:
            return set()
        cursor = connection.execute(f"SELECT version FROM {name}".encode())  # noqa: S608
        return {version for (version,) in cursor.fetchall()}
