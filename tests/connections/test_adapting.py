"""What `within()` says to whatever it is given: it joins a transaction, or tells what to do instead."""

from __future__ import annotations

import asyncio
import sqlite3
import subprocess
import sys
from contextlib import closing
from types import SimpleNamespace
from typing import Any

import aiosqlite
import asyncpg
import django.db
import psycopg
import psycopg_pool
import pytest
from sqlalchemy import Integer, create_engine
from sqlalchemy.exc import InvalidRequestError
from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker, create_async_engine
from sqlalchemy.orm import DeclarativeBase, Session, mapped_column, sessionmaker
from sqlalchemy.pool import NullPool

from onward.connections import adapt, adapt_async, require_tables, run, run_async
from onward.connections.drivers.sqlite import commits_by_itself
from onward.core.jobs.ids import IdMaker
from onward.core.jobs.job import NewJob
from onward.errors import SchemaMissing, TransactionNotOpen, UnsupportedConnection, WrongDatabase
from onward.operations.jobs.enqueue import enqueue
from onward.operations.jobs.inspect import count
from tests.connections.kinds import PREFIX, Address, Holding, django_settings

JOB_ID = IdMaker(lambda: 1, bytes).make()


def put() -> Any:
    return enqueue(NewJob(job_type="mail"), JOB_ID)


def join(connection: object, database: Any = "sqlite") -> Any:
    return adapt(connection, database, PREFIX[database])


def join_async(connection: object, database: Any = "postgres") -> Any:
    return adapt_async(connection, database, PREFIX[database])


# Connections that would commit each statement by themselves.


def test_sqlite3_in_autocommit_mode_is_refused_until_it_begins(address: Address, observer):
    with closing(sqlite3.connect(address.path, isolation_level=None)) as connection:
        with pytest.raises(TransactionNotOpen, match="BEGIN IMMEDIATE"):
            join(connection)
        connection.execute("BEGIN")
        run(put(), join(connection))
        connection.rollback()
    assert observer.rows("sqlite") == {}


def test_the_newer_autocommit_of_sqlite3_is_understood():
    legacy = SimpleNamespace(autocommit=-1, isolation_level="", in_transaction=False)
    modern = SimpleNamespace(autocommit=True, isolation_level="", in_transaction=False)
    assert not commits_by_itself(legacy)
    assert commits_by_itself(modern)
    assert not commits_by_itself(SimpleNamespace(autocommit=True, isolation_level="", in_transaction=True))
    assert not commits_by_itself(SimpleNamespace(autocommit=False, isolation_level=None, in_transaction=True))


def test_psycopg_in_autocommit_mode_is_refused_outside_a_transaction(address: Address, observer):
    with closing(psycopg.connect(address.url, autocommit=True)) as connection:
        with pytest.raises(TransactionNotOpen, match=r"connection\.transaction\(\)"):
            join(connection, "postgres")
        with connection.transaction(force_rollback=True):
            run(put(), join(connection, "postgres"))
    assert observer.rows("postgres") == {}


def test_async_psycopg_in_autocommit_mode_is_refused_outside_a_transaction(address: Address, observer):
    async def main() -> None:
        async with await psycopg.AsyncConnection.connect(address.url, autocommit=True) as connection:
            with pytest.raises(TransactionNotOpen, match="autocommit"):
                join_async(connection)
            async with connection.transaction(force_rollback=True) as transaction:
                await run_async(put(), join_async(transaction))

    asyncio.run(main())
    assert observer.rows("postgres") == {}


def test_asyncpg_is_refused_outside_a_transaction(address: Address, observer):
    async def main() -> None:
        connection = await asyncpg.connect(address.url)
        with pytest.raises(TransactionNotOpen, match=r"connection\.transaction\(\)"):
            join_async(connection)
        transaction = connection.transaction()
        await transaction.start()
        await run_async(put(), join_async(transaction))
        await transaction.rollback()
        await connection.close()

    asyncio.run(main())
    assert observer.rows("postgres") == {}


