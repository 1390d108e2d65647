"""A PostgreSQL database as a store: a pool of connections on which each operation is one round trip."""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from importlib.resources.abc import Traversable
from typing import Any, TypeVar

import psycopg
from psycopg import errors
from psycopg.conninfo import conninfo_to_dict

from onward.connections.drivers.psycopg import AsyncPsycopgConnection
from onward.connections.libpq.prepared import Direct
from onward.connections.run import one_by_one_async, run_async
from onward.core.upkeep.maintenance import Plan
from onward.errors import NotAllowed, SchemaMissing, StorageFull, StoreBusy, StoreClosed, StoreUnreachable
from onward.operations.statement import Operation
from onward.operations.tenancy import set_org
from onward.sql.catalogue import Database
from onward.stores.migrations import BUNDLED, check_prefix
from onward.stores.postgres.pool import AsyncPool, AsyncPooled
from onward.stores.postgres.postgres_schema import AsyncPostgresSchema

T = TypeVar("T")

_TRIES = 4
# SQLSTATE prefixes: connection errors, sessions ended by an operator or a crash, a demoted server, a server
# out of resources, system errors.
_CUT = ("08", "57P", "25006", "53", "58")
_LONGEST_CONNECT = 10
_CHECKS_CLIENTS = 140_000
# A vacuum reads all of the indexes, so the threshold grows with the table.
_MANY_DEAD_ROWS = """
SELECT pg_stat_get_dead_tuples(live) > greatest(20000, pg_stat_get_live_tuples(live) / 10)
FROM to_regclass(%s) AS live
"""
# The process id of the server, and whether this role may write to its log: by such a write we wait for the
# disk.
_WHO_ANSWERS = """
SELECT pg_backend_pid(), bool_and(has_function_privilege(oid, 'EXECUTE'))
FROM pg_proc
WHERE proname = 'pg_logical_emit_message'
"""
# To compile a count of jobs takes ten times as long as to run it.
_NO_JIT = "SET jit = off"
# Without the interval the statement of a dead worker would run on for minutes and hold its locks.
_OWN_SESSION = f"SET client_connection_check_interval = '5s'; {_NO_JIT}"
# A worker repeats a few statements. Each is planned once, with the plan that is right for tables of any size:
# planning a claim takes as long as claiming a hundred jobs.
_STEADY = """
SET plan_cache_mode = force_generic_plan;
SET enable_seqscan = off;
SET enable_bitmapscan = off;
SET enable_hashjoin = off;
SET enable_mergejoin = off;
SET jit = off
"""
TROUBLE = (
    psycopg.OperationalError, errors.InternalError, errors.UndefinedTable, errors.InvalidSchemaName,
    errors.InsufficientPrivilege,
)  # fmt: skip
# Without these a connection whose other end vanished would wait for hours.
_ALIVE = {"keepalives_idle": 10, "keepalives_interval": 3, "keepalives_count": 3, "tcp_user_timeout": 20_000}


