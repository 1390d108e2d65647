"""The SQLite store: durable, shared, and loud about a file that it can't trust."""

import asyncio
import contextlib
import os
import shutil
import sqlite3
import stat
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from onward import AsyncClient, Enqueued, JobFilter, JobState, NewJob
from onward.connections.parameters import calls
from onward.core.ids import IdMaker
from onward.errors import (
    DuplicateJob,
    InvalidJob,
    StorageFull,
    StoreBusy,
    StoreClosed,
    StoreError,
    StoreUnreachable,
)
from onward.operations import enqueue as enqueuing
from onward.operations import inspect, rescue, work
from onward.operations.statement import Operation
from onward.sql.catalogue import catalogue
from onward.stores import sqlite_file
from onward.stores.sqlite import AsyncSqliteStore, SqliteStore
from onward.stores.sqlite_file import SqliteFile

ids = IdMaker(iter(range(10**18, 2 * 10**18, 10**6)).__next__, os.urandom)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "onward.db"


@pytest.fixture
def store(path: Path) -> Iterator[SqliteStore]:
    with opened(path) as store:
        yield store


@contextlib.contextmanager
def opened(path: Path, **options: Any) -> Iterator[SqliteStore]:
    store = SqliteStore(path, **options)
    try:
        yield store
    finally:
        store.close()


def enqueue(store: SqliteStore, **fields: Any) -> str:
    return submit(store, **fields).result(60).id


def submit(store: SqliteStore, **fields: Any) -> Future[Enqueued]:
    """Hand a job over without waiting for it."""
    new, job_id = NewJob(**{"job_type": "t"} | fields), ids.make()
    return store._submit(lambda: enqueuing.enqueue(new, job_id), write=True)


def queued(store: SqliteStore) -> int:
    return store.run(inspect.count, write=False).total(JobState.QUEUED)


def writer(store: SqliteStore) -> sqlite3.Connection:
    assert store._threads is not None
    connection = store._threads[1]._connection
    assert connection is not None
    return connection


def held(entered: threading.Event, leave: threading.Event) -> Operation[None]:
    """An operation that keeps its thread busy, so that what is submitted meanwhile is served together."""
    entered.set()
    assert leave.wait(30)
    yield from ()


@contextlib.contextmanager
def busy_thread(store: SqliteStore, *, write: bool = True) -> Iterator[None]:
    enqueue(store)
    entered, leave = threading.Event(), threading.Event()
    future = store._submit(lambda: held(entered, leave), write=write)
    assert entered.wait(30)
    try:
        yield
    finally:
        leave.set()
        future.result(30)


def process(program: str, *arguments: object, **options: Any) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", program, *map(str, arguments)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, **options)


def exit_code(child: subprocess.Popen[str]) -> int:
    try:
        child.communicate(timeout=60)
    finally:
        child.kill()
    return child.returncode


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


# Durability


KILLED = """
import os, signal, sys
from onward import Client, NewJob
client = Client(f"sqlite:///{sys.argv[1]}")
for n in range(20):
    print(client.enqueue(NewJob(job_type="t", payload={"n": n})).id, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_what_was_acknowledged_survives_the_death_of_the_process(path, store):
    child = process(KILLED, path)
    out, _ = child.communicate(timeout=60)
    acknowledged = out.split()
    assert child.returncode == -9
    assert len(acknowledged) == 20
    found = store.run(lambda: inspect.get_many(acknowledged), write=False)
    assert [found[job_id].payload["n"] for job_id in acknowledged] == list(range(20))
    assert integrity(path) == "ok"


def integrity(path: Path) -> str:
    with contextlib.closing(sqlite3.connect(path)) as connection:
        return str(connection.execute("PRAGMA integrity_check").fetchone()[0])


OTHER_PROCESS = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1])
connection.execute("SELECT count(*) FROM onward_live").fetchall()
connection.close()
"""


def test_a_second_store_in_the_process_does_not_drop_the_locks_of_the_first(path, store):
    enqueue(store)
    log = Path(f"{path}-wal").stat().st_ino
    with opened(path) as second:
        enqueue(second)
        # The last connection to leave a file takes its log away; this one is not the last.
        assert exit_code(process(OTHER_PROCESS, path)) == 0
        assert Path(f"{path}-wal").stat().st_ino == log
    enqueue(store)
    assert queued(store) == 3


# Sharing one transaction


