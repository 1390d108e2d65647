"""Databases that Onward opens itself; the URL chooses which."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol, TypeVar
from urllib.parse import unquote, urlsplit

from onward.errors import InvalidSetting, MissingExtra
from onward.operations.statement import Operation
from onward.sql.catalogue import Database
from onward.stores.migrations import Plan
from onward.stores.sqlite.sqlite_store import AsyncSqliteStore, SqliteStore, check_no_row_security
from onward.stores.wakeups import SqliteWakeups, Wakeups

__all__ = ["AsyncStore", "Store", "open_async_store", "open_store", "open_wakeups"]

DEFAULT_URL = "sqlite:///onward.db"

# On SQLite, what a worker writes by hundreds gives way to what somebody waits for.
_WORKERS_PATIENCE = 0.1

T = TypeVar("T")


class Store(Protocol):
    """A database that Onward opened."""

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
        """Run an operation, of a client of `org_id`; what it wrote is durable when this returns."""
        ...

    def plan(self) -> Plan:
        """Compare the schema with this code; changes nothing."""
        ...

    def migrate(self) -> Plan:
        """Bring the schema up to this code; gives what was to do before."""
        ...

    def protect_orgs(self, *, enable: bool) -> None:
        """Have the database itself keep the orgs apart, or no longer."""
        ...

    def vacuum(self) -> bool:
        """Clear the hot table of dead rows, if there are many and the database does not do it itself."""
        ...

    def connect(self) -> Any:
        """Open a connection of the driver's for a caller, who closes it."""
        ...

    def hang_up(self, seconds: float) -> None:
        """Break off operations that wait for an answer for longer; may be called from any thread."""
        ...

    def close(self) -> None:
        """Let go of the database."""
        ...


class AsyncStore(Protocol):
    """The same, awaited."""

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
        """Run an operation, of a client of `org_id`; what it wrote is durable when this returns."""
        ...

    async def plan(self) -> Plan:
        """Compare the schema with this code; changes nothing."""
        ...

    async def migrate(self) -> Plan:
        """Bring the schema up to this code; gives what was to do before."""
        ...

    async def protect_orgs(self, *, enable: bool) -> None:
        """Have the database itself keep the orgs apart, or no longer."""
        ...

    async def vacuum(self) -> bool:
        """Clear the hot table of dead rows, if there are many and the database does not do it itself."""
        ...

    async def connect(self) -> Any:
        """Open a connection of the driver's for a caller, who closes it."""
        ...

    def hang_up(self, seconds: float) -> None:
        """Break off operations that wait for an answer for longer; may be called from any thread."""
        ...

    async def close(self) -> None:
        """Let go of the database."""
        ...


def open_store(
    url: str | None = None, *, schema: str = "onward", steady: bool = False, row_security: bool = False
) -> Store:
    """Open the database of a URL, of ONWARD_URL, or ./onward.db; connects on first use.

    `schema` holds the tables on PostgreSQL; on SQLite it begins their names. A `steady` one is a worker's:
    what it asks over and over is planned once. `row_security` has PostgreSQL told for which org each
    operation is.
    """
    url = _chosen(url)
    if path := _sqlite_path(url):
        check_no_row_security(enable=row_security)
        return SqliteStore(path, prefix=f"{schema}_")
    _require_psycopg()
    from onward.stores.postgres.sync.postgres_store import PostgresStore

    return PostgresStore(url, schema=schema, steady=steady, row_security=row_security)


def open_async_store(
    url: str | None = None, *, schema: str = "onward", steady: bool = False, row_security: bool = False
) -> AsyncStore:
    """Open the database of a URL, of ONWARD_URL, or ./onward.db, for async callers."""
    url = _chosen(url)
    if path := _sqlite_path(url):
        check_no_row_security(enable=row_security)
        return AsyncSqliteStore(path, prefix=f"{schema}_", patience=_WORKERS_PATIENCE if steady else 0.0)
    _require_psycopg()
    from onward.stores.postgres.pipelined import PipelinedStore
    from onward.stores.postgres.postgres_store import AsyncPostgresStore

    store = PipelinedStore if steady else AsyncPostgresStore
    return store(url, schema=schema, steady=steady, row_security=row_security)


def open_wakeups(store: AsyncStore) -> Wakeups:
    """Listen for new work in a store."""
    if isinstance(store, AsyncSqliteStore):
        return SqliteWakeups(store.file)
    from onward.stores.postgres.postgres_store import AsyncPostgresStore
    from onward.stores.postgres.postgres_wakeups import PostgresWakeups

    if not isinstance(store, AsyncPostgresStore):
        raise InvalidSetting(
            f"{type(store).__name__} is no store of Onward's; open one with open_async_store()"
        )
    return PostgresWakeups(store.url, store.prefix.rstrip("."))


def _chosen(url: str | None) -> str:
    if url is not None and (not isinstance(url, str) or not url):
        raise InvalidSetting(f"url is {url!r}; give sqlite:///file.db or postgresql://…, or leave it out")
    return url or os.environ.get("ONWARD_URL") or DEFAULT_URL


def _sqlite_path(url: str) -> Path | None:
    """Give the file that a URL names; None if it names a PostgreSQL database."""
    try:
        parts = urlsplit(url)
    except ValueError as error:
        raise InvalidSetting(f"url {_masked(url)!r}: {error}") from None
    if parts.scheme in {"postgresql", "postgres"}:
        return None
    if parts.scheme.startswith("postgresql+"):
        raise InvalidSetting(
            f"url {_masked(url)!r} names a driver of SQLAlchemy's; drop +… and give postgresql://…"
        )
    if parts.scheme == "sqlite" and (parts.query or parts.fragment):
        raise InvalidSetting(
            f"url {_masked(url)!r} has options after the file, and there are none; drop ?… and #…"
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
    """Leave out what may be secret, also of a URL that is too broken to be taken apart."""
    return re.sub(r"//.*@", "//***@", url, flags=re.DOTALL).partition("?")[0]


def _require_psycopg() -> None:
    try:
        import psycopg  # noqa: F401
    except ImportError as error:
        raise MissingExtra('PostgreSQL needs its driver: pip install "psycopg[binary]"') from error
