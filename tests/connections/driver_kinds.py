"""Connections of the drivers themselves: sqlite3, psycopg and asyncpg, as they are or dressed up."""

from __future__ import annotations

import json
import sqlite3
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import closing
from typing import Any

import asyncpg
import psycopg
from psycopg.rows import dict_row

from tests.connections.caller import Address, Held, Kind, registering
from tests.connections.proxies import Forwarding, Holding, Masked

__all__ = ["DRIVER_KINDS"]

DRIVER_KINDS: list[Kind] = []
kind = registering(DRIVER_KINDS)


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
