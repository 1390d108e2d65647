# Generated from src/onward/stores/postgres_async.py by tools/make_sync.py. Edit that file instead.
"""A PostgreSQL database as a store: a pool of connections on which each operation is one round trip."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeVar

import psycopg
from psycopg import errors

from onward.connections.direct import Direct
from onward.connections.psycopg import PsycopgConnection
from onward.connections.running import one_by_one, run
from onward.errors import NotAllowed, SchemaMissing, StorageFull, StoreBusy, StoreClosed, StoreUnreachable
from onward.operations.confined import set_org
from onward.operations.statement import Operation
from onward.sql.catalogue import Database
from onward.stores.migrations import Migration, Plan, bundled, check_prefix, plan
from onward.stores.pool import Pool, Pooled

__all__ = ["TROUBLE", "PostgresStore"]

T = TypeVar("T")

_TRIES = 4
# Connection exceptions, an operator or a crash that ends sessions, a server demoted, or out of means.
_CUT = ("08", "57P", "25006", "53", "58")
_MIGRATION_LOCK_TRIES = 30
_LONGEST_CONNECT = 10
_CHECKS_CLIENTS = 140_000
# A vacuum reads the indexes whole, so what is many grows with the table.
_MANY_DEAD_ROWS = """
SELECT pg_stat_get_dead_tuples(live) > greatest(20000, pg_stat_get_live_tuples(live) / 10)
FROM to_regclass(%s) AS live
"""
# Which process it is, and whether it lets us write to its log: to do so is how one waits for the disk.
_WHO_ANSWERS = """
SELECT pg_backend_pid(), bool_and(has_function_privilege(oid, 'EXECUTE'))
FROM pg_proc
WHERE proname = 'pg_logical_emit_message'
"""
# For who runs a few statements over and over: each is planned once, in the one way that is right for tables
# of any size. To plan a claim takes as long as to claim a hundred jobs.
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
# Without them a connection whose other end vanished would be waited on for hours.
_ALIVE = {"keepalives_idle": 10, "keepalives_interval": 3, "keepalives_count": 3, "tcp_user_timeout": 20_000}


class PostgresStore:
    """Runs operations on pooled connections of its own; opens on first use."""

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
    ) -> None:
        self.url = url
        self.row_security = row_security
        self._steady = steady
        self.prefix = check_prefix("postgres", f"{schema}.")
        self.pooler: bool | None = None
        self._reaches_disk = False
        self._connecting: dict[str, Any] = {"autocommit": True, "application_name": "onward"}
        defaults = {"connect_timeout": max(2, min(int(timeout), _LONGEST_CONNECT)), **_ALIVE}
        self._connecting |= {name: value for name, value in defaults.items() if name not in url}
        self.pool = Pool(self._connect, size=pool_size, timeout=timeout)
        self._checked = False
        self._process = os.getpid()
        self._closed = False

    def run(
        self,
        make: Callable[[], Operation[T]],
        *,
        write: bool = True,
        atomic: bool = False,
        org_id: str | None = None,
    ) -> T:
        """Run an operation; one that met a deadlock was rolled back whole and is tried again."""
        for attempt in range(1, _TRIES + 1):
            try:
                return self._try(make, atomic=atomic, org_id=org_id)
            except StoreUnreachable:
                # A question is asked again; whether a write was done before the break, nobody knows.
                if write or attempt > 1:
                    raise
            except (errors.DeadlockDetected, errors.SerializationFailure) as error:
                if attempt == _TRIES:
                    raise StoreBusy(f"met others {_TRIES} times, nothing was stored: {error}") from error
                time.sleep(random.uniform(0.001, 0.01) * attempt)  # noqa: S311
        raise AssertionError

    def _try(self, make: Callable[[], Operation[T]], *, atomic: bool, org_id: str | None) -> T:
        # Not as a context: together with the pool's own that was a tenth of an enqueue's cost.
        try:
            connection = self._take()
            try:
                if self.row_security:
                    return self._run_for_org(make(), connection, atomic=atomic, org_id=org_id)
                if atomic:
                    return self._run_atomic(make(), connection)
                return run(make(), self._adapted(connection))
            finally:
                self.pool.give(connection)
        except TROUBLE as error:
            self._explain(error)
            raise

    def _run_atomic(self, operation: Operation[T], connection: Pooled) -> T:
        several = one_by_one if self.pooler else PsycopgConnection.fetch_ahead
        with connection.transaction():
            return run(operation, self._adapted(connection), several)

    def _run_for_org(
        self, operation: Operation[T], connection: Pooled, *, atomic: bool, org_id: str | None
    ) -> T:
        """Run an operation on a connection whose policies show the rows of one org, or of none."""
        adapted = self._adapted(connection)
        if self.pooler:
            # The next transaction may be on another connection: only for this one.
            with connection.transaction():
                run(set_org(org_id), adapted)
                return run(operation, adapted)
        if connection.org_id != (org_id or ""):
            # Unknown meanwhile: whether it was set when the caller is cancelled, nobody knows.
            connection.org_id = None
            run(set_org(org_id, local=False), adapted)
            connection.org_id = org_id or ""
        if atomic:
            return self._run_atomic(operation, connection)
        return run(operation, adapted)

    def _adapted(self, connection: Pooled) -> PsycopgConnection:
        if connection.adapted is None:
            connection.adapted = PsycopgConnection(
                connection,
                self.prefix,
                direct=None if self.pooler else Direct(connection, early=self._reaches_disk),
                prepare=self._steady and not self.pooler,
            )
        return connection.adapted

    def plan(self) -> Plan:
        """Compare the schema with this code; changes nothing."""
        with self._connection() as connection:
            return plan("postgres", self.prefix, self._applied(connection))

    def migrate(self) -> Plan:
        """Bring the schema up to this code; of two migrators at once, one waits for the other."""
        before = self.plan()
        for step in bundled("postgres", self.prefix):
            self._changing(partial(self._apply, step))
        return before

    def protect_orgs(self, *, enable: bool) -> None:
        """Have PostgreSQL show every role but the owner only the rows of the org that it names."""
        self._changing(partial(self._protect, enable=enable))

    def _changing(self, change: Callable[[], None]) -> None:
        """Change the schema; never queue behind a long transaction: everyone else would queue behind us."""
        for attempt in range(_MIGRATION_LOCK_TRIES):
            try:
                return change()
            except StoreBusy as error:
                locked = isinstance(error.__cause__, errors.LockNotAvailable)
                if not locked or attempt == _MIGRATION_LOCK_TRIES - 1:
                    raise
                time.sleep(random.uniform(0.5, 1.5))  # noqa: S311
        raise AssertionError

    def vacuum(self) -> bool:
        """Clear the hot table of dead rows, if there are many: autovacuum comes by once a minute at best."""
        with self._connection() as connection:
            table = f"{self.prefix}live"
            cursor = connection.execute(_MANY_DEAD_ROWS, (table,))
            if cursor.fetchone() != (True,):
                return False
            self.pool.forget(connection)
            try:
                # Without truncation, which would lock out everyone else.
                connection.execute(f"VACUUM (SKIP_LOCKED, INDEX_CLEANUP ON, TRUNCATE OFF) {table}".encode())
            except errors.InsufficientPrivilege:
                return False
            return True

    def connect(self) -> psycopg.Connection[Any]:
        """Open a connection for a caller, who closes it; outside a transaction, in autocommit mode."""
        try:
            return psycopg.Connection.connect(self.url, **self._connecting)
        except TROUBLE as error:
            self._explain(error)
            raise

    def hang_up(self, seconds: float) -> None:
        """Break the connections of operations that take longer; they raise, the next ones connect anew."""
        self.pool.hang_up(seconds)

    def close(self) -> None:
        """Give the connections back to the database."""
        self._closed = True
        self.pool.close()

    def _apply(self, step: Migration) -> None:
        with self._connection() as connection, connection.transaction():
            connection.execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", (self.prefix,))
            if step.version in self._applied(connection):
                return
            connection.execute("SET LOCAL lock_timeout = '2s'")
            connection.execute(step.sql.encode())

    def _protect(self, *, enable: bool) -> None:
        with self._connection() as connection, connection.transaction():
            plan("postgres", self.prefix, self._applied(connection)).check()
            connection.execute("SET LOCAL lock_timeout = '2s'")
            query = f"SELECT {self.prefix}protect_orgs(%s)"
            connection.execute(query.encode(), (enable,))

    def _applied(self, connection: psycopg.Connection[Any]) -> set[int]:
        cursor = connection.execute("SELECT to_regclass(%s) IS NOT NULL", (f"{self.prefix}migrations",))
        if not (cursor.fetchone() or (False,))[0]:
            return set()
        query = f"SELECT version FROM {self.prefix}migrations"  # noqa: S608
        cursor = connection.execute(query.encode())
        return {version for (version,) in cursor.fetchall()}

    def _connect(self) -> Pooled:
        connection = Pooled.connect(self.url, **self._connecting)
        self.pool.note(connection)
        try:
            self._configure(connection)
        except BaseException:
            self.pool.forget(connection)
            connection.close()
            raise
        return connection

    def _configure(self, connection: Pooled) -> None:
        if self.pooler is None:
            # A pooler answers with a process id of its own; prepared plans would stay behind in it.
            process, self._reaches_disk = (connection.execute(_WHO_ANSWERS)).fetchone() or (
                0,
                False,
            )
            self.pooler = process != connection.info.backend_pid
        if self.pooler:
            connection.prepare_threshold = None
        elif connection.info.server_version >= _CHECKS_CLIENTS:
            # Else the statement of a worker that died would run on for minutes, and hold its locks.
            connection.execute("SET client_connection_check_interval = '5s'")
        if self._steady and not self.pooler:
            connection.execute(_STEADY)

    @contextmanager
    def _connection(self) -> Iterator[Pooled]:
        """Lend a connection to what may run before the schema is right."""
        try:
            connection = self._take(check=False)
            try:
                yield connection
            finally:
                self.pool.give(connection)
        except TROUBLE as error:
            self._explain(error)
            raise

    def _require_open(self) -> None:
        if os.getpid() != self._process:
            raise StoreClosed("this store was opened before a fork; open a new one in the child")
        if self._closed:
            raise StoreClosed("this store was closed; open a new one")

    def _take(self, use: str = "", *, check: bool = True) -> Pooled:
        self._require_open()
        connection = self.pool.take(use)
        if check and not self._checked:
            try:
                plan("postgres", self.prefix, self._applied(connection)).check()
                self._checked = True
            except BaseException:
                self.pool.give(connection)
                raise
        return connection

    def _drop(self) -> None:
        self.pool.drop()

    def _explain(self, error: Exception) -> None:
        """Raise an error of ours for what the driver raised, unless the driver's own says enough."""
        match error:
            case errors.UndefinedTable() | errors.InvalidSchemaName():
                raise SchemaMissing(
                    f"{error}; run onward migrate, or client.migrate()".replace("\n", " ")
                ) from error
            case errors.InsufficientPrivilege():
                raise NotAllowed(
                    f"PostgreSQL refused: {error}; "
                    "it is of another org than this client's, or the role lacks a grant"
                ) from error
            case errors.DiskFull():
                raise StorageFull(f"PostgreSQL has no space left, nothing was stored: {error}") from error
            case errors.QueryCanceled() | errors.LockNotAvailable():
                raise StoreBusy(f"PostgreSQL gave up on a statement, nothing was stored: {error}") from error
        if not _is_an_answer(error):
            # What cut this connection has cut its neighbours too: have them replaced before anyone takes one.
            self._drop()
            raise StoreUnreachable(
                f"PostgreSQL can't be reached, or the connection broke: {error}"
            ) from error


def _is_an_answer(error: Exception) -> bool:
    """Tell what the server said about a statement from what cut the connection."""
    state: str | None = getattr(error, "sqlstate", None)
    return state is not None and not state.startswith(_CUT)
