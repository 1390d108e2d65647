"""Every kind of connection that a caller may hand in: how it is opened, begun, committed and rolled back."""

from __future__ import annotations

import asyncio
import json
import sqlite3
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, closing, contextmanager
from dataclasses import dataclass, field
from inspect import isasyncgenfunction
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

import asyncpg
import django
import django.db
import psycopg
from django.conf import settings
from psycopg.rows import dict_row
from sqlalchemy import create_engine, event
from sqlalchemy.ext.asyncio import (
    AsyncSession,
    async_scoped_session,
    async_sessionmaker,
    create_async_engine,
)
from sqlalchemy.orm import Session, scoped_session, sessionmaker
from sqlalchemy.pool import NullPool

from onward.connections import AsyncConnection, Connection, adapt, adapt_async, run, run_async
from onward.operations.statement import Operation
from onward.sql.catalogue import Database

__all__ = ["KINDS", "PREFIX", "Address", "Caller", "Forwarding", "Holding", "Kind", "Masked", "open_caller"]

T = TypeVar("T")

PREFIX: dict[Database, str] = {"sqlite": "onward_", "postgres": "onward."}

settings.configure(
    USE_TZ=True,
    DATABASES={
        "default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"},
        "postgres": {"ENGINE": "django.db.backends.postgresql", "NAME": "postgres"},
    },
)
django.setup()


@dataclass(frozen=True)
class Address:
    """Where the two databases are."""

    path: Path
    url: str

    def sqlalchemy(self, driver: str) -> str:
        return (
            f"sqlite+{driver}:///{self.path}"
            if "sqlite" in driver
            else self.url.replace("postgresql", f"postgresql+{driver}")
        )


def nothing() -> None:
    """Begin a transaction where the driver does so by itself."""


@dataclass
class Held:
    """A connection in the caller's hands, with what only the caller may do to it."""

    connection: Any
    commit: Callable[[], Any]
    rollback: Callable[[], Any]
    begin: Callable[[], Any] = nothing


@dataclass(frozen=True)
class Kind:
    """A way to open one kind of connection to one of the databases."""

    name: str
    database: Database
    open: Callable[[Address], Any]
    is_async: bool


KINDS: list[Kind] = []


def kind(name: str, database: Database) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register an opener: a generator that yields what is held and closes it after."""

    def register(opener: Callable[..., Any]) -> Callable[..., Any]:
        KINDS.append(Kind(name, database, opener, isasyncgenfunction(opener)))
        return opener

    return register


@dataclass
class Caller:
    """The caller of Onward, at work in a transaction of its own."""

    kind: Kind
    held: Held
    await_: Callable[[Any], Any]
    adapted: Any = field(init=False, default=None)

    def begin(self) -> None:
        self._do(self.held.begin)
        self.adapted = self.join()

    def join(self) -> Connection | AsyncConnection:
        """Give what `within()` works on."""
        join = adapt_async if self.kind.is_async else adapt
        return join(self.held.connection, self.kind.database, PREFIX[self.kind.database])

    def go(self, operation: Operation[T]) -> T:
        """Run one operation inside the caller's transaction."""
        if self.kind.is_async:
            result: T = self.await_(run_async(operation, self.adapted))
            return result
        return run(operation, self.adapted)

    def commit(self) -> None:
        self._do(self.held.commit)

    def rollback(self) -> None:
        self._do(self.held.rollback)

    def _do(self, action: Callable[[], Any]) -> None:
        result = action()
        if asyncio.iscoroutine(result):
            self.await_(result)


@contextmanager
def open_caller(kind: Kind, address: Address) -> Iterator[Caller]:
    """Open a caller's connection and close it; an async one gets a loop of its own."""
    if not kind.is_async:
        with contextmanager(kind.open)(address) as held:
            yield Caller(kind, held, lambda value: value)
        return
    with asyncio.Runner() as runner:
        manager = asynccontextmanager(kind.open)(address)
        held = runner.run(manager.__aenter__())
        try:
            yield Caller(kind, held, runner.run)
        finally:
            runner.run(manager.__aexit__(None, None, None))


# Proxies, as tracers and pools make them.


