"""The schema of Onward's tables on PostgreSQL: its version, its migrations, and row-level security."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from functools import partial
from importlib.resources.abc import Traversable
from typing import Any

import psycopg
from psycopg import errors

from onward.core.upkeep.maintenance import Migration, Plan
from onward.errors import StoreBusy
from onward.stores.migrations import plan, read_migrations
from onward.stores.postgres.pool import AsyncPooled

_LOCK_TRIES = 30


class AsyncPostgresSchema:
    """Compares and changes the schema; `checked` once it was found to be that of this code."""

    def __init__(
        self,
        prefix: str,
        migrations: Traversable,
        connection: Callable[[], AbstractAsyncContextManager[AsyncPooled]],
    ) -> None:
        self._prefix = prefix
        self._migrations = migrations
        self._connection = connection
        self.checked = False

    async def check(self, connection: psycopg.AsyncConnection[Any]) -> None:
        """Raise unless the schema is that of this code."""
        plan(self._bundled(), await self._applied(connection)).check()
        self.checked = True

    async def plan(self) -> Plan:
        """Compare the schema with this code and return the pending migrations; change nothing."""
        async with self._connection() as connection:
            return plan(self._bundled(), await self._applied(connection))

    async def migrate(self) -> Plan:
        """Apply all pending migrations and return the plan as it was before; concurrent migrators wait."""
        before = await self.plan()
        for step in before.pending:
            await self._change(partial(self._apply, step))
        return before

    async def protect_orgs(self, *, enable: bool) -> None:
        """Turn row-level security on or off."""
        await self._change(partial(self._protect, enable=enable))

    async def _change(self, change: Callable[[], Awaitable[None]]) -> None:
        """Change the schema, and retry after a lock timeout.

        A lock request that waits for a long transaction would block all sessions that come after it.
        """
        for attempt in range(_LOCK_TRIES):
            try:
                return await change()
            except StoreBusy as error:
                locked = isinstance(error.__cause__, errors.LockNotAvailable)
                if not locked or attempt == _LOCK_TRIES - 1:
                    raise
                await asyncio.sleep(random.uniform(0.5, 1.5))  # noqa: S311
        raise AssertionError

    async def _apply(self, step: Migration) -> None:
        async with self._connection() as connection, connection.transaction():
            await connection.execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", (self._prefix,))
            if step.version in await self._applied(connection):
                return
            await connection.execute("SET LOCAL lock_timeout = '2s'")
            await connection.execute(step.sql.encode())

    async def _protect(self, *, enable: bool) -> None:
        async with self._connection() as connection, connection.transaction():
            plan(self._bundled(), await self._applied(connection)).check()
            await connection.execute("SET LOCAL lock_timeout = '2s'")
            query = f"SELECT {self._prefix}protect_orgs(%s)"
            await connection.execute(query.encode(), (enable,))

    def _bundled(self) -> tuple[Migration, ...]:
        return read_migrations("postgres", self._prefix, self._migrations)

    async def _applied(self, connection: psycopg.AsyncConnection[Any]) -> set[int]:
        name = f"{self._prefix}migrations"
        cursor = await connection.execute("SELECT to_regclass(%s) IS NOT NULL", (name,))
        if not (await cursor.fetchone() or (False,))[0]:
            return set()
        cursor = await connection.execute(f"SELECT version FROM {name}".encode())  # noqa: S608
        return {version for (version,) in await cursor.fetchall()}
