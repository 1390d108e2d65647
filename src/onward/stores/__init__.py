"""Open the database of Onward as a store; the URL chooses the kind of database."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol, TypeVar
from urllib.parse import unquote, urlsplit

from onward.core.policy.application import schema_of
from onward.core.upkeep.maintenance import Plan
from onward.errors import InvalidSetting, MissingExtra
from onward.operations.statement import Operation
from onward.sql.catalogue import Database
from onward.stores.sqlite.sqlite_store import AsyncSqliteStore, SqliteStore, check_no_row_security
from onward.stores.wakeups import SqliteWakeups, Wakeups

__all__ = ["AsyncStore", "Store", "chosen_name", "open_async_store", "open_store", "open_wakeups"]

DEFAULT_URL = "sqlite:///onward.db"

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
    url, schema = _chosen(url), _schema(schema)
    if path := _sqlite_path(url):
        check_no_row_security(enable=row_security)
        return SqliteStore(path, prefix=f"{schema}_")
    _require_psycopg()
    from onward.stores.postgres.sync.postgres_store import PostgresStore

    return PostgresStore(url, schema=schema, steady=steady, row_security=row_security)


def open_async_store(
    url: str | None = None, *, schema: str | None = None, steady: bool = False, row_security: bool = False
) -> AsyncStore:
    """Open the database of `url`, of ONWARD_URL, or ./onward.db for async callers; connect on first use."""
    url, schema = _chosen(url), _schema(schema)
    if path := _sqlite_path(url):
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
    """Return the name of the application that the environment gives, if any."""
    return os.environ.get("ONWARD_NAME") or None


def _schema(chosen: str | None) -> str:
    return schema_of(chosen_name()) if chosen is None else chosen


def _chosen(url: str | None) -> str:
    if url is not None and (not isinstance(url, str) or not url):
        raise InvalidSetting(f"url is {url!r}; give sqlite:///file.db or postgresql://…, or leave it out")
    return url or os.environ.get("ONWARD_URL") or DEFAULT_URL


def _sqlite_path(url: str) -> Path | None:
    """Return the file that a URL names, or None if it names a PostgreSQL database."""
    try:
        parts = urlsplit(url)
    except ValueError as error:
        raise InvalidSetting(f"url {_masked(url)!r}: {error}") from None
    if parts.scheme in {"postgresql", "postgres"}:
        return None
    if parts.scheme.startswith("postgresql+"):
        raise InvalidSetting(
            f"url {_masked(url)!r} names an SQLAlchemy driver; remove +… and give postgresql://…"
        )
    if parts.scheme == "sqlite" and (parts.query or parts.fragment):
        raise InvalidSetting(
            f"url {_masked(url)!r} has options after the file name, but SQLite URLs take none; "
            "remove ?… and #…"
        )
    if parts.scheme != "sqlite" or parts.netloc:
        raise InvalidSetting(
            f"url {_masked(url)!r}: give sqlite:///file.db, sqlite:////absolute/file.db or postgresql://…"
        )
    path = unquote(parts.path).removeprefix("/")
    if path in {"", ":memory:"}:
        raise InvalidSetting(
            f"url {url!r} names no file; jobs must outlive the process, so give sqlite:///file.db"
        )
    return Path(path)


def _masked(url: str) -> str:
    """Return a URL without its credentials and options; works on a URL that can't be parsed."""
    return re.sub(r"//.*@", "//***@", url, flags=re.DOTALL).partition("?")[0]


def _require_psycopg() -> None:
    try:
        import psycopg  # noqa: F401
    except ImportError as error:
        raise MissingExtra('PostgreSQL needs its driver: pip install "psycopg[binary]"') from error