class AsyncPostgresStore:
    """Runs operations on its own pool of connections; connects on first use."""

    database: Database = "postgres"

    def __init__(
        self,
        url: str,
        *,
        schema: str = "onward",
        pool_size: int = 10,
        timeout: float = 30.0,
        steady: bool = False,
        row_security: bool = False,
        migrations: Traversable = BUNDLED,
    ) -> None:
        self.url = url
        self.row_security = row_security
        self._steady = steady
        self.prefix = check_prefix("postgres", f"{schema}.")
        self._schema = AsyncPostgresSchema(self.prefix, migrations, self._connection)
        self.pooler: bool | None = None
        self._reaches_disk = False
        self._connecting: dict[str, Any] = {"autocommit": True, "application_name": "onward"}
        defaults = {"connect_timeout": max(2, min(int(timeout), _LONGEST_CONNECT)), **_ALIVE}
        self._connecting |= {name: value for name, value in defaults.items() if name not in url}
        self.pool = AsyncPool(self._connect, size=pool_size, timeout=timeout)
        self._process = os.getpid()
        self._closed = False

    async def run(
        self,
        make: Callable[[], Operation[T]],
        *,
        write: bool = True,
        atomic: bool = False,
        org_id: str | None = None,
    ) -> T:
        """Run an operation; try it again after a deadlock, which rolls all of it back."""
        for attempt in range(1, _TRIES + 1):
            try:
                return await self._try(make, atomic=atomic, org_id=org_id)
            except StoreUnreachable:
                # A read is safe to repeat once. A write may have been committed before the connection broke.
                if write or attempt > 1:
                    raise
            except (errors.DeadlockDetected, errors.SerializationFailure) as error:
                if attempt == _TRIES:
                    raise StoreBusy(f"met others {_TRIES} times, nothing was stored: {error}") from error
                await asyncio.sleep(random.uniform(0.001, 0.01) * attempt)  # noqa: S311
        raise AssertionError

    async def _try(self, make: Callable[[], Operation[T]], *, atomic: bool, org_id: str | None) -> T:
        # Not a context manager: with the pool's own it took a tenth of an enqueue's time.
        try:
            connection = await self._take()
            try:
                if self.row_security:
                    return await self._run_for_org(make(), connection, atomic=atomic, org_id=org_id)
                if atomic:
                    return await self._run_atomic(make(), connection)
                return await run_async(make(), self._adapted(connection))
            finally:
                await self.pool.give(connection)
        except TROUBLE as error:
            await self._explain(error)
            raise

    async def _run_atomic(self, operation: Operation[T], connection: AsyncPooled) -> T:
        several = one_by_one_async if self.pooler else AsyncPsycopgConnection.fetch_ahead
        async with connection.transaction():
            return await run_async(operation, self._adapted(connection), several)

    async def _run_for_org(
        self, operation: Operation[T], connection: AsyncPooled, *, atomic: bool, org_id: str | None
    ) -> T:
        """Run an operation on a connection whose row-level security is set to `org_id`, or to no org."""
        adapted = self._adapted(connection)
        if self.pooler:
            # The pooler may run the next transaction on another server connection: set it for this one only.
            async with connection.transaction():
                await run_async(set_org(org_id), adapted)
                return await run_async(operation, adapted)
        if connection.org_id != (org_id or ""):
            # If the caller is cancelled during the statement, we can't know whether the org was set.
            connection.org_id = None
            await run_async(set_org(org_id, local=False), adapted)
            connection.org_id = org_id or ""
        if atomic:
            return await self._run_atomic(operation, connection)
        return await run_async(operation, adapted)

    def _adapted(self, connection: AsyncPooled) -> AsyncPsycopgConnection:
        if connection.adapted is None:
            connection.adapted = AsyncPsycopgConnection(
                connection,
                self.prefix,
                direct=None if self.pooler else Direct(connection, early=self._reaches_disk),
                prepare=self._steady and not self.pooler,
            )
        return connection.adapted

    async def plan(self) -> Plan:
        """Compare the schema with this code and return the pending migrations; change nothing."""
        return await self._schema.plan()

    async def migrate(self) -> Plan:
        """Apply all pending migrations and return the plan as it was before; concurrent migrators wait."""
        return await self._schema.migrate()

    async def protect_orgs(self, *, enable: bool) -> None:
        """Turn row-level security on or off: with it, roles other than the owner see only rows of their org.

        A role sets its org on the connection.
        """
        await self._schema.protect_orgs(enable=enable)

    async def vacuum(self) -> bool:
        """Vacuum the hot table if it has many dead rows: autovacuum runs at most once a minute."""
        async with self._connection() as connection:
            table = f"{self.prefix}live"
            cursor = await connection.execute(_MANY_DEAD_ROWS, (table,))
            if await cursor.fetchone() != (True,):
                return False
            self.pool.forget(connection)
            try:
                # Truncation would take a lock that blocks every other session.
                await connection.execute(
                    f"VACUUM (SKIP_LOCKED, INDEX_CLEANUP ON, TRUNCATE OFF) {table}".encode()
                )
            except errors.InsufficientPrivilege:
                return False
            return True

    async def connect(self) -> psycopg.AsyncConnection[Any]:
        """Open a connection in autocommit mode for the caller; the caller closes it."""
        try:
            return await psycopg.AsyncConnection.connect(self.url, **self._connecting)
        except TROUBLE as error:
            await self._explain(error)
            raise

    def hang_up(self, seconds: float) -> None:
        """Break the connections of operations that take longer than `seconds`; those operations raise."""
        self.pool.hang_up(seconds)

    async def close(self) -> None:
        """Close all connections to the database."""
        self._closed = True
        await self.pool.close()

    async def _connect(self) -> AsyncPooled:
        connection = await AsyncPooled.connect(self.url, **self._connecting)
        self.pool.note(connection)
        try:
            await self._configure(connection)
        except BaseException:
            self.pool.forget(connection)
            await connection.close()
            raise
        return connection

    async def _configure(self, connection: AsyncPooled) -> None:
        if self.pooler is None:
            # A pooler reports its own process id at connect. Prepared statements would stay on a server
            # connection that the pooler lends to other clients.
            process, self._reaches_disk = await (await connection.execute(_WHO_ANSWERS)).fetchone() or (
                0,
                False,
            )
            self.pooler = process != connection.info.backend_pid
        if self.pooler:
            connection.prepare_threshold = None
        else:
            await connection.execute(
                _OWN_SESSION if connection.info.server_version >= _CHECKS_CLIENTS else _NO_JIT
            )
        if self._steady and not self.pooler:
            await connection.execute(_STEADY)

    @asynccontextmanager
    async def _connection(self) -> AsyncIterator[AsyncPooled]:
        """Lend a connection without checking the version of the schema."""
        try:
            connection = await self._take(check=False)
            try:
                yield connection
            finally:
                await self.pool.give(connection)
        except TROUBLE as error:
            await self._explain(error)
            raise

    def _require_open(self) -> None:
        if os.getpid() != self._process:
            raise StoreClosed("this store was opened before a fork; open a new one in the child")
        if self._closed:
            raise StoreClosed("this store was closed; open a new one")

    async def _take(self, use: str = "", *, check: bool = True) -> AsyncPooled:
        self._require_open()
        connection = await self.pool.take(use)
        if check and not self._schema.checked:
            try:
                await self._schema.check(connection)
            except BaseException:
                await self.pool.give(connection)
                raise
        return connection

    async def _drop(self) -> None:
        await self.pool.drop()

    async def _explain(self, error: Exception) -> None:
        """Raise Onward's error for an error of the driver; return if the driver's own error says enough."""
        match error:
            case errors.UndefinedTable() | errors.InvalidSchemaName():
                raise SchemaMissing(
                    f"{error}; run onward migrate, or client.migrate()".replace("\n", " ")
                ) from error
            case errors.InsufficientPrivilege():
                raise NotAllowed(f"PostgreSQL refused: {error}; {self._remedy(error)}") from error
            case errors.DiskFull():
                raise StorageFull(f"PostgreSQL has no space left, nothing was stored: {error}") from error
            case errors.QueryCanceled() | errors.LockNotAvailable():
                raise StoreBusy(f"PostgreSQL gave up on a statement, nothing was stored: {error}") from error
        if not _is_an_answer(error):
            # The failure that broke this connection has broken the idle ones too: no caller may get one.
            await self._drop()
            if isinstance(error, errors.ReadOnlySqlTransaction):
                raise StoreUnreachable(
                    "PostgreSQL is read-only (a standby, or default_transaction_read_only): "
                    "connect to the primary"
                ) from error
            raise StoreUnreachable(
                f"PostgreSQL can't be reached, or the connection broke: {error}"
            ) from error

    def _remedy(self, error: errors.InsufficientPrivilege) -> str:
        """Return what lets the role do what PostgreSQL refused: the right org, or a grant."""
        if "row-level security" in str(error):
            return "it is of another org than this client's"
        known = conninfo_to_dict(self.url)
        role, schema = known.get("user") or os.environ.get("PGUSER") or "ROLE", self.prefix.rstrip(".")
        if "for database" in str(error):
            grants = f"GRANT CREATE ON DATABASE {known.get('dbname') or 'DATABASE'} TO {role}"
        elif self.row_security:
            grants = f"SELECT {schema}.grant_to('{role}')"
        else:
            grants = (
                f"GRANT USAGE ON SCHEMA {schema} TO {role}; "
                f"GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {schema} TO {role}"
            )
        return f"the role {role} lacks a grant; as the owner, run: {grants}"


def _is_an_answer(error: Exception) -> bool:
    """Whether the error is the server's answer to a statement, not a broken connection."""
    state: str | None = getattr(error, "sqlstate", None)
    return state is not None and not state.startswith(_CUT)
