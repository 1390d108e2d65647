"""A migration that meets the lock of another transaction gives way in time and leaves nothing half done."""

import asyncio
import contextlib
import sqlite3
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest

from onward import AsyncClient, NewJob
from onward.errors import StoreBusy
from onward.stores.sqlite.sqlite_store import SqliteStore
from tests.stores.later_version import NEXT, VERSIONS, later_version
from tests.stores.migrated_place import Place
from tests.stores.sqlite.blocking import waiting

LATER = [*VERSIONS, (NEXT, f"step_{NEXT}")]


@pytest.mark.anyio
async def test_a_migration_that_waits_for_a_lock_soon_lets_other_sessions_pass(postgres_url, tmp_path):
    place = Place("postgres", postgres_url, f"t_{uuid4().hex[:12]}.")
    locking = later_version(tmp_path, "ALTER TABLE {live} ADD COLUMN more integer;\n")
    async with (
        AsyncClient(store=place.async_store()) as old,
        AsyncClient(store=place.async_store(locking)) as new,
        await psycopg.AsyncConnection.connect(postgres_url) as holder,
    ):
        await old.migrate()
        await holder.execute(f"SELECT count(*) FROM {place.prefix}live".encode())
        migrating = asyncio.create_task(new.migrate())
        await waiting(holder)
        # It queues behind the migration, which gives way after two seconds; the holder keeps its lock.
        assert (await old.enqueue(NewJob(job_type="t"))).created
        assert not migrating.done()
        await holder.rollback()
        await migrating
    assert place.versions() == LATER
    place.run(f"DROP SCHEMA {place.prefix.rstrip('.')} CASCADE")


def test_a_migration_that_meets_a_writer_of_the_file_gives_up_in_time_and_leaves_nothing(tmp_path):
    place = Place("sqlite", str(tmp_path / "onward.db"), "onward_")
    with contextlib.closing(place.store()) as old:
        old.migrate()
    new = SqliteStore(
        Path(place.where),
        busy_seconds=0.05,
        migrations=later_version(tmp_path, "CREATE TABLE {prefix}more (id integer);\n"),
    )
    with contextlib.closing(sqlite3.connect(place.where, isolation_level=None)) as holder:
        holder.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreBusy, match="held by another writer"):
            new.migrate()
    assert place.versions() == VERSIONS
    new.migrate()
    new.close()
    assert place.versions() == LATER