def test_operations_that_wait_together_fail_alone(store):
    enqueue(store, key="taken")
    with busy_thread(store):
        futures = [
            submit(store, job_type="a"),
            submit(store, job_type="b", priority=99),
            submit(store, job_type="c", key="taken", on_conflict="raise"),
            submit(store, job_type="d"),
        ]
    errors = [type(future.exception(30)) for future in futures]
    assert errors == [type(None), InvalidJob, DuplicateJob, type(None)]
    stored = store.run(lambda: inspect.list_jobs(JobFilter()), write=False).jobs
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


# Many processes


WORKER = """
import sys
from onward import Client, NewJob, Succeeded
path, name = sys.argv[1:]
client = Client(f"sqlite:///{path}")
print("ready", flush=True)
sys.stdin.readline()
client.register(name)
for n in range(50):
    client.enqueue(NewJob(job_type=name, payload={"n": n}))
    for job in client.claim("q:default", 3, worker_id=name):
        client.finish([(job, Succeeded({"by": name}))]).require()
        print(job.id, flush=True)
client.close()
"""


def test_four_processes_work_on_one_new_file_and_every_job_ends_once(path, store):  # F30
    workers = [process(WORKER, path, f"w{n}") for n in range(4)]
    for worker in workers:
        assert worker.stdout.readline() == "ready\n"
    for worker in workers:
        worker.stdin.write("go\n")
        worker.stdin.flush()
    finished = [job_id for worker in workers for job_id in worker.communicate(timeout=120)[0].split()]
    assert [worker.returncode for worker in workers] == [0] * 4
    counts = store.run(inspect.count, write=False)
    assert len(finished) == len(set(finished)) == counts.total(JobState.SUCCEEDED)
    assert counts.total(JobState.SUCCEEDED) + counts.total(JobState.QUEUED) == 200
    assert counts.total(JobState.RUNNING) == 0


def test_a_lock_that_is_held_too_long_is_reported_and_forgotten(path):  # F31
    with opened(path, busy_seconds=0.05) as store:
        enqueue(store)
        with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            with pytest.raises(StoreBusy, match="held by another writer"):
                enqueue(store)
            assert queued(store) == 1
            other.execute("ROLLBACK")
        enqueue(store)
        assert queued(store) == 2


def test_a_lock_that_is_let_go_in_time_is_waited_for(path, store):
    enqueue(store)
    with contextlib.closing(sqlite3.connect(path, isolation_level=None, check_same_thread=False)) as other:
        other.execute("BEGIN IMMEDIATE")
        refused = threading.Event()
        writer(store).set_trace_callback(lambda text: refused.set())
        future = submit(store)
        assert refused.wait(30)
        other.execute("ROLLBACK")
        assert future.result(30).created


# Files that are not what they were


@pytest.mark.parametrize("write", [True, False], ids=["write", "read"])
@pytest.mark.parametrize("replaced", [True, False], ids=["replaced", "deleted"])
def test_a_file_that_is_taken_away_is_never_made_anew(path, store, write, replaced):  # F36
    enqueue(store)
    assert queued(store) == 1
    path.unlink()
    if replaced:
        path.touch()
    operation = (lambda: enqueuing.enqueue(NewJob(job_type="t"), ids.make())) if write else inspect.count
    for _ in range(2):
        with pytest.raises(StoreUnreachable, match=r"onward\.db or its -wal was removed or replaced"):
            store.run(operation, write=write)
    with pytest.raises(StoreUnreachable, match="removed or replaced"):
        store.migrate()
    assert path.exists() == replaced
    assert not replaced or path.stat().st_size == 0


def test_a_file_that_is_put_back_is_used_again(path, store):  # F36
    enqueue(store)
    path.rename(f"{path}.away")
    with pytest.raises(StoreUnreachable):
        queued(store)
    Path(f"{path}.away").rename(path)
    assert queued(store) == 1


def test_a_file_taken_away_in_the_middle_of_a_write_is_not_acknowledged(path, store):  # F36
    enqueue(store)
    entered, leave = threading.Event(), threading.Event()
    future = store._submit(lambda: held(entered, leave), write=True)
    assert entered.wait(30)
    path.unlink()
    leave.set()
    assert isinstance(future.exception(30), StoreUnreachable)


