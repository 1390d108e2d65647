"""Recognise the kind of a caller's connection, even inside wrappers.

This module never imports a driver to compare classes: a caller that holds a driver's object has imported it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import AbstractAsyncContextManager, AbstractContextManager, suppress
from importlib import import_module
from inspect import getattr_static
from typing import Any, cast

from onward.connections.drivers.sqlite import OTHER_LIBRARIES, require_standard_library
from onward.connections.run import AsyncConnection, Connection
from onward.errors import UnsupportedConnection, WrongDatabase
from onward.sql.catalogue import Database

# The path of each class, and the adapter for it.
_SYNC = {
    "sqlite3.Connection": "sqlite.SqliteConnection",
    "psycopg.Connection": "psycopg.PsycopgConnection",
    "sqlalchemy.Connection": "sqlalchemy.SqlAlchemyConnection",
    "sqlalchemy.orm.Session": "sqlalchemy.SqlAlchemyConnection",
    "sqlalchemy.orm.scoped_session": "sqlalchemy.SqlAlchemyConnection",
    "django.db.backends.base.base.BaseDatabaseWrapper": "django.django_connection",
    "django.utils.connection.ConnectionProxy": "django.django_connection",
}
_ASYNC = {
    "psycopg.AsyncConnection": "psycopg.AsyncPsycopgConnection",
    "asyncpg.Connection": "asyncpg.AsyncpgConnection",
    "sqlalchemy.ext.asyncio.AsyncConnection": "sqlalchemy_async.AsyncSqlAlchemyConnection",
    "sqlalchemy.ext.asyncio.AsyncSession": "sqlalchemy_async.AsyncSqlAlchemyConnection",
    "sqlalchemy.ext.asyncio.async_scoped_session": "sqlalchemy_async.AsyncSqlAlchemyConnection",
    "onward.connections.drivers.sqlite_async.AsyncSqlite": "sqlite_async.AsyncSqliteConnection",
}

_ACCEPTED = (
    "Client.within() takes a sqlite3 or psycopg 3 connection, a SQLAlchemy Connection, Session or "
    "scoped_session, or a Django connection; AsyncClient.within() takes an async psycopg 3 connection, an "
    "asyncpg connection, or a SQLAlchemy AsyncConnection, AsyncSession or async_scoped_session"
)
_POOL = "is a pool; take a connection out of it: `{}`"
_ENGINE = "is an engine; connect it: `{} engine.begin() as connection:`"
_MAKER = "makes sessions; open one: `{} maker.begin() as session:`"
_CURSOR = "is a cursor; pass its connection"
_INSTEAD = {
    "psycopg_pool.ConnectionPool": _POOL.format("with pool.connection() as connection:"),
    "psycopg_pool.AsyncConnectionPool": _POOL.format("async with pool.connection() as connection:"),
    "asyncpg.Pool": _POOL.format("async with pool.acquire() as connection, connection.transaction():"),
    "sqlalchemy.Engine": _ENGINE.format("with"),
    "sqlalchemy.ext.asyncio.AsyncEngine": _ENGINE.format("async with"),
    "sqlalchemy.orm.sessionmaker": _MAKER.format("with"),
    "sqlalchemy.ext.asyncio.async_sessionmaker": _MAKER.format("async with"),
    "django.db.ConnectionHandler": "holds connections; choose one: `connections['default']`",
    "sqlite3.Cursor": _CURSOR,
    "psycopg.Cursor": _CURSOR,
    "psycopg.AsyncCursor": _CURSOR,
    "django.db.backends.utils.CursorWrapper": _CURSOR,
    "aiosqlite.Connection": "is taken through SQLAlchemy only: create_async_engine('sqlite+aiosqlite:...')",
    "aiosqlite.Cursor": _CURSOR,
    "psycopg2.extensions.connection": "is taken through SQLAlchemy or Django only; connect with psycopg 3",
    "psycopg2.extensions.cursor": _CURSOR,
}

# Attributes in which tracers, pools and transactions keep the connection that they wrap; the driver's own
# connection comes before an adapted one.
_INNER = (
    "__wrapped__",
    "_wrapped",
    "driver_connection",
    "dbapi_connection",
    "_connection",
    "connection",
    "session",
)
_DEEPEST = 8

_KNOWN = {**_SYNC, **_ASYNC, **_INSTEAD}


_IS_ASYNC = "is async; give it to AsyncClient.within(), or to `async with ctx.transaction(…)`"
_IS_SYNC = "is sync; give it to Client.within(), or to `with ctx.transaction(…)`"


def adapt(connection: object, database: Database, prefix: str) -> Connection:
    """Join the transaction open on a caller's sync connection; run no statement yet."""
    adapted = _adapted(connection, _SYNC, prefix, _IS_ASYNC)
    return cast("Connection", _checked(adapted, database))


