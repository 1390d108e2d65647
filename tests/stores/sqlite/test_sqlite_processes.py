"""A SQLite file among processes: shared, locked, forked, and whole after a death."""

import contextlib
import sqlite3
import threading
from pathlib import Path

import pytest

from onward import JobFilter, JobState
from onward.errors import StoreBusy
from onward.operations.jobs import inspect, listing
from tests.stores.sqlite.using_sqlite import (
    enqueue,
    exit_code,
    integrity,
    opened,
    process,
    queued,
    submit,
    writer,
)

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


# Many processes


WORKER = """
import sys
from onward import Client, NewJob, Succeeded
path, name = sys.argv[1:]
client = Client(f"sqlite:///{path}")
print("ready", flush=True)
sys.stdin.readline()
client.worker.register(name)
for n in range(50):
    client.enqueue(NewJob(job_type=name, payload={"n": n}))
    for job in client.worker.claim("q:default", 3, worker_id=name):
        client.worker.finish([job.end_with(Succeeded({"by": name}))]).require()
        print(job.id, flush=True)
client.close()
"""


def test_four_processes_work_on_one_new_file_and_every_job_ends_once(path, store):  # F30, S0-53, S1-22
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


# Forks


FORKED = """
import os, sys
from onward import Client, NewJob
from onward.errors import StoreClosed
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
    jobs = store.run(lambda: listing.list_jobs(JobFilter()), write=False)
    assert sorted(job.job_type for job in jobs) == ["own", "parent", "parent"]
