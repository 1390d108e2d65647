"""The SQLite store: made at its first use, one writer for many threads, closed with nothing lost."""

import asyncio
import contextlib
import sqlite3
import stat
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from onward import AsyncClient, Client, JobFilter, JobState, NewJob, Snooze, Succeeded
from onward.connections import driver_calls
from onward.connections.driver_calls import calls
from onward.core.work.lifecycle import End, Transition
from onward.errors import DuplicateJob, InvalidJob, StoreClosed, StoreError
from onward.operations.jobs import enqueue as enqueuing
from onward.operations.jobs import inspect, listing
from onward.operations.statement import Statement
from onward.operations.work import claim, finish, rescue
from onward.sql.catalogue import catalogue
from onward.stores.sqlite.sqlite_store import AsyncSqliteStore, SqliteStore
from tests.stores.sqlite.using_sqlite import busy_thread, enqueue, held, ids, opened, queued, submit, writer

# Creation and settings


def test_the_first_use_makes_the_file_readable_by_its_owner_alone(path, store):
    enqueue(store)
    for suffix in ("", "-wal", "-shm"):
        assert stat.S_IMODE(Path(f"{path}{suffix}").stat().st_mode) == 0o600


def test_nothing_is_made_before_the_first_use(path, store):
    assert store.plan().version == 0
    assert not path.exists()


def test_the_writer_waits_for_the_disk_and_leaves_the_log_to_one_folder(store):
    enqueue(store)
    settings = {
        name: writer(store).execute(f"PRAGMA {name}").fetchone()[0]
        for name in ("journal_mode", "synchronous", "wal_autocheckpoint")
    }
    assert settings == {"journal_mode": "wal", "synchronous": 2, "wal_autocheckpoint": 0}


def test_a_database_that_the_application_has_already_is_shared(path, store):
    with contextlib.closing(sqlite3.connect(path)) as own:
        own.execute("CREATE TABLE bookings (id INTEGER)")
        own.execute("INSERT INTO bookings VALUES (42)")
        own.commit()
    enqueue(store)
    with contextlib.closing(sqlite3.connect(path)) as own:
        assert own.execute("SELECT id FROM bookings").fetchall() == [(42,)]


def test_looking_at_the_plan_changes_nothing(path, store):
    with contextlib.closing(sqlite3.connect(path)) as own:
        own.execute("CREATE TABLE bookings (id INTEGER)")
        own.commit()
    before = path.read_bytes()
    assert store.plan().version == 0
    assert path.read_bytes() == before


def test_a_relative_path_survives_a_change_of_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with opened(Path("onward.db")) as store:
        enqueue(store)
        (tmp_path / "elsewhere").mkdir()
        monkeypatch.chdir(tmp_path / "elsewhere")
        enqueue(store)
        assert queued(store) == 2


# Sharing one transaction


def test_operations_that_wait_together_fail_alone(store):
    enqueue(store, key="taken")
    with busy_thread(store):
        futures = [
            submit(store, job_type="a"),
            submit(store, job_type="b", priority=1099),
            submit(store, job_type="c", key="taken", on_conflict="raise"),
            submit(store, job_type="d"),
        ]
    errors = [type(future.exception(30)) for future in futures]
    assert errors == [type(None), InvalidJob, DuplicateJob, type(None)]
    stored = store.run(lambda: listing.list_jobs(JobFilter()), write=False)
    assert sorted(job.job_type for job in stored) == ["a", "d", "t", "t"]


def test_operations_that_wait_together_are_committed_together(store):
    commits = []
    with busy_thread(store):
        writer(store).set_trace_callback(lambda text: commits.append(text) if text == "COMMIT" else None)
        futures = [submit(store) for _ in range(50)]
    assert {future.result(30).created for future in futures} == {True}
    writer(store).set_trace_callback(None)
    assert len(commits) <= 2  # The one that was under way, and one for all the others.


def test_a_row_that_breaks_a_constraint_speaks_in_onwards_words(store):
    job_id = enqueue(store)
    with pytest.raises(StoreError, match="UNIQUE"):
        store.run(lambda: enqueuing.enqueue(NewJob(job_type="t"), job_id))
    enqueue(store)
    assert queued(store) == 2


def test_sixteen_threads_share_one_writer(store):
    def some(n: int) -> list[str]:
        return [enqueue(store, key=f"{n}-{m}") for m in range(25)]

    with ThreadPoolExecutor(16) as pool:
        made = [job_id for some_ids in pool.map(some, range(16)) for job_id in some_ids]
    assert len(set(made)) == queued(store) == 400


# Life of the store


def test_close_finishes_what_was_handed_over(path):
    store = SqliteStore(path)
    with busy_thread(store):
        futures = [submit(store) for _ in range(300)]
        closing = threading.Thread(target=store.close)
        closing.start()
    closing.join(30)
    assert [future.result(0).created for future in futures] == [True] * 300
    with opened(path) as again:
        assert queued(again) == 301