def adapt_async(connection: object, database: Database, prefix: str) -> AsyncConnection:
    """Join the transaction open on a caller's async connection; run no statement yet."""
    adapted = _adapted(connection, _ASYNC, prefix, _IS_SYNC)
    return cast("AsyncConnection", _checked(adapted, database))


def begin(connection: object, database: Database, prefix: str) -> AbstractContextManager[object]:
    """Return a transaction on a caller's idle sync connection.

    It commits at its end, and rolls back on an error.
    """
    adapted = _adapted(connection, _SYNC, prefix, _IS_ASYNC)
    check_database(adapted, database)
    return cast("AbstractContextManager[object]", adapted.transaction())


def begin_async(connection: object, database: Database, prefix: str) -> AbstractAsyncContextManager[object]:
    """Return a transaction on a caller's idle async connection.

    It commits at its end, and rolls back on an error.
    """
    adapted = _adapted(connection, _ASYNC, prefix, _IS_SYNC)
    check_database(adapted, database)
    return cast("AbstractAsyncContextManager[object]", adapted.transaction())


def check_database(connection: Connection | AsyncConnection, wanted: Database) -> None:
    """Raise WrongDatabase if a connection leads to another kind of database than the client's store."""
    if connection.database != wanted:
        names = {"sqlite": "SQLite", "postgres": "PostgreSQL"}
        raise WrongDatabase(
            f"this connection leads to {names[connection.database]}, the client's store is {names[wanted]}; "
            "give a connection to the store's own database, or a client whose store is where this one leads"
        )


def _checked(adapted: Any, database: Database) -> object:
    check_database(adapted, database)
    adapted.require_transaction()
    return adapted


def _adapted(connection: object, kinds: Mapping[str, str], prefix: str, otherwise: str) -> Any:
    layer, path = _recognise(connection)
    if path in kinds:
        module, _, name = kinds[path].partition(".")
        adapter = getattr(import_module(f"onward.connections.drivers.{module}"), name)
        return adapter(_genuine(layer, _class(path)), prefix)
    name = f"{type(connection).__module__}.{type(connection).__qualname__}"
    raise UnsupportedConnection(f"{name} {_INSTEAD.get(path, otherwise)}")


def _recognise(connection: object) -> tuple[object, str]:
    """Return the outermost layer of a known class, and its path; only that layer uses the deeper ones."""
    for layer in _layers(connection):
        if path := next((path for path in _KNOWN if isinstance(layer, _class(path))), None):
            return layer, path
        if not OTHER_LIBRARIES.isdisjoint(kind.__module__.partition(".")[0] for kind in type(layer).__mro__):
            require_standard_library(layer)
    name = f"{type(connection).__module__}.{type(connection).__qualname__}"
    raise UnsupportedConnection(f"{name} is not a connection that Onward knows; {_ACCEPTED}")


def _layers(connection: object) -> Iterator[object]:
    """Yield an object, then the connection that it wraps, then the connection that this one wraps, …."""
    layer: object | None = connection
    for _ in range(_DEEPEST):
        if layer is None:
            return
        yield layer
        found = (_inner(layer, name) for name in _INNER)
        layer = next((inner for inner in found if inner is not None), None)


def _inner(layer: object, name: str) -> object | None:
    # Static first: a proxy that forwards every name would show attributes of its connection as its own.
    if getattr_static(layer, name, None) is None:
        return None
    with suppress(Exception):
        return cast("object", getattr(layer, name))
    return None


def _class(path: str) -> Any:
    """Return a class if its module has been imported, else (), of which no object is an instance."""
    module, _, name = path.rpartition(".")
    return getattr(sys.modules.get(module), name, ())


def _genuine(layer: Any, expected: type) -> object:
    """Return the object behind a proxy with `__wrapped__`: driver code uses more than a proxy forwards."""
    while expected not in type(layer).__mro__:
        inner = getattr(layer, "__wrapped__", None)
        if not isinstance(inner, expected):
            break
        layer = inner
    return layer
