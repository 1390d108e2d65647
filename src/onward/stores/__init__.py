"""Open the database of Onward as a store; the URL chooses the kind of database."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, Protocol, TypeVar

from onward.core.policy.application import schema_of
from onward.core.upkeep.maintenance import Plan
from onward.errors import InvalidSetting, MissingExtra
from onward.operations.statement import Operation
from onward.sql.catalogue import Database
from onward.stores.sqlite.sqlite_store import AsyncSqliteStore, SqliteStore, check_no_row_security
from onward.stores.urls import read_url
from onward.stores.wakeups import SqliteWakeups, Wakeups

__all__ = ["AsyncStore", "Store", "chosen_name", "open_async_store", "open_store", "open_wakeups"]

# On SQLite a worker writes hundreds of rows that no caller waits for, so it lets waiting writers go first.
_WORKERS_PATIENCE = 0.1

T = TypeVar("T")


class Store(Protocol):
    """A database that Onward opened, for sync callers."""

    database: Database
    prefix: str
    row_security: bool

    def run(
        self,
        make: Callable[[], Operation[T]],
        *,
        write: bool = True,
        atomic: bool = False,
        org_id: str | None = None,
    ) -> T:
        """Run an operation for a client of `org_id`; its writes are durable when this returns."""
        ...

    def plan(self) -> Plan:
        """Compare the schema with this code and return the pending migrations; change nothing."""
        ...

    def migrate(self) -> Plan:
        """Apply all pending migrations; return the plan as it was before."""
        ...

    def protect_orgs(self, *, enable: bool) -> None:
        """Turn row-level security on or off; with it, the database itself keeps the orgs apart."""
        ...

    def vacuum(self) -> bool:
        """Vacuum the table of live jobs if it holds many dead rows; return whether the vacuum ran."""
        ...

    def connect(self) -> Any:
        """Open a connection of the driver for the caller; the caller closes it."""
        ...

    def hang_up(self, seconds: float) -> None:
        """Abort operations that have waited for an answer for longer than `seconds`; safe from any thread."""
        ...

    def close(self) -> None:
        """Close all connections to the database."""
        ...


class AsyncStore(Protocol):
    """A database that Onward opened, for async callers."""

    database: Database
    prefix: str
    row_security: bool

    async def run(
        self,
        make: Callable[[], Operation[T]],
        *,
        write: bool = True,
        atomic: bool = False,
        org_id: str | None = None,
    ) -> T:
        """Run an operation for a client of `org_id`; its writes are durable when this returns."""
        ...

    async def plan(self) -> Plan:
        """Compare the schema with this code and return the pending migrations; change nothing."""
        ...

    async def migrate(self) -> Plan:
        """Apply all pending migrations; return the plan as it was before."""
        ...

    async def protect_orgs(self, *, enable: bool) -> None:
        """Turn row-level security on or off; with it, the database itself keeps the orgs apart."""
        ...

    async def vacuum(self) -> bool:
        """Vacuum the table of live jobs if it holds many dead rows; return whether the vacuum ran."""
        ...

    async def connect(self) -> Any:
        """Open a connection of the driver for the caller; the caller closes it."""
        ...

    def hang_up(self, seconds: float) -> None:
        """Abort operations that have waited for an answer for longer than `seconds`; safe from any thread."""
        ...

    async def close(self) -> None:
        """Close all connections to the database."""
        ...


def open_store(
    url: str | None = None, *, schema: str | None = None, steady: bool = False, row_security: bool = False
) -> Store:
    """Open the database of `url`, of ONWARD_URL, or ./onward.db; connect on first use.

    `schema` is the schema of the tables on PostgreSQL and the prefix of their names on SQLite; else that of
    the application that ONWARD_NAME names. A `steady` store is for a worker: statements that it repeats are
    planned once. With `row_security`, the store sets the org of each operation in PostgreSQL.
    """
    url, path = read_url(url)
    schema = _schema(schema)
    if path is not None:
        check_no_row_security(enable=row_security)
        return SqliteStore(path, prefix=f"{schema}_")
    _require_psycopg()
    from onward.stores.postgres.sync.postgres_store import PostgresStore

    return PostgresStore(url, schema=schema, steady=steady, row_security=row_security)


def open_async_store(
    url: str | None = None, *, schema: str | None = None, steady: bool = False, row_security: bool = False
) -> AsyncStore:
    """Open the database of `url`, of ONWARD_URL, or ./onward.db for async callers; connect on first use."""
    url, path = read_url(url)
    schema = _schema(schema)
    if path is not None:
        check_no_row_security(enable=row_security)
        return AsyncSqliteStore(path, prefix=f"{schema}_", patience=_WORKERS_PATIENCE if steady else 0.0)
    _require_psycopg()
    from onward.stores.postgres.pipelined import PipelinedStore
    from onward.stores.postgres.postgres_store import AsyncPostgresStore

    store = PipelinedStore if steady else AsyncPostgresStore
    return store(url, schema=schema, steady=steady, row_security=row_security)


def open_wakeups(store: AsyncStore) -> Wakeups:
    """Return a source of wake-ups that listens for new work in a store."""
    if isinstance(store, AsyncSqliteStore):
        return SqliteWakeups(store.file)
    from onward.stores.postgres.postgres_store import AsyncPostgresStore
    from onward.stores.postgres.postgres_wakeups import PostgresWakeups

    if not isinstance(store, AsyncPostgresStore):
        raise InvalidSetting(
            f"{type(store).__name__} is not an Onward store; open one with open_async_store()"
        )
    return PostgresWakeups(store.url, store.prefix.rstrip("."))


def chosen_name() -> str | None:
    """Return the name of the application that the environment gives, if any; raise if it is no name."""
    name = os.environ.get("ONWARD_NAME") or None
    schema_of(name, "ONWARD_NAME")
    return name


def _schema(chosen: str | None) -> str:
    return schema_of(chosen_name()) if chosen is None else chosen


def _require_psycopg() -> None:
    try:
        import psycopg  # noqa: F401
    except ImportError as error:
        raise MissingExtra('PostgreSQL needs its driver: pip install "psycopg[binary]"') from error