def test_whatever_is_submitted_while_closing_is_done_or_refused(path):
    for _ in range(20):
        store = SqliteStore(path)
        enqueue(store)
        start = threading.Barrier(5)

        def some(store: SqliteStore = store, start: threading.Barrier = start) -> int:
            start.wait(30)
            done = 0
            with contextlib.suppress(StoreClosed):
                while True:
                    enqueue(store)
                    done += 1
            return done

        with ThreadPoolExecutor(4) as pool:
            threads = [pool.submit(some) for _ in range(4)]
            start.wait(30)
            store.close()
            assert all(thread.result(30) >= 0 for thread in threads)


def test_a_closed_store_refuses_work_and_may_be_closed_again(path, store):
    enqueue(store)
    store.close()
    store.close()
    for write in (True, False):
        with pytest.raises(StoreClosed, match="open a new one"):
            store.run(inspect.count, write=write)


def test_a_store_that_was_never_used_can_be_closed_and_makes_no_file(path):
    store = SqliteStore(path)
    store.close()
    with pytest.raises(StoreClosed):
        enqueue(store)
    assert not path.exists()


@pytest.mark.anyio
async def test_an_await_that_is_cancelled_costs_neither_the_thread_nor_its_neighbours(path):
    store = AsyncSqliteStore(path)
    entered, leave = threading.Event(), threading.Event()
    try:
        await store.run(lambda: enqueuing.enqueue(NewJob(job_type="t"), ids.make()))
        running = asyncio.ensure_future(store.run(lambda: held(entered, leave)))
        await asyncio.to_thread(entered.wait, 30)
        waiting = asyncio.ensure_future(
            store.run(lambda: enqueuing.enqueue(NewJob(job_type="no"), ids.make()))
        )
        neighbour = asyncio.ensure_future(
            store.run(lambda: enqueuing.enqueue(NewJob(job_type="t"), ids.make()))
        )
        await asyncio.sleep(0)
        running.cancel()
        waiting.cancel()
        await asyncio.wait({running, waiting})
        leave.set()
        assert (await neighbour).created
        counts = await store.run(inspect.count, write=False)
        assert counts.total(JobState.QUEUED) == 2
    finally:
        leave.set()
        await store.close()


@pytest.mark.anyio
async def test_many_tasks_open_one_store_at_once(path):
    async with AsyncClient(f"sqlite:///{path}") as client:
        made = await asyncio.gather(*(client.enqueue(NewJob(job_type="t")) for _ in range(50)))
        assert len({enqueued.id for enqueued in made}) == 50


SCANS = {f"SCAN {table}" for table in ("onward_live", "live", "onward_ended", "ended", "onward_audit")}
SOME_ENDS = [
    End(str(number), number, 1, Transition(state, "job.ended", "outcome", 1, 0, 0))
    for number, state in enumerate([JobState.SUCCEEDED, JobState.DEAD, JobState.QUEUED, JobState.SCHEDULED])
]


def test_no_hot_statement_reads_the_whole_table(tmp_path):
    store = SqliteStore(tmp_path / "onward.db")
    store.migrate()
    queries = catalogue("sqlite", "question", store.prefix)
    hot = [
        claim.claim("q", 5, worker_id="w"),
        rescue.promote(),
        rescue.find_lost(),
        listing.list_jobs(JobFilter()),
        enqueuing.enqueue(NewJob(job_type="t"), ids.make()),
        enqueuing.enqueue(NewJob(job_type="t", key="k"), ids.make()),
        finish.finish(SOME_ENDS),
    ]
    with contextlib.closing(store.file.connect()) as connection:
        for statement in map(next, hot):
            assert isinstance(statement, Statement)
            for call in calls(queries[statement.name], statement):
                plan = [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {call.text}", call.rows[0])]
                assert not SCANS.intersection(plan), statement.name


def test_a_set_that_is_too_large_for_one_text_is_written_in_parts(tmp_path, monkeypatch):
    monkeypatch.setattr(driver_calls, "_LARGEST_SET", 200)
    with Client(f"sqlite:///{tmp_path}/onward.db") as client:
        client.worker.register("w")
        client.enqueue_many([NewJob(job_type="t")] * 9)
        jobs = client.worker.claim("q:default", 9, worker_id="w")
        client.worker.finish([jobs[3].end_with(Succeeded())])
        ends = [job.end_with(Succeeded("x" * 50 * n) if n % 2 else Snooze(n)) for n, job in enumerate(jobs)]
        answer = client.worker.finish(ends)
        assert answer.lost == {jobs[3].id}
        assert len(answer.held) == 8
        assert [client.jobs.get(job.id).result for job in jobs[1::2]] == [
            "x" * 50,
            None,
            "x" * 250,
            "x" * 350,
        ]
        assert client.jobs.count().total(JobState.SCHEDULED) == 4
