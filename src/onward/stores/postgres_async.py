"""A PostgreSQL database as a store: a pool of connections on which each operation is one round trip."""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any, TypeVar

import psycopg
from psycopg import errors
from psycopg_pool import AsyncConnectionPool, PoolTimeout

from onward.connections.psycopg import AsyncPsycopgConnection
from onward.connections.running import one_by_one_async, run_async
from onward.errors import SchemaMissing, StorageFull, StoreClosed, StoreUnreachable
from onward.operations.statement import Operation
from onward.sql.catalogue import Database
from onward.stores.migrations import Migration, Plan, bundled, check_prefix, plan

__all__ = ["AsyncPostgresStore"]

T = TypeVar("T")

_TRIES = 4
# Connection exceptions, and an operator or a crash that ends sessions.
_CUT = ("08", "57P")
_MIGRATION_LOCK_TRIES = 30
_TROUBLE = (psycopg.OperationalError, errors.UndefinedTable, errors.InvalidSchemaName, PoolTimeout)


class OwnConnection(psycopg.AsyncConnection[Any]):
    """A connection of the pool, adapted once for all operations that it will run."""

    adapted: AsyncPsycopgConnection | None = None


class AsyncPostgresStore:
    """Runs operations on pooled connections of its own; opens on first use."""

    database: Database = "postgres"

    def __init__(
        self, url: str, *, schema: str = "onward", pool_size: int = 10, timeout: float = 30.0
    ) -> None:
        self.url = url
        self.prefix = check_prefix("postgres", f"{schema}.")
        self.pooler: bool | None = None
        self._connecting: dict[str, Any] = {"autocommit": True, "application_name": "onward"}
        if "connect_timeout" not in url:
            self._connecting["connect_timeout"] = max(2, int(timeout))
        self.pool = AsyncConnectionPool(
            url,
            connection_class=OwnConnection,
            min_size=1,
            max_size=pool_size,
            timeout=timeout,
            open=False,
            kwargs=self._connecting,
            configure=self._configure,
        )
        self._checked = False
        self._process = os.getpid()
        self._closed = False

    async def run(self, make: Callable[[], Operation[T]], *, write: bool = True, atomic: bool = False) -> T:
        """Run an operation; one that met a deadlock was rolled back whole and is tried again."""
        for attempt in range(1, _TRIES + 1):
            try:
                return await self._try(make, atomic=atomic)
            except StoreUnreachable:
                # A question is asked again; whether a write was done before the break, nobody knows.
                if write or attempt > 1:
                    raise
            except (errors.DeadlockDetected, errors.SerializationFailure):
                if attempt == _TRIES:
                    raise
                await asyncio.sleep(random.uniform(0.001, 0.01) * attempt)  # noqa: S311
        raise AssertionError

    async def _try(self, make: Callable[[], Operation[T]], *, atomic: bool) -> T:
        # Not as a context: together with the pool's own that was a tenth of an enqueue's cost.
        try:
            connection = await self._take()
            try:
                if atomic:
                    return await self._run_atomic(make(), connection)
                return await run_async(make(), self._adapted(connection))
            finally:
                await self.pool.putconn(connection)
        except _TROUBLE as error:
            await self._explain(error)
            raise

    async def _run_atomic(self, operation: Operation[T], connection: OwnConnection) -> T:
        several = one_by_one_async if self.pooler else AsyncPsycopgConnection.fetch_ahead
        async with connection.transaction():
            return await run_async(operation, self._adapted(connection), several)

    def _adapted(self, connection: OwnConnection) -> AsyncPsycopgConnection:
        if connection.adapted is None:
            connection.adapted = AsyncPsycopgConnection(connection, self.prefix, exclusive=True)
        return connection.adapted

    async def plan(self) -> Plan:
        """Compare the schema with this code; changes nothing."""
        async with self._connection() as connection:
            return plan("postgres", self.prefix, await self._applied(connection))

    async def migrate(self) -> Plan:
        """Bring the schema up to this code; of two migrators at once, one waits for the other."""
        before = await self.plan()
        for step in bundled("postgres", self.prefix):
            for attempt in range(_MIGRATION_LOCK_TRIES):
                try:
                    await self._apply(step)
                    break
                except errors.LockNotAvailable:
                    # Never queue behind a long transaction: everyone else would queue behind us.
                    if attempt == _MIGRATION_LOCK_TRIES - 1:
                        raise
                    await asyncio.sleep(random.uniform(0.5, 1.5))  # noqa: S311
        return before

    async def close(self) -> None:
        """Give the connections back to the database."""
        self._closed = True
        if not self.pool.closed:
            await self.pool.close()

    async def _apply(self, step: Migration) -> None:
        async with self._connection() as connection, connection.transaction():
            await connection.execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", (self.prefix,))
            if step.version in await self._applied(connection):
                return
            await connection.execute("SET LOCAL lock_timeout = '2s'")
            await connection.execute(step.sql.encode())

    async def _applied(self, connection: psycopg.AsyncConnection[Any]) -> set[int]:
        cursor = await connection.execute("SELECT to_regclass(%s) IS NOT NULL", (f"{self.prefix}migrations",))
        if not (await cursor.fetchone() or (False,))[0]:
            return set()
        query = f"SELECT version FROM {self.prefix}migrations"  # noqa: S608
        cursor = await connection.execute(query.encode())
        return {version for (version,) in await cursor.fetchall()}

    async def _open(self) -> None:
        # Once without the pool, which would try for a long time and not say why it failed.
        async with await psycopg.AsyncConnection.connect(self.url, **self._connecting) as connection:
            # A pooler answers with a process id of its own; prepared plans would stay behind in it.
            cursor = await connection.execute("SELECT pg_backend_pid()")
            self.pooler = await cursor.fetchone() != (connection.info.backend_pid,)
        # Waited for, else the first caller would have the pool grow beside its first connection.
        await self.pool.open(wait=True, timeout=self.pool.timeout)

    async def _drop_broken(self) -> None:
        if not self.pool.closed:
            with suppress(psycopg.Error, PoolTimeout):
                await self.pool.check()

    async def _configure(self, connection: psycopg.AsyncConnection[Any]) -> None:
        if self.pooler:
            connection.prepare_threshold = None

    @asynccontextmanager
    async def _connection(self) -> AsyncIterator[psycopg.AsyncConnection[Any]]:
        """Lend a connection to what may run before the schema is right."""
        try:
            connection = await self._take(check=False)
            try:
                yield connection
            finally:
                await self.pool.putconn(connection)
        except _TROUBLE as error:
            await self._explain(error)
            raise

    async def _take(self, *, check: bool = True) -> OwnConnection:
        if os.getpid() != self._process:
            raise StoreClosed("this store was opened before a fork; open a new one in the child")
        if self._closed:
            raise StoreClosed("this store was closed; open a new one")
        if self.pool.closed:
            await self._open()
        connection = await self.pool.getconn()
        if check and not self._checked:
            try:
                plan("postgres", self.prefix, await self._applied(connection)).check()
                self._checked = True
            except BaseException:
                await self.pool.putconn(connection)
                raise
        return connection

    async def _explain(self, error: Exception) -> None:
        """Raise an error of ours for what the driver raised, unless the driver's own says enough."""
        match error:
            case errors.UndefinedTable() | errors.InvalidSchemaName():
                raise SchemaMissing(f"{error}; run client.migrate()".replace("\n", " ")) from error
            case errors.DiskFull():
                raise StorageFull(f"PostgreSQL has no space left, nothing was stored: {error}") from error
        if not _is_an_answer(error):
            # What cut this connection has cut its neighbours too: have them replaced before anyone takes one.
            await self._drop_broken()
            raise StoreUnreachable(
                f"PostgreSQL can't be reached, or the connection broke: {error}"
            ) from error


def _is_an_answer(error: Exception) -> bool:
    """Tell what the server said about a statement from what cut the connection."""
    state: str | None = getattr(error, "sqlstate", None)
    return state is not None and not state.startswith(_CUT)