class Holding:
    """Keeps the connection where a name says so, and forwards what it has not itself."""

    def __init__(self, inner: Any) -> None:
        self._connection = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)


class Forwarding:
    """Pretends to be of the class of what it wraps, as `wrapt.ObjectProxy` does."""

    def __init__(self, inner: Any) -> None:
        self.__wrapped__ = inner

    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        return self.__wrapped__.__class__

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__wrapped__, name)


class Masked:
    """Pretends as well, but tells nobody what it wraps."""

    def __init__(self, inner: Any) -> None:
        self.__inner = inner

    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        return self.__inner.__class__

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__inner, name)


# The standard library.


class SubclassedSqlite(sqlite3.Connection):
    """What an application may make of it."""


def dictionary(cursor: Any, row: Any) -> dict[str, Any]:
    return {column[0]: value for column, value in zip(cursor.description, row, strict=True)}


@kind("sqlite3", "sqlite")
def plain_sqlite(address: Address) -> Iterator[Held]:
    with closing(sqlite3.connect(address.path)) as connection:
        yield Held(connection, connection.commit, connection.rollback)


@kind("sqlite3 subclass with dict rows and bytes for text", "sqlite")
def subclassed_sqlite(address: Address) -> Iterator[Held]:
    with closing(sqlite3.connect(address.path, factory=SubclassedSqlite)) as connection:
        connection.row_factory, connection.text_factory = dictionary, bytes
        yield Held(connection, connection.commit, connection.rollback)
        assert connection.execute("SELECT 'x' AS x").fetchone() == {"x": b"x"}


@kind("sqlite3 in autocommit mode after BEGIN", "sqlite")
def begun_sqlite(address: Address) -> Iterator[Held]:
    with closing(sqlite3.connect(address.path, isolation_level=None)) as connection:
        yield Held(
            connection, connection.commit, connection.rollback, lambda: connection.execute("BEGIN IMMEDIATE")
        )


if sys.version_info >= (3, 12):

    @kind("sqlite3 with autocommit=False", "sqlite")
    def modern_sqlite(address: Address) -> Iterator[Held]:
        with closing(sqlite3.connect(address.path, autocommit=False)) as connection:
            yield Held(connection, connection.commit, connection.rollback)


def wrapped_sqlite(wrap: Callable[[Any], Any]) -> Callable[[Address], Iterator[Held]]:
    def opened(address: Address) -> Iterator[Held]:
        with closing(sqlite3.connect(address.path)) as connection:
            yield Held(wrap(connection), connection.commit, connection.rollback)

    return opened


kind("sqlite3 held by a proxy", "sqlite")(wrapped_sqlite(Holding))
kind("sqlite3 behind a forwarding proxy", "sqlite")(wrapped_sqlite(Forwarding))
kind("sqlite3 behind two proxies", "sqlite")(wrapped_sqlite(lambda inner: Holding(Forwarding(inner))))
kind("sqlite3 behind a mask", "sqlite")(wrapped_sqlite(Masked))


# psycopg.


class SubclassedPsycopg(psycopg.Connection[Any]):
    """What an application may make of it."""


@kind("psycopg", "postgres")
def plain_psycopg(address: Address) -> Iterator[Held]:
    with closing(psycopg.connect(address.url)) as connection:
        yield Held(connection, connection.commit, connection.rollback)


@kind("psycopg subclass with dict rows and client-side cursors", "postgres")
def subclassed_psycopg(address: Address) -> Iterator[Held]:
    with closing(
        SubclassedPsycopg.connect(address.url, row_factory=dict_row, cursor_factory=psycopg.ClientCursor)
    ) as connection:
        yield Held(connection, connection.commit, connection.rollback)


@kind("psycopg in autocommit mode after BEGIN", "postgres")
def begun_psycopg(address: Address) -> Iterator[Held]:
    with closing(psycopg.connect(address.url, autocommit=True)) as connection:
        yield Held(connection, connection.commit, connection.rollback, lambda: connection.execute("BEGIN"))


def wrapped_psycopg(wrap: Callable[[Any], Any]) -> Callable[[Address], Iterator[Held]]:
    def opened(address: Address) -> Iterator[Held]:
        with closing(psycopg.connect(address.url)) as connection:
            yield Held(wrap(connection), connection.commit, connection.rollback)

    return opened


