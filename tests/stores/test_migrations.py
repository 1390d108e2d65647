"""Migrations on both databases: planned, printed, applied once, refused when newer, and never half done."""

import contextlib
import re
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import psycopg
import pytest

from onward import AsyncClient, Client, NewJob
from onward.errors import InvalidSetting, SchemaBehind, SchemaMissing, SchemaTooNew
from onward.sql.catalogue import Database
from onward.stores import Store, migrations
from onward.stores.migrations import Migration, bundled, check_prefix, plan, statements
from onward.stores.postgres.postgres_store import AsyncPostgresStore
from onward.stores.postgres.sync import postgres_store
from onward.stores.postgres.sync.postgres_store import PostgresStore
from onward.stores.sqlite import sqlite_store
from onward.stores.sqlite.sqlite_store import AsyncSqliteStore, SqliteStore


@dataclass
class Place:
    """A database without Onward's tables, in which a test may have them."""

    database: Database
    where: str
    prefix: str

    def store(self) -> Store:
        if self.database == "sqlite":
            return SqliteStore(Path(self.where), prefix=self.prefix)
        return PostgresStore(self.where, schema=self.prefix.rstrip("."), pool_size=2)

    def async_store(self) -> Any:
        if self.database == "sqlite":
            return AsyncSqliteStore(Path(self.where), prefix=self.prefix)
        return AsyncPostgresStore(self.where, schema=self.prefix.rstrip("."), pool_size=2)

    def run(self, sql: str) -> list[tuple[Any, ...]]:
        """Run SQL by hand, as a person would."""
        if self.database == "sqlite":
            with contextlib.closing(sqlite3.connect(self.where)) as connection:
                if sql.count(";") > 1:
                    connection.executescript(sql)
                    return []
                rows = connection.execute(sql).fetchall()
                connection.commit()
                return rows
        with psycopg.connect(self.where, autocommit=True) as connection:
            cursor = connection.execute(sql.encode())
            return cursor.fetchall() if cursor.description else []

    def listing(self) -> list[tuple[Any, ...]]:
        """Every table, index, view and column that the prefix owns, by name and definition."""
        if self.database == "sqlite":
            return self.run(
                "SELECT type, name, sql FROM sqlite_master "
                f"WHERE name LIKE '{self.prefix}%' ORDER BY type, name"
            )
        schema = self.prefix.rstrip(".")
        return self.run(
            "SELECT c.relname, c.relkind, a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull,"
            " pg_get_expr(d.adbin, d.adrelid), pg_get_indexdef(c.oid) "
            "FROM pg_class AS c JOIN pg_attribute AS a ON a.attrelid = c.oid AND a.attnum > 0 "
            "LEFT JOIN pg_attrdef AS d ON d.adrelid = c.oid AND d.adnum = a.attnum "
            f"WHERE c.relnamespace = to_regnamespace('{schema}') ORDER BY c.relname, a.attnum"
        )

    def versions(self) -> list[tuple[Any, ...]]:
        return self.run(f"SELECT version, name FROM {self.prefix}migrations ORDER BY version")