@pytest.mark.parametrize("alias", ["default", "postgres"])
def test_django_is_refused_outside_atomic(alias, address: Address):
    with (
        closing(django_settings(address, alias)) as wrapper,
        pytest.raises(TransactionNotOpen, match=rf"transaction\.atomic\(using='{alias}'\)"),
    ):
        join(wrapper, "sqlite" if alias == "default" else "postgres")


def test_django_without_autocommit_needs_no_atomic(address: Address, observer):
    with closing(django_settings(address, "default")) as wrapper:
        wrapper.set_autocommit(False)
        run(put(), join(wrapper))
        wrapper.rollback()
        wrapper.set_autocommit(True)
    assert observer.rows("sqlite") == {}


def test_a_broken_block_of_django_takes_no_job(address: Address):
    with closing(django_settings(address, "default")), django.db.transaction.atomic():
        django.db.transaction.set_rollback(True)
        with pytest.raises(django.db.transaction.TransactionManagementError):
            run(put(), join(django.db.connection))


@pytest.mark.parametrize("driver", ["pysqlite", "psycopg"])
@pytest.mark.parametrize("place", ["engine", "connection"])
def test_sqlalchemy_with_autocommit_is_refused_before_it_writes(driver, place, address: Address, observer):
    options = {"isolation_level": "AUTOCOMMIT"} if place == "engine" else {}
    engine = create_engine(address.sqlalchemy(driver), poolclass=NullPool, **options)
    database = "sqlite" if driver == "pysqlite" else "postgres"
    with engine.connect() as connection:
        if place == "connection":
            connection.execution_options(isolation_level="AUTOCOMMIT")
        for given in (connection, Session(bind=connection)):
            with pytest.raises(TransactionNotOpen, match="AUTOCOMMIT"):
                run(put(), join(given, database))
    assert observer.rows(database) == {}


@pytest.mark.parametrize("driver", ["aiosqlite", "psycopg", "asyncpg"])
def test_async_sqlalchemy_with_autocommit_is_refused_before_it_writes(driver, address: Address, observer):
    database = "sqlite" if driver == "aiosqlite" else "postgres"

    async def main() -> None:
        url = address.sqlalchemy(driver)
        engine = create_async_engine(url, poolclass=NullPool, isolation_level="AUTOCOMMIT")
        async with AsyncSession(engine) as session, engine.connect() as connection:
            for given in (session, connection):
                with pytest.raises(TransactionNotOpen, match="AUTOCOMMIT"):
                    await run_async(put(), join_async(given, database))

    asyncio.run(main())
    assert observer.rows(database) == {}


@pytest.mark.parametrize("driver", ["pysqlite", "psycopg"])
def test_joining_begins_nothing_in_sqlalchemy(driver, address: Address):
    database = "sqlite" if driver == "pysqlite" else "postgres"
    engine = create_engine(address.sqlalchemy(driver), poolclass=NullPool)
    with engine.connect() as connection, Session(engine) as session:
        joined = [join(connection, database), join(session, database)]
        with connection.begin(), session.begin():
            assert [run(count(), each).live for each in joined] == [{}, {}]


def test_a_session_that_waits_for_its_begin_speaks_for_itself(address: Address):
    engine = create_engine(address.sqlalchemy("pysqlite"), poolclass=NullPool)
    with Session(engine, autobegin=False) as session, pytest.raises(InvalidRequestError, match=r"begin\(\)"):
        run(put(), join(session))


def test_a_failed_transaction_speaks_for_itself(address: Address):
    with closing(psycopg.connect(address.url)) as connection:
        with pytest.raises(psycopg.errors.DivisionByZero):
            connection.execute("SELECT 1 / 0")
        with pytest.raises(psycopg.errors.InFailedSqlTransaction):
            run(put(), join(connection, "postgres"))


# Things that are no connection.


class Unknown:
    """Some object of the caller's."""