kind("psycopg held by a proxy", "postgres")(wrapped_psycopg(Holding))
kind("psycopg behind a forwarding proxy", "postgres")(wrapped_psycopg(Forwarding))
kind("psycopg behind a mask", "postgres")(wrapped_psycopg(Masked))


@kind("async psycopg", "postgres")
async def async_psycopg(address: Address) -> AsyncIterator[Held]:
    connection = await psycopg.AsyncConnection.connect(address.url)
    async with connection:
        yield Held(connection, connection.commit, connection.rollback)


@kind("async psycopg behind a mask", "postgres")
async def masked_async_psycopg(address: Address) -> AsyncIterator[Held]:
    connection = await psycopg.AsyncConnection.connect(address.url, row_factory=dict_row)
    async with connection:
        yield Held(Masked(connection), connection.commit, connection.rollback)


# asyncpg.


class SubclassedRecord(asyncpg.Record):  # type: ignore[misc]
    """What an application may make of rows."""

    def __iter__(self) -> Any:
        return iter(self.keys())


def held_asyncpg(connection: Any, given: Any = None) -> Held:
    open_: list[Any] = []

    async def begin() -> None:
        open_.append(connection.transaction())
        await open_[-1].start()

    return Held(given or connection, lambda: open_.pop().commit(), lambda: open_.pop().rollback(), begin)


@kind("asyncpg", "postgres")
async def plain_asyncpg(address: Address) -> AsyncIterator[Held]:
    connection = await asyncpg.connect(address.url)
    yield held_asyncpg(connection)
    await connection.close()


@kind("asyncpg held by a proxy", "postgres")
async def wrapped_asyncpg(address: Address) -> AsyncIterator[Held]:
    connection = await asyncpg.connect(address.url)
    yield held_asyncpg(connection, Holding(connection))
    await connection.close()


@kind("asyncpg with foreign codecs and records", "postgres")
async def codec_asyncpg(address: Address) -> AsyncIterator[Held]:
    connection = await asyncpg.connect(address.url, record_class=SubclassedRecord)
    for name in ("json", "jsonb"):
        await connection.set_type_codec(name, encoder=json.dumps, decoder=json.loads, schema="pg_catalog")
    await connection.set_type_codec("uuid", encoder=repr, decoder=repr, schema="pg_catalog")
    yield held_asyncpg(connection)
    await connection.close()


@kind("asyncpg from a pool", "postgres")
async def pooled_asyncpg(address: Address) -> AsyncIterator[Held]:
    async with (
        asyncpg.create_pool(address.url, min_size=1, max_size=1) as pool,
        pool.acquire() as connection,
    ):
        yield held_asyncpg(connection)


# SQLAlchemy.


def send_begin(engine: Any) -> None:
    """Take SQLite's transactions into SQLAlchemy's own hands, by the recipe of its manual."""
    event.listen(engine, "connect", lambda raw, _: setattr(raw, "isolation_level", None))
    event.listen(engine, "begin", lambda connection: connection.exec_driver_sql("BEGIN"))


def sqlalchemy_kinds(driver: str, database: Database) -> None:
    def engine(address: Address) -> Any:
        return create_engine(address.sqlalchemy(driver), poolclass=NullPool)

    @kind(f"SQLAlchemy Connection on {driver}", database)
    def connection(address: Address) -> Iterator[Held]:
        with engine(address).connect() as connection:
            yield Held(connection, connection.commit, connection.rollback)

    @kind(f"SQLAlchemy Session on {driver}", database)
    def session(address: Address) -> Iterator[Held]:
        with Session(engine(address)) as session:
            yield Held(session, session.commit, session.rollback)

    @kind(f"SQLAlchemy scoped_session on {driver}", database)
    def scoped(address: Address) -> Iterator[Held]:
        session = scoped_session(sessionmaker(engine(address)))
        yield Held(session, session.commit, session.rollback)
        session.remove()

    @kind(f"SQLAlchemy raw_connection on {driver}", database)
    def raw(address: Address) -> Iterator[Held]:
        with closing(engine(address).raw_connection()) as connection:
            yield Held(connection, connection.commit, connection.rollback)

    @kind(f"SQLAlchemy Connection behind a forwarding proxy on {driver}", database)
    def forwarding(address: Address) -> Iterator[Held]:
        with engine(address).connect() as connection:
            yield Held(Forwarding(connection), connection.commit, connection.rollback)