@pytest.fixture(params=["sqlite", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    if request.param == "sqlite":
        yield Place("sqlite", str(tmp_path / "onward.db"), "onward_")
        return
    url: str = request.getfixturevalue("postgres_url")
    place = Place("postgres", url, f"t_{uuid4().hex[:12]}.")
    yield place
    place.run(f"DROP SCHEMA IF EXISTS {place.prefix.rstrip('.')} CASCADE")


@pytest.fixture
def store(place: Place) -> Iterator[Store]:
    with contextlib.closing(place.store()) as store:
        yield store


@contextlib.contextmanager
def known(place: Place, monkeypatch: pytest.MonkeyPatch, *more: Migration) -> Iterator[None]:
    """Code that knows more migrations than this version does."""
    every = (*bundled(place.database, place.prefix), *more)
    with monkeypatch.context() as patched:
        for module in (migrations, sqlite_store, postgres_store):
            patched.setattr(module, "bundled", lambda *_: every)
        yield


def following(place: Place, *extra: str) -> Migration:
    """A migration as a later version may bring it."""
    sql = [
        f"CREATE TABLE {place.prefix}more (id integer)",
        f"INSERT INTO {place.prefix}migrations (version, name) VALUES ({NEXT}, 'more')",
    ]
    return Migration(NEXT, "more", ";\n".join([*sql, *extra]) + ";\n")


VERSIONS = list(
    enumerate(
        [
            "foundation",
            "controls_and_leaders",
            "keys",
            "audit",
            "row_security",
            "usage",
            "artifacts",
            "dead_letters",
            "breakers",
            "effects",
            "alerts",
            "dead_groups",
            "ties",
            "followers",
            "batches",
            "limits",
            "queues",
            "schedules",
            "signals",
            "retention",
            "grants",
            "room",
            "fewer_partitions",
        ],
        1,
    )
)
NEWEST = len(VERSIONS)
NEXT = NEWEST + 1


def test_a_fresh_database_goes_from_nothing_to_the_newest(place, store):
    before = store.plan()
    assert (before.version, before.newest) == (0, NEWEST)
    assert [step.version for step in before.pending] == [version for version, _ in VERSIONS]
    assert store.migrate() == before
    after = store.plan()
    assert (after.version, after.pending, after.sql) == (NEWEST, (), "")
    after.check()
    assert place.versions() == VERSIONS


def test_migrating_again_does_nothing(place, store):
    store.migrate()
    before = place.listing()
    assert store.migrate().pending == ()
    assert place.listing() == before
    assert place.versions() == VERSIONS


def test_planning_changes_nothing(place, store):
    store.plan()
    assert place.listing() == []


def test_the_plan_prints_sql_that_gives_the_same_schema_by_hand(place, store):
    text = store.plan().sql
    assert text.startswith("-- migration 0001: foundation\n")
    place.run(text)
    by_hand = place.listing()
    assert store.plan().pending == ()
    Client(store=store).enqueue(NewJob(job_type="t"))
    store.close()
    if place.database == "sqlite":
        Path(place.where).unlink()
    else:
        place.run(f"DROP SCHEMA {place.prefix.rstrip('.')} CASCADE")
    with contextlib.closing(place.store()) as fresh:
        fresh.migrate()
    assert place.listing() == by_hand
    assert len(by_hand) > 10


def test_a_schema_newer_than_the_code_is_refused_everywhere(place, store):
    store.migrate()
    place.run(f"INSERT INTO {place.prefix}migrations (version, name) VALUES ({NEXT}, 'more')")
    with contextlib.closing(place.store()) as old:
        client = Client(store=old)
        refusals = (old.plan, old.migrate, client.count, lambda: client.enqueue(NewJob(job_type="t")))
        for refused in refusals:
            with pytest.raises(
                SchemaTooNew, match=f"schema is at version {NEXT}, this code knows {NEWEST}; upgrade onward"
            ):
                refused()


@pytest.mark.anyio
async def test_a_schema_newer_than_the_code_is_refused_to_async_callers(place):
    async with AsyncClient(store=place.async_store()) as client:
        await client.migrate()
    place.run(f"INSERT INTO {place.prefix}migrations (version, name) VALUES ({NEXT}, 'more')")
    async with AsyncClient(store=place.async_store()) as client:
        for refused in (client.plan, client.migrate, client.count):
            with pytest.raises(SchemaTooNew):
                await refused()


def test_a_missing_schema_is_told_how_to_get_it(place, store):
    with pytest.raises(
        SchemaMissing, match=r"not in this database; run onward migrate, or client\.migrate\(\)"
    ):
        store.plan().check()
    if place.database == "postgres":
        with pytest.raises(SchemaMissing, match=r"run onward migrate, or client\.migrate\(\)"):
            Client(store=store).enqueue(NewJob(job_type="t"))
        store.migrate()
    # A SQLite file is made by its first use.
    assert Client(store=store).enqueue(NewJob(job_type="t")).created


def test_a_schema_behind_the_code_is_told_how_to_catch_up(place, store, monkeypatch):
    store.migrate()
    with known(place, monkeypatch, following(place)), contextlib.closing(place.store()) as new:
        behind = new.plan()
        assert [step.name for step in behind.pending] == ["more"]
        assert behind.sql == f"-- migration {NEXT:04}: more\n{following(place).sql}"
        with pytest.raises(
            SchemaBehind, match=f"at version {NEWEST}, this code needs {NEXT}; run onward migrate"
        ):
            behind.check()
        if place.database == "postgres":
            with pytest.raises(SchemaBehind):
                Client(store=new).count()
            new.migrate()
        assert Client(store=new).enqueue(NewJob(job_type="t")).created
        assert place.versions() == [*VERSIONS, (NEXT, "more")]


def test_a_migration_that_fails_at_its_end_leaves_nothing(place, store, monkeypatch):
    store.migrate()
    before = place.listing()
    with known(place, monkeypatch, following(place, "CREATE TABLE broken (")):
        with contextlib.closing(place.store()) as new, pytest.raises(Exception, match=r"syntax|incomplete"):
            new.migrate()
        assert place.listing() == before
        assert place.versions() == VERSIONS
    with known(place, monkeypatch, following(place)), contextlib.closing(place.store()) as new:
        new.migrate()
    assert place.versions() == [*VERSIONS, (NEXT, "more")]


def test_of_many_migrators_at_once_each_succeeds_and_one_applies(place):
    start = threading.Barrier(4)

    def migrate(_):
        with contextlib.closing(place.store()) as store:
            start.wait(30)
            return store.migrate().newest

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(migrate, range(4))) == [NEWEST] * 4
    assert place.versions() == VERSIONS


MIGRATOR = """
import sys
from pathlib import Path
from onward.stores.postgres.sync.postgres_store import PostgresStore
from onward.stores.sqlite.sqlite_store import SqliteStore
database, where, prefix = sys.argv[1:]
store = SqliteStore(Path(where)) if database == "sqlite" else PostgresStore(where, schema=prefix.rstrip("."))
print("ready", flush=True)
sys.stdin.readline()
store.migrate()
store.close()
"""


def test_of_many_migrating_processes_each_succeeds_and_one_applies(place):
    command = [sys.executable, "-c", MIGRATOR, place.database, place.where, place.prefix]
    others = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(4)
    ]
    for other in others:
        assert other.stdout.readline() == "ready\n"
    for other in others:
        other.stdin.write("go\n")
        other.stdin.flush()
    for other in others:
        other.communicate(timeout=60)
    assert [other.returncode for other in others] == [0] * 4
    assert place.versions() == VERSIONS