def test_an_unknown_object_is_named_and_told_what_is_accepted():
    for join_it in (join, join_async):
        with pytest.raises(UnsupportedConnection) as caught:
            join_it(Unknown())
        text = str(caught.value)
        assert isinstance(caught.value, TypeError)
        assert text.startswith(f"{__name__}.Unknown is not a connection")
        for name in (
            "sqlite3",
            "psycopg 3",
            "asyncpg",
            "SQLAlchemy",
            "AsyncSession",
            "scoped_session",
            "Django",
        ):
            assert name in text


def test_an_endless_chain_of_proxies_comes_to_an_end():
    endless = Unknown()
    endless._connection = endless  # type: ignore[attr-defined]
    with pytest.raises(UnsupportedConnection, match="Unknown"):
        join(endless)


def test_a_sync_client_sends_async_connections_to_the_other(address: Address):
    async def main() -> None:
        engine = create_async_engine(address.sqlalchemy("aiosqlite"), poolclass=NullPool)
        async with (
            asyncpg.create_pool(address.url, min_size=1, max_size=1) as pool,
            pool.acquire() as lent,
            await psycopg.AsyncConnection.connect(address.url) as psycopg_connection,
            AsyncSession(engine) as session,
            engine.connect() as connection,
        ):
            for given in (lent, psycopg_connection, session, connection, Holding(session)):
                with pytest.raises(UnsupportedConnection, match=r"is async; give it to AsyncClient\.within"):
                    join(given)

    asyncio.run(main())


def test_an_async_client_sends_sync_connections_to_the_other(address: Address):
    engine = create_engine(address.sqlalchemy("pysqlite"), poolclass=NullPool)
    with (
        closing(sqlite3.connect(address.path)) as plain,
        closing(psycopg.connect(address.url)) as psycopg_connection,
        Session(engine) as session,
        engine.connect() as connection,
    ):
        for given in (plain, psycopg_connection, session, connection, django.db.connection):
            with pytest.raises(UnsupportedConnection, match=r"is sync; give it to Client\.within"):
                join_async(given)


def test_a_pool_an_engine_and_a_maker_say_how_to_open_a_connection(address: Address):
    engine = create_engine(address.sqlalchemy("pysqlite"))
    async_engine = create_async_engine(address.sqlalchemy("aiosqlite"))
    with psycopg_pool.ConnectionPool(address.url, open=False) as pool:
        advice = {
            pool: "`with pool.connection() as connection:`",
            engine: "`with engine.begin() as connection:`",
            async_engine: "`async with engine.begin() as connection:`",
            sessionmaker(engine): "`with maker.begin() as session:`",
            async_sessionmaker(async_engine): "`async with maker.begin() as session:`",
            django.db.connections: "connections['default']",
        }
        for given, text in advice.items():
            for join_it in (join, join_async):
                with pytest.raises(UnsupportedConnection) as caught:
                    join_it(given)
                assert text in str(caught.value)


def test_an_async_pool_says_how_to_open_a_connection(address: Address):
    async def main() -> None:
        pool = psycopg_pool.AsyncConnectionPool(address.url, open=False)
        with pytest.raises(UnsupportedConnection, match=r"`async with pool\.connection\(\) as connection:`"):
            join_async(pool)
        async with asyncpg.create_pool(address.url, min_size=0) as asyncpg_pool:
            with pytest.raises(UnsupportedConnection, match=r"`async with pool\.acquire\(\) as connection"):
                join_async(asyncpg_pool)

    asyncio.run(main())


def test_a_cursor_says_to_pass_its_connection(address: Address):
    with (
        closing(sqlite3.connect(address.path)) as plain,
        closing(psycopg.connect(address.url)) as connection,
        closing(django_settings(address, "default")) as wrapper,
        wrapper.cursor() as django_cursor,
    ):
        for cursor in (plain.cursor(), connection.cursor(), django_cursor):
            for join_it in (join, join_async):
                with pytest.raises(UnsupportedConnection, match="is a cursor; pass its connection"):
                    join_it(cursor)


