"""Migrations on both databases: planned, printed, applied once, refused when newer, and never half done."""

import contextlib
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest

from onward import AsyncClient, Client, NewJob
from onward.errors import InvalidSetting, SchemaBehind, SchemaMissing, SchemaTooNew
from onward.stores import Store
from onward.stores.migrations import check_prefix, read_migrations, statements
from onward.stores.postgres.sync.postgres_store import PostgresStore
from onward.stores.sqlite.sqlite_store import SqliteStore
from tests.stores.later_version import NEWEST, NEXT, VERSIONS, later_version
from tests.stores.migrated_place import Place
from tests.worker.waiting import SOON


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


MORE = "CREATE TABLE {prefix}more (id integer);\n"
LARGER = "ALTER TABLE {prefix}more ADD COLUMN size integer;\n"
BROKEN = "CREATE TABLE {prefix}other (id integer);\nCREATE TABLE broken (;\n"


def later(*numbers: int) -> list[tuple[int, str]]:
    """The versions of a database that was brought further, by these steps."""
    return [*VERSIONS, *((number, f"step_{number}") for number in numbers)]


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
    assert text.startswith("-- migration 0001: first_schema\n")
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
        refusals = (old.plan, old.migrate, client.jobs.count, lambda: client.enqueue(NewJob(job_type="t")))
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
        for refused in (client.plan, client.migrate, client.jobs.count):
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


def test_a_schema_behind_the_code_is_told_how_to_catch_up(place, store, tmp_path):
    store.migrate()
    with contextlib.closing(place.store(later_version(tmp_path, MORE))) as new:
        behind = new.plan()
        assert [step.version for step in behind.pending] == [NEXT]
        assert behind.sql.startswith(
            f"-- migration {NEXT:04}: step_{NEXT}\nCREATE TABLE {place.prefix}more ("
        )
        with pytest.raises(
            SchemaBehind, match=f"at version {NEWEST}, this code needs {NEXT}; run onward migrate"
        ):
            behind.check()
        if place.database == "postgres":
            with pytest.raises(SchemaBehind):
                Client(store=new).jobs.count()
            new.migrate()
        assert Client(store=new).enqueue(NewJob(job_type="t")).created
    assert place.versions() == later(NEXT)


def test_code_that_runs_goes_on_while_the_schema_is_brought_further(place, store, tmp_path):
    store.migrate()
    old = Client(store=store)
    old.enqueue(NewJob(job_type="t"))
    with contextlib.closing(place.store(later_version(tmp_path, MORE))) as new:
        new.migrate()
    assert old.enqueue(NewJob(job_type="t")).created


@pytest.mark.parametrize("applied", [0, NEWEST, NEXT])
def test_each_step_that_is_pending_is_applied_in_order(place, tmp_path, applied):
    # The last step changes what the one before it makes.
    if applied:
        folder = later_version(tmp_path, *[MORE][: applied - NEWEST])
        with contextlib.closing(place.store(folder)) as older:
            older.migrate()
    with contextlib.closing(place.store(later_version(tmp_path, MORE, LARGER))) as new:
        before = new.migrate()
        assert [step.version for step in before.pending] == list(range(applied + 1, NEXT + 2))
        assert new.plan().pending == ()
    assert place.versions() == later(NEXT, NEXT + 1)
    assert place.run(f"SELECT id, size FROM {place.prefix}more") == []


@pytest.mark.anyio
async def test_each_step_is_applied_for_async_callers(place, tmp_path):
    async with AsyncClient(store=place.async_store(later_version(tmp_path, MORE, LARGER))) as client:
        assert (await client.migrate()).newest == NEXT + 1
    assert place.versions() == later(NEXT, NEXT + 1)


def test_a_step_that_fails_at_its_end_leaves_nothing_and_those_before_it_stay(place, tmp_path):
    with contextlib.closing(place.store(later_version(tmp_path, MORE))) as older:
        older.migrate()
    before = place.listing()
    failing = later_version(tmp_path, MORE, LARGER, BROKEN)
    with contextlib.closing(place.store(failing)) as new, pytest.raises(Exception, match=r"syntax"):
        new.migrate()
    assert place.versions() == later(NEXT, NEXT + 1)
    assert {row[0:2] for row in place.listing()} == {row[0:2] for row in before}
    with contextlib.closing(place.store(later_version(tmp_path, MORE, LARGER, "SELECT 1;\n"))) as repaired:
        repaired.migrate()
    assert place.versions() == later(NEXT, NEXT + 1, NEXT + 2)