@pytest.mark.parametrize(
    ("database", "prefix"),
    [
        ("sqlite", ""),
        ("sqlite", "onward"),
        ("sqlite", "Onward_"),
        ("sqlite", "1_"),
        ("sqlite", "a b_"),
        ("sqlite", "a;drop table x;_"),
        ("sqlite", "onward."),
        ("sqlite", f"{'a' * 40}_"),
        ("postgres", "."),
        ("postgres", "onward_"),
        ("postgres", 'on"ward.'),
        ("postgres", "a.b."),
        ("postgres", "Onward."),
        ("postgres", "onward.\n"),
    ],
)
def test_a_prefix_that_could_not_stand_in_sql_is_refused(database, prefix):
    with pytest.raises(InvalidSetting, match="table prefix "):
        check_prefix(database, prefix)


def test_a_store_refuses_a_bad_prefix_at_once(tmp_path):
    with pytest.raises(InvalidSetting, match="give a name such as onward_"):
        SqliteStore(tmp_path / "onward.db", prefix="no")
    with pytest.raises(InvalidSetting, match="give a schema's name such as onward"):
        PostgresStore("postgresql://h/db", schema="No")


def test_two_prefixes_live_side_by_side_in_one_file(tmp_path):
    path = tmp_path / "onward.db"
    with (
        contextlib.closing(SqliteStore(path)) as one,
        contextlib.closing(SqliteStore(path, prefix="two_")) as two,
    ):
        Client(store=one).enqueue(NewJob(job_type="t", key="k"))
        assert Client(store=two).enqueue(NewJob(job_type="t", key="k")).created
        assert [len(Client(store=store).list_jobs().jobs) for store in (one, two)] == [1, 1]


@pytest.mark.parametrize("database", ["sqlite", "postgres"])
def test_every_migration_records_itself_as_its_last_statement(database):
    prefix = "p_" if database == "sqlite" else "p."
    steps = bundled(database, prefix)
    assert [step.version for step in steps] == list(range(1, len(steps) + 1))
    for step in steps:
        record = f"INSERT INTO {prefix}migrations (version, name) VALUES ({step.version}, '{step.name}');"
        assert step.sql.rstrip().endswith(record)


def test_a_gap_in_what_was_applied_is_pending():
    assert [step.version for step in plan("sqlite", "onward_", range(2, NEXT)).pending] == [1]
    assert plan("sqlite", "onward_", range(1, NEXT)).pending == ()


def test_a_script_is_split_where_its_statements_end():
    script = "-- a; comment\nSELECT ';';\nCREATE TRIGGER t AFTER INSERT ON a BEGIN\nSELECT 1;\nEND;\nSELECT 2"
    assert [re.sub(r"\s+", " ", part).strip() for part in statements(script)] == [
        "-- a; comment SELECT ';';",
        "CREATE TRIGGER t AFTER INSERT ON a BEGIN SELECT 1; END;",
        "SELECT 2",
    ]