@pytest.mark.parametrize("module", ["apsw", "pysqlite3.dbapi2"])
def test_another_sqlite_library_is_refused_with_the_reason(module):
    foreign = type("Connection", (), {"__module__": module})
    with pytest.raises(UnsupportedConnection, match="break each other's file locks"):
        join(foreign())


def test_a_bare_aiosqlite_connection_is_sent_through_sqlalchemy():
    connection = aiosqlite.Connection(lambda: sqlite3.connect(":memory:"), 1)
    with pytest.raises(UnsupportedConnection, match="create_async_engine"):
        join_async(connection)


def test_another_driver_of_sqlalchemy_is_refused():
    engine = SimpleNamespace(
        dialect=SimpleNamespace(name="mysql", driver="pymysql"), url=create_engine("sqlite://").url
    )
    connection = Session()
    connection.get_bind = lambda: SimpleNamespace(engine=engine)  # type: ignore[method-assign, assignment, misc]
    with pytest.raises(
        UnsupportedConnection, match=r"uses mysql\+pymysql; connect with one of postgresql\+asyncpg"
    ):
        join(connection)


def test_a_session_with_a_database_for_each_model_asks_for_one(address: Address):
    class Base(DeclarativeBase):
        pass

    class Model(Base):
        __tablename__ = "model"
        id = mapped_column(Integer, primary_key=True)

    engine = create_engine(address.sqlalchemy("pysqlite"), poolclass=NullPool)
    with Session(binds={Model: engine}) as session:
        with pytest.raises(UnsupportedConnection, match="bind_arguments"):
            join(session)
        run(put(), join(session.connection(bind_arguments={"mapper": Model})))


def test_another_database_of_django_is_refused():
    from django.db.backends.dummy.base import DatabaseWrapper

    with pytest.raises(UnsupportedConnection, match="leads to unknown; give one to SQLite or PostgreSQL"):
        join(DatabaseWrapper({}))


# Connections that lead elsewhere.


def test_the_wrong_kind_of_database_is_named(address: Address):
    with (
        closing(sqlite3.connect(address.path, isolation_level=None)) as plain,
        closing(psycopg.connect(address.url, autocommit=True)) as connection,
    ):
        with pytest.raises(WrongDatabase, match="leads to SQLite, the client's store is PostgreSQL"):
            join(plain, "postgres")
        with pytest.raises(WrongDatabase, match="leads to PostgreSQL, the client's store is SQLite"):
            join(connection, "sqlite")


def test_missing_tables_are_told_and_leave_the_transaction_usable(address: Address, observer):
    with (
        closing(sqlite3.connect(address.path)) as plain,
        closing(psycopg.connect(address.url)) as connection,
    ):
        connection.execute("CREATE TEMP TABLE mine (x int)")
        for bound in (adapt(plain, "sqlite", "other_"), adapt(connection, "postgres", "other.")):
            for _ in range(2):
                with pytest.raises(SchemaMissing, match=r"client\.migrate") as caught:
                    run(require_tables(bound), bound)
                assert bound.prefix.rstrip(".") in str(caught.value)
        assert connection.execute("SELECT count(*) FROM mine").fetchone() == (0,)
        run(put(), join(connection, "postgres"))


def test_a_database_in_memory_is_always_asked():
    with closing(sqlite3.connect(":memory:")) as connection:
        bound = join(connection)
        with pytest.raises(SchemaMissing):
            run(require_tables(bound), bound)
        connection.execute("CREATE TABLE onward_live (id)")
        run(require_tables(bound), bound)
        connection.execute("DROP TABLE onward_live")
        with pytest.raises(SchemaMissing):
            run(require_tables(bound), bound)


def test_no_driver_is_imported_that_the_caller_does_not_use():
    code = """
import sqlite3, sys
from onward.connections import adapt
connection = sqlite3.connect(":memory:")
adapt(connection, "sqlite", "onward_")
try:
    adapt(object(), "sqlite", "onward_")
except TypeError:
    pass
connection.close()
print(sorted({"psycopg", "asyncpg", "sqlalchemy", "django"} & sys.modules.keys()))
"""
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert answer.stdout == "[]\n"