def test_a_first_schema_that_fails_in_its_last_file_leaves_nothing(place, store):
    if place.database == "postgres":
        place.run(f"CREATE SCHEMA {place.prefix.rstrip('.')}")
    place.run(f"CREATE TABLE {place.prefix}settings (name integer)")
    before = place.listing()
    with pytest.raises(Exception, match=r"settings.* already exists"):
        store.migrate()
    assert place.listing() == before
    place.run(f"DROP TABLE {place.prefix}settings")
    store.migrate()
    assert place.versions() == VERSIONS


def test_a_gap_in_what_was_applied_is_filled(place, tmp_path):
    with contextlib.closing(place.store(later_version(tmp_path, "SELECT 1;\n", MORE))) as new:
        new.migrate()
        place.run(f"DELETE FROM {place.prefix}migrations WHERE version = {NEXT}")
        behind = new.plan()
        assert [step.version for step in behind.pending] == [NEXT]
        with pytest.raises(SchemaBehind):
            behind.check()
        new.migrate()
    assert place.versions() == later(NEXT, NEXT + 1)


def test_of_many_migrators_at_once_each_succeeds_and_one_applies(place, tmp_path):
    start = threading.Barrier(4)
    folder = later_version(tmp_path, MORE, LARGER)

    def migrate(_):
        with contextlib.closing(place.store(folder)) as store:
            start.wait(30)
            return store.migrate().newest

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(migrate, range(4))) == [NEXT + 1] * 4
    assert place.versions() == later(NEXT, NEXT + 1)


MIGRATOR = """
import sys
from pathlib import Path
from onward.stores.postgres.sync.postgres_store import PostgresStore
from onward.stores.sqlite.sqlite_store import SqliteStore
database, where, prefix, folder = sys.argv[1:]
if database == "sqlite":
    store = SqliteStore(Path(where), migrations=Path(folder))
else:
    store = PostgresStore(where, schema=prefix.rstrip("."), migrations=Path(folder))
print("ready", flush=True)
sys.stdin.readline()
store.migrate()
store.close()
"""


def test_of_many_migrating_processes_each_succeeds_and_one_applies(place, tmp_path):
    folder = later_version(tmp_path, MORE, LARGER)
    command = [sys.executable, "-c", MIGRATOR, place.database, place.where, place.prefix, folder]
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
    assert place.versions() == later(NEXT, NEXT + 1)


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
        assert [len(Client(store=store).jobs.list().items) for store in (one, two)] == [1, 1]


def test_a_schema_may_have_a_name_that_ends_with_an_underscore(postgres_url):
    place = Place("postgres", postgres_url, f"t_{uuid4().hex[:12]}_.")
    schema = place.prefix.rstrip(".")
    with psycopg.connect(postgres_url, autocommit=True) as listener, Client(store=place.store()) as client:
        client.migrate()
        client.protect_orgs()
        client.worker.register("w")
        client.worker.extend("w", [], idle=True)
        listener.execute(f"LISTEN {schema}".encode())
        client.enqueue(NewJob(job_type="t"))
        [note] = listener.notifies(timeout=SOON, stop_after=1)
        assert note.channel == schema
        listener.execute(f"DROP SCHEMA {schema} CASCADE".encode())


@pytest.mark.parametrize("database", ["sqlite", "postgres"])
def test_every_migration_records_itself_as_its_last_statement(database, tmp_path):
    prefix = "p_" if database == "sqlite" else "p."
    steps = read_migrations(database, prefix, later_version(tmp_path, MORE, LARGER))
    assert [(step.version, step.name) for step in steps] == later(NEXT, NEXT + 1)
    assert [step.version for step in steps] == list(range(1, len(steps) + 1))
    for step in steps:
        record = f"INSERT INTO {prefix}migrations (version, name) VALUES ({step.version}, '{step.name}');"
        assert step.sql.rstrip().endswith(record)


def test_the_files_of_a_folder_are_one_migration_in_the_order_of_their_names(tmp_path):
    parts = tmp_path / "sqlite" / "0001_parts"
    parts.mkdir(parents=True)
    for name, text in {"2_b.sql": "SELECT 2;\n", "1_a.sql": "SELECT 1;\n", "notes.txt": "none"}.items():
        (parts / name).write_text(text)
    [step] = read_migrations("sqlite", "p_", tmp_path)
    assert (step.version, step.name) == (1, "parts")
    assert step.sql.startswith("SELECT 1;\n\nSELECT 2;\n\nINSERT INTO p_migrations ")


def test_a_script_is_split_where_its_statements_end():
    script = "-- a; comment\nSELECT ';';\nCREATE TRIGGER t AFTER INSERT ON a BEGIN\nSELECT 1;\nEND;\nSELECT 2"
    assert [re.sub(r"\s+", " ", part).strip() for part in statements(script)] == [
        "-- a; comment SELECT ';';",
        "CREATE TRIGGER t AFTER INSERT ON a BEGIN SELECT 1; END;",
        "SELECT 2",
    ]