def test_a_log_that_is_deleted_is_noticed_and_costs_no_acknowledged_job(path, store):  # F36
    kept = enqueue(store)
    assert queued(store) == 1
    Path(f"{path}-wal").unlink()
    for _ in range(2):
        with pytest.raises(StoreUnreachable, match="-wal was removed"):
            enqueue(store)
    # As if the process died now: what is in the file is all that is left.
    shutil.copy(path, copy := path.with_name("copy.db"))
    with pytest.raises(StoreUnreachable, match="-wal was removed"):
        queued(store)
    store.close()
    with opened(copy) as again:
        assert list(again.run(lambda: inspect.get_many([kept]), write=False)) == [kept]
        assert queued(again) == 1
    assert integrity(path) == integrity(copy) == "ok"


def test_a_damaged_header_is_reported_and_left_alone(path, store):  # F36
    enqueue(store)
    store.close()
    with path.open("r+b") as file:
        file.write(b"no database at all")
    before = path.read_bytes()
    with opened(path) as again:
        for refused in (lambda: queued(again), lambda: enqueue(again), again.plan, again.migrate):
            with pytest.raises(StoreUnreachable, match=r"damaged or no SQLite database: .*backup"):
                refused()
    assert path.read_bytes() == before


def test_a_damaged_page_is_reported(path, store):  # F36
    for _ in range(200):
        enqueue(store, payload={"text": "x" * 500})
    store.close()
    with path.open("r+b") as file:
        file.seek(4096)
        file.write(b"\xff" * (path.stat().st_size - 4096))
    with opened(path) as again, pytest.raises(StoreError, match=r"onward\.db"):
        again.run(lambda: inspect.list_jobs(JobFilter(), limit=1000), write=False)


def test_a_connection_that_met_damage_is_not_used_again(path, store):  # F35, F36
    def damaged() -> Operation[None]:
        yield from ()
        raise sqlite3.DatabaseError("database disk image is malformed")

    enqueue(store)
    with pytest.raises(StoreError, match="malformed"):
        store.run(damaged)
    assert store._threads[1]._connection is None
    enqueue(store)
    assert queued(store) == 2


def test_a_missing_folder_is_named(tmp_path):  # F37
    with (
        opened(tmp_path / "no" / "onward.db") as store,
        pytest.raises(StoreUnreachable, match=r"/no is not a folder; make it"),
    ):
        enqueue(store)
    assert not (tmp_path / "no").exists()


def test_a_folder_in_place_of_the_file_is_refused(tmp_path):  # F37
    with opened(tmp_path) as store, pytest.raises(StoreUnreachable, match="it is no file"):
        enqueue(store)


def test_a_file_that_may_not_be_written_is_refused(path, monkeypatch):  # F37
    path.touch()
    # The superuser may write everything, so the answer of the system is put in.
    monkeypatch.setattr(os, "access", lambda *_: False)
    with opened(path) as store, pytest.raises(StoreUnreachable, match="not yours to write"):
        enqueue(store)


@pytest.mark.parametrize(
    ("mounts", "refused"),
    [
        ("a / ext4 rw\nb {} nfs4 rw\n", "nfs4"),
        ("b {} nfs4 rw\nc {} ext4 rw\n", None),
        ("a / nfs rw\nb {} xfs rw\n", None),
        ("a / cifs rw\n", "cifs"),
        ("", None),
    ],
    ids=["nfs", "hidden by a later mount", "a local disk below nfs", "everything", "unknown"],
)
def test_a_network_file_system_is_refused(tmp_path, monkeypatch, mounts, refused):  # F37
    table, folder = tmp_path / "mounts", tmp_path / "a folder"
    folder.mkdir()
    table.write_text(mounts.replace("{}", str(folder).replace(" ", "\\040")))
    monkeypatch.setattr(sqlite_file, "_MOUNTS", table)
    with opened(folder / "onward.db") as store:
        if refused is None:
            enqueue(store)
            return
        with pytest.raises(StoreUnreachable, match=f"is on {refused}, whose locks"):
            enqueue(store)
        assert not (folder / "onward.db").exists()


def test_a_full_disk_loses_nothing_and_work_goes_on_after(path, store):  # F33
    kept = enqueue(store)
    [pages] = writer(store).execute("PRAGMA page_count").fetchone()
    writer(store).execute(f"PRAGMA max_page_count = {pages}")
    with pytest.raises(StorageFull, match="no space is left"):
        enqueue(store, payload={"text": "x" * 100_000})
    assert queued(store) == 1
    # The connection was dropped, and with it the limit.
    enqueue(store, payload={"text": "x" * 100_000})
    assert queued(store) == 2
    assert list(store.run(lambda: inspect.get_many([kept]), write=False)) == [kept]