def async_sqlalchemy_kinds(driver: str, database: Database) -> None:
    def engine(address: Address) -> Any:
        return create_async_engine(address.sqlalchemy(driver), poolclass=NullPool)

    @kind(f"SQLAlchemy AsyncConnection on {driver}", database)
    async def connection(address: Address) -> AsyncIterator[Held]:
        async with engine(address).connect() as connection:
            yield Held(connection, connection.commit, connection.rollback)

    @kind(f"SQLAlchemy AsyncSession on {driver}", database)
    async def session(address: Address) -> AsyncIterator[Held]:
        async with AsyncSession(engine(address)) as session:
            yield Held(session, session.commit, session.rollback)

    @kind(f"SQLAlchemy async_scoped_session on {driver}", database)
    async def scoped(address: Address) -> AsyncIterator[Held]:
        session = async_scoped_session(async_sessionmaker(engine(address)), scopefunc=lambda: 1)
        yield Held(session, session.commit, session.rollback)
        await session.remove()


sqlalchemy_kinds("pysqlite", "sqlite")
sqlalchemy_kinds("psycopg", "postgres")
async_sqlalchemy_kinds("aiosqlite", "sqlite")
async_sqlalchemy_kinds("psycopg", "postgres")
async_sqlalchemy_kinds("asyncpg", "postgres")


@kind("SQLAlchemy Connection on pysqlite that sends BEGIN", "sqlite")
def sqlalchemy_begin(address: Address) -> Iterator[Held]:
    engine = create_engine(address.sqlalchemy("pysqlite"), poolclass=NullPool)
    send_begin(engine)
    with engine.connect() as connection:
        yield Held(connection, connection.commit, connection.rollback)


@kind("SQLAlchemy AsyncConnection on aiosqlite that sends BEGIN", "sqlite")
async def async_sqlalchemy_begin(address: Address) -> AsyncIterator[Held]:
    engine = create_async_engine(address.sqlalchemy("aiosqlite"), poolclass=NullPool)
    send_begin(engine.sync_engine)
    async with engine.connect() as connection:
        yield Held(connection, connection.commit, connection.rollback)


# Django.


def held_django(connection: Any, alias: str) -> Held:
    blocks: list[Any] = []

    def begin() -> None:
        blocks.append(django.db.transaction.atomic(using=alias))
        blocks[-1].__enter__()

    def commit() -> None:
        blocks.pop().__exit__(None, None, None)

    def rollback() -> None:
        django.db.transaction.set_rollback(rollback=True, using=alias)
        commit()

    return Held(connection, commit, rollback, begin)


def django_settings(address: Address, alias: str) -> Any:
    """Lead one of Django's connections to the database of this test."""
    wrapper = django.db.connections[alias]
    parts = urlsplit(address.url)
    wrapper.settings_dict |= (
        {"NAME": str(address.path)}
        if alias == "default"
        else {
            "NAME": parts.path[1:],
            "USER": parts.username,
            "PASSWORD": parts.password or "",
            "HOST": parts.hostname,
            "PORT": parts.port,
        }
    )
    return wrapper


@kind("django.db.connection", "sqlite")
def django_sqlite(address: Address) -> Iterator[Held]:
    with closing(django_settings(address, "default")):
        yield held_django(django.db.connection, "default")


@kind("Django's connections[alias] on SQLite", "sqlite")
def django_sqlite_by_alias(address: Address) -> Iterator[Held]:
    with closing(django_settings(address, "default")) as wrapper:
        yield held_django(wrapper, "default")


@kind("Django's connections[alias] on PostgreSQL", "postgres")
def django_postgres(address: Address) -> Iterator[Held]:
    with closing(django_settings(address, "postgres")) as wrapper:
        yield held_django(wrapper, "postgres")
