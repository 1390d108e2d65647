"""Connections and sessions of frameworks: SQLAlchemy, sync and async, and Django."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import closing
from typing import Any
from urllib.parse import urlsplit

import django
import django.db
from django.conf import settings
from sqlalchemy import create_engine, event
from sqlalchemy.ext.asyncio import (
    AsyncSession,
    async_scoped_session,
    async_sessionmaker,
    create_async_engine,
)
from sqlalchemy.orm import Session, scoped_session, sessionmaker
from sqlalchemy.pool import NullPool

from onward.sql.catalogue import Database
from tests.connections.caller import Address, Held, Kind, registering
from tests.connections.proxies import Forwarding

__all__ = ["FRAMEWORK_KINDS", "django_settings"]

FRAMEWORK_KINDS: list[Kind] = []
kind = registering(FRAMEWORK_KINDS)

settings.configure(
    USE_TZ=True,
    DATABASES={
        "default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"},
        "postgres": {"ENGINE": "django.db.backends.postgresql", "NAME": "postgres"},
    },
)
django.setup()


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
