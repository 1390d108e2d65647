"""The database is away, or busy, when an effect has happened and is to be recorded."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from contextlib import closing

import psycopg
import pytest

from onward import Context, JobState, Onward
from onward.errors import StoreUnreachable
from onward.handlers.context import context_effects
from onward.stores.sqlite.sqlite_store import SqliteStore
from onward.worker.attempts.attempt import Running
from tests.proxy import proxied
from tests.stores.postgres.postgres_schema import clean_schema
from tests.work.effects.effect_runs import Runs
from tests.worker.waiting import SOON, until

THE_OTHERS = """
SELECT pg_terminate_backend(pid) FROM pg_stat_activity
WHERE datname = current_database() AND application_name = 'onward' AND pid <> pg_backend_pid()
"""


def cut_off(url: str) -> bool:
    """End every session of Onward's, as a restart of the server would; tells whether there was any."""
    with psycopg.connect(url, autocommit=True) as connection:
        return bool(connection.execute(THE_OTHERS).fetchall())


def test_a_connection_that_broke_meanwhile_keeps_no_effect_from_being_recorded(postgres_url):  # F14
    with clean_schema(postgres_url) as store:
        app = Onward(postgres_url, schema=store.prefix.rstrip("."))
        runs = Runs(app)
        ctx = runs.start()
        assert ctx.once("charge", lambda: cut_off(postgres_url))
        assert ctx.step("total", lambda: cut_off(postgres_url))
        again = runs.retry(ctx)
        assert again.once("charge", pytest.fail)
        assert again.step("total", pytest.fail)
        app.close()


def test_a_writer_that_takes_long_keeps_no_effect_from_being_recorded(tmp_path, monkeypatch):  # F31
    app = Onward(f"sqlite:///{tmp_path}/onward.db")
    runs = Runs(app)
    ctx = runs.start()
    app.close()
    impatient = Onward(f"sqlite:///{tmp_path}/onward.db")
    store = impatient.client.store
    assert isinstance(store, SqliteStore)
    store._busy_seconds = 0.01
    ctx = Context(ctx._run, impatient.clients)
    with closing(sqlite3.connect(store.file.path, check_same_thread=False)) as other:
        other.execute("PRAGMA wal_autocheckpoint = 0")
        waited = threading.Event()

        def held() -> int:
            other.execute("BEGIN IMMEDIATE")
            return 1

        def let_go(*_: object) -> bool:
            other.rollback()
            waited.set()
            return False

        monkeypatch.setattr(Running, "wait_cancelled", let_go)
        assert ctx.once("charge", held) == 1
        assert waited.is_set()
    [effect] = impatient.client.effects.list(ctx.job.id)
    assert effect.state == "done"
    impatient.close()


def test_a_database_that_stays_away_is_not_tried_for_ever(postgres_url, monkeypatch, caplog):
    monkeypatch.setattr(context_effects, "_PATIENCE", 0.2)
    with clean_schema(postgres_url) as store, proxied(postgres_url) as proxy:
        app = Onward(proxy.url, schema=store.prefix.rstrip("."))
        ctx = Runs(app).start()
        with pytest.raises(StoreUnreachable):
            ctx.once("charge", proxy.close)
        assert "was done, but not recorded" in caplog.text
        app.close()


@pytest.mark.anyio
async def test_who_has_to_give_way_stops_trying(postgres_url):  # F10
    with clean_schema(postgres_url) as store, proxied(postgres_url) as proxy:
        app = Onward(proxy.url, schema=store.prefix.rstrip("."))
        gone = threading.Event()

        @app.job
        async def pay(ctx: Context) -> None:
            def charge() -> None:
                proxy.close()
                gone.set()

            await ctx.aonce("charge", charge)

        job = await pay.aenqueue()
        worker = app.worker(grace=0.1)
        running = asyncio.create_task(worker.run())
        await until(gone.is_set)
        worker.stop()
        async with asyncio.timeout(SOON):
            with pytest.raises(StoreUnreachable):
                await running
        direct = Onward(postgres_url, schema=store.prefix.rstrip("."))
        assert direct.client.jobs.get(job.id).state == JobState.RUNNING
        direct.close()
        app.close()
        await app.aclose()
