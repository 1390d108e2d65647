"""A database that fails, is old, damaged or held back is a finding and no exception; nothing is changed."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime

import psycopg
import pytest

from onward import Client, NewJob, Onward
from onward.errors import NotAllowed
from onward.stores.postgres.sync.postgres_store import PostgresStore
from onward.stores.sqlite.sqlite_store import SqliteStore
from tests.proxy import proxied
from tests.stores.later_version import later_version
from tests.upkeep.doctor.facts import MINUTE, codes, of
from tests.worker.waiting import until


@contextmanager
def spoilt(store: PostgresStore, change: str, undo: str) -> Iterator[Client]:
    """Change something by hand, `{0}` being the prefix of the tables, and put it right afterwards."""
    with psycopg.connect(store.url, autocommit=True) as connection:
        connection.execute(change.format(store.prefix).encode())
        try:
            yield Client(store=store)
        finally:
            connection.execute(undo.format(store.prefix).encode())


def test_a_database_that_is_down_is_a_finding():
    # S0-80: the database can't be reached
    with Client("postgresql://app@127.0.0.1:1/app") as client:
        [found] = client.doctor.check()
    assert (found.code, found.severity) == ("database_unreachable", "problem")
    assert found.evidence["error"] == "ON-DB-004"


@pytest.mark.anyio
async def test_a_database_that_is_down_is_a_finding_for_async_callers():
    app = Onward("postgresql://app@127.0.0.1:1/app")
    try:
        assert codes(await app.aclient.doctor.check()) == {"database_unreachable"}
    finally:
        await app.aclose()


def test_a_file_that_is_not_there_is_not_made(tmp_path):
    with Client(f"sqlite:///{tmp_path}/none.db") as client:
        [found] = client.doctor.check(deep=True)
    assert (found.code, found.evidence["path"]) == ("database_missing", f"{tmp_path}/none.db")
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_is_no_database_is_a_finding(tmp_path):
    (tmp_path / "none.db").write_text("these are no pages of a database, however long they are " * 20)
    with Client(f"sqlite:///{tmp_path}/none.db") as client:
        assert codes(client.doctor.check()) == {"database_unreachable"}


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ("DELETE FROM {0}migrations WHERE version > 1", "schema_behind"),
        ("INSERT INTO {0}migrations (version, name) VALUES (9999, 'later')", "schema_too_new"),
        ("DELETE FROM {0}migrations", "schema_missing"),
    ],
)
def test_tables_of_another_version_are_a_finding_on_sqlite_and_stay_as_they_are(tmp_path, change, code):
    path, folder = tmp_path / "onward.db", later_version(tmp_path, "SELECT 1;\n")
    with Client(store=SqliteStore(path, migrations=folder)) as client:
        client.migrate()
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute(change.format("onward_"))
        before = connection.execute("SELECT version FROM onward_migrations").fetchall()
        with Client(store=SqliteStore(path, migrations=folder)) as client:
            assert codes(client.doctor.check()) == {code}
        assert connection.execute("SELECT version FROM onward_migrations").fetchall() == before


def test_tables_that_are_older_than_the_code_are_a_finding_on_postgresql(postgres, tmp_path):
    folder, schema = later_version(tmp_path, "SELECT 1;\n"), postgres.prefix.rstrip(".")
    with Client(store=PostgresStore(postgres.url, schema=schema, migrations=folder)) as client:
        found = client.doctor.check()
    assert codes(found) == {"schema_behind"}
    assert found[0].remedy == "onward migrate"


def test_tables_that_are_newer_than_the_code_are_a_finding_on_postgresql(postgres):
    newer = "INSERT INTO {0}migrations (version, name) VALUES (9999, 'later')"
    with spoilt(postgres, newer, "DELETE FROM {0}migrations WHERE version = 9999") as client:
        found = client.doctor.check()
    assert codes(found) == {"schema_too_new"}
    assert found[0].remedy == "pip install -U onward"


def test_a_database_without_our_tables_is_a_finding(postgres_url):
    store = PostgresStore(postgres_url, schema="nowhere")
    with Client(store=store) as client:
        assert codes(client.doctor.check()) == {"schema_missing"}


def test_a_part_that_fails_hides_nothing_of_the_others(postgres):
    change, undo = "ALTER TABLE {0}controls RENAME TO hidden", "ALTER TABLE {0}hidden RENAME TO controls"
    with spoilt(postgres, change, undo) as client:
        found = client.doctor.check()
    assert "schema_missing" in codes(found)
    assert of(found, "database").severity == "ok"


def test_a_snapshot_that_is_held_keeps_vacuum_back(postgres):
    later = datetime.now(UTC) + 10 * MINUTE
    client = Client(store=postgres)
    with psycopg.connect(postgres.url, application_name="a report") as connection:
        connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        connection.execute("SELECT 1")
        assert "vacuum_held_back" not in codes(client.doctor.check()), "a short one is nobody's trouble"
        found = of(client.at(later).doctor.check(), "vacuum_held_back")
        assert (found.evidence["name"], found.evidence["state"]) == ("a report", "idle in transaction")
        assert found.remedy == f'psql -c "SELECT pg_terminate_backend({connection.info.backend_pid})"'
    assert "vacuum_held_back" not in codes(client.at(later).doctor.check())


def test_autovacuum_that_is_off_is_told(postgres):
    assert "autovacuum_off" not in codes(Client(store=postgres).doctor.check())
    change = "ALTER TABLE {0}live SET (autovacuum_enabled = off)"
    with spoilt(postgres, change, "ALTER TABLE {0}live RESET (autovacuum_enabled)") as client:
        assert of(client.doctor.check(), "autovacuum_off").remedy is not None


def test_an_index_that_is_not_valid_is_found_by_a_deep_check(postgres):
    update = "UPDATE pg_index SET indisvalid = {1} WHERE indexrelid = CAST('{0}audit_of_job' AS regclass)"
    change, undo = (update.replace("{1}", word) for word in ("false", "true"))
    with spoilt(postgres, change, undo) as client:
        assert "damaged" not in codes(client.doctor.check())
        assert "audit_of_job is not valid" in of(client.doctor.check(deep=True), "damaged").title


def test_a_pooler_in_between_is_told(postgres):
    with proxied(postgres.url, pooler=True) as proxy:
        store = PostgresStore(proxy.url, schema=postgres.prefix.rstrip("."))
        with Client(store=store) as client:
            client.worker.register("w")
            found = codes(client.doctor.check())
    assert "pooler" in found
    assert "no_wakeups" not in found, "that is what a pooler means"


def test_damage_of_a_file_is_found_by_a_deep_check(tmp_path):
    url = f"sqlite:///{tmp_path}/onward.db"
    with Client(url) as client:
        client.enqueue_many(NewJob(job_type="t") for _ in range(500))
    path = tmp_path / "onward.db"
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        [size] = connection.execute("PRAGMA page_size").fetchone()
        query = "SELECT rootpage FROM sqlite_master WHERE type = 'index' AND tbl_name = 'onward_audit'"
        [root] = connection.execute(query).fetchone()
    with path.open("r+b") as file:
        file.seek((root - 1) * size)
        file.write(bytes(100))
    with Client(url) as client:
        assert "damaged" not in codes(client.doctor.check())
        assert of(client.doctor.check(deep=True), "damaged").remedy == "restore the file from a backup"


def test_a_log_that_a_reader_keeps_from_being_folded_is_measured(tmp_path):
    with Client(f"sqlite:///{tmp_path}/onward.db") as client:
        client.enqueue(NewJob(job_type="t"))
        assert "sqlite_log_large" not in codes(client.doctor.check())
        with (tmp_path / "onward.db-wal").open("r+b") as log:
            # Sparse: it has the size, and takes no room.
            log.truncate(300 * 2**20)
        assert "sqlite_log_large" in codes(client.doctor.check())


@pytest.mark.anyio
async def test_a_worker_that_runs_is_seen_and_heard(postgres):
    app = Onward(postgres.url, schema=postgres.prefix.rstrip("."))

    @app.job
    async def work() -> None: ...

    client = Client(store=postgres)
    async with app.worker(queues={"q:default": 2}, concurrency=4):
        await until(lambda: "no_wakeups" not in codes(client.doctor.check()))
        found = of(client.doctor.check(), "workers")
        assert found.title == "1 worker, 4 slots"
        client.enqueue(NewJob(job_type="work", queue="q:other"))
        assert "unserved_queue" in codes(client.doctor.check())
    assert "no_worker" in codes(client.doctor.check())
    await app.aclose()


def test_a_client_of_one_org_is_told_nothing_of_the_whole(client):
    with pytest.raises(NotAllowed, match="concerns all orgs"):
        client.for_org("acme").doctor.check()