# The log


def log_size(path: Path) -> int:
    return Path(f"{path}-wal").stat().st_size


def write_until(store: SqliteStore, reached: Callable[[], bool]) -> None:
    """Enqueue until something has happened to the log."""
    for _ in range(100):
        if reached():
            return
        enqueue(store, payload={"text": "x" * 20_000})
    raise AssertionError("it never happened")


@pytest.fixture
def small_folds(monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(sqlite_file, "_FOLD_BYTES", 100_000)
    return 100_000


def test_the_log_is_folded_before_it_grows(path, small_folds):  # F32
    sizes = []
    with opened(path) as store:
        for _ in range(30):
            enqueue(store, payload={"text": "x" * 20_000})
            queued(store)
            sizes.append(log_size(path))
    assert max(sizes) < 2 * small_folds
    assert path.stat().st_size > 30 * 20_000


def test_a_log_that_a_reader_held_open_is_folded_when_the_reader_is_gone(path, small_folds):  # F32
    with opened(path) as store:
        enqueue(store)
        with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as reader:
            reader.execute("BEGIN")
            reader.execute("SELECT count(*) FROM onward_live").fetchall()
            write_until(store, lambda: log_size(path) > 5 * small_folds)
        write_until(store, lambda: log_size(path) < small_folds)


def test_only_one_folds_at_a_time(path, small_folds):  # F38
    with opened(path) as store:
        enqueue(store)
        other = process(
            "import fcntl, sys; lock = open(sys.argv[1], 'w'); fcntl.flock(lock, fcntl.LOCK_EX);"
            "print('held', flush=True); sys.stdin.readline()",
            f"{path}-checkpoint",
        )
        assert other.stdout.readline() == "held\n"
        write_until(store, lambda: log_size(path) > 3 * small_folds)
        other.communicate("\n", timeout=60)
        write_until(store, lambda: log_size(path) < small_folds)


def test_a_log_that_another_folded_is_watched_from_its_new_size(path, small_folds):
    file = SqliteFile(path)
    file.create()
    with contextlib.closing(file.connect()) as connection:
        file._fold_at = 10 * small_folds
        file.fold_log(connection)
        assert file._fold_at == small_folds


def test_a_fold_that_fails_does_not_stop_the_writer(path, small_folds):
    with opened(path) as store:
        enqueue(store)
        Path(f"{path}-checkpoint").mkdir()
        write_until(store, lambda: log_size(path) > 3 * small_folds)
        assert queued(store) > 1


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


FORKED = """
import os, sys
from onward import Client, NewJob, StoreClosed
client = Client(f"sqlite:///{sys.argv[1]}")
client.enqueue(NewJob(job_type="parent"))
child = os.fork()
if not child:
    try:
        client.enqueue(NewJob(job_type="child"))
    except StoreClosed as error:
        client.close()
        with Client(f"sqlite:///{sys.argv[1]}") as own:
            own.enqueue(NewJob(job_type="own"))
        os._exit(7 if "fork" in str(error) else 8)
    os._exit(9)
_, status = os.waitpid(child, 0)
client.enqueue(NewJob(job_type="parent"))
client.close()
sys.exit(os.waitstatus_to_exitcode(status))
"""


def test_a_forked_child_is_told_to_open_its_own_store(path, store):
    # From Python 3.12 on a fork beside threads warns, and rightly so.
    assert exit_code(process(f"import warnings; warnings.simplefilter('ignore')\n{FORKED}", path)) == 7
    jobs = store.run(lambda: inspect.list_jobs(JobFilter()), write=False).jobs
    assert sorted(job.job_type for job in jobs) == ["own", "parent", "parent"]


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


def test_no_hot_statement_reads_the_whole_table(tmp_path):
    store = SqliteStore(tmp_path / "onward.db")
    store.migrate()
    queries = catalogue("sqlite", "question", store.prefix)
    hot = [
        work.claim("q", 5, worker_id="w"),
        rescue.promote(),
        rescue.find_lost(),
        inspect.list_jobs(JobFilter()),
    ]
    with contextlib.closing(store.file.connect()) as connection:
        for statement in map(next, hot):
            for call in calls(queries[statement.name], statement):
                plan = [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {call.text}", call.rows[0])]
                assert not {"SCAN onward_live", "SCAN live", "SCAN ended"}.intersection(plan), statement.name
