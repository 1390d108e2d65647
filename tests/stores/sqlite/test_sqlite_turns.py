"""Who waits for the write lock of a SQLite file is let in by who writes on and on."""

import contextlib
import sqlite3
import stat
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from onward.stores import open_async_store
from onward.stores.sqlite import write_queue
from onward.stores.sqlite.file import SqliteFile
from onward.stores.sqlite.write_queue import WriteQueue
from tests.stores.sqlite.using_sqlite import enqueue, exit_code, opened, process, queued

LONG = 60.0


@pytest.fixture
def connection(path: Path) -> Iterator[sqlite3.Connection]:
    """A connection that holds the lock."""
    file = SqliteFile(path)
    file.create()
    with contextlib.closing(file.connect()) as connection:
        connection.execute("BEGIN IMMEDIATE")
        yield connection


class Waiting:
    """A thread that waits for its turn, and writes when it comes."""

    def __init__(self, path: Path, patience: float) -> None:
        self.looks = threading.Semaphore(0)
        self.wrote = threading.Event()
        self._thread = threading.Thread(target=self._wait, args=(path, patience))
        self._thread.start()

    def _wait(self, path: Path, patience: float) -> None:
        turns = WriteQueue(path, patience)
        with contextlib.closing(SqliteFile(path).connect()) as connection, contextlib.closing(turns):
            connection.set_trace_callback(lambda _: self.looks.release())
            turns.take(connection, LONG)
            self.wrote.set()
            connection.execute("COMMIT")

    def join(self) -> None:
        self._thread.join(LONG)
        assert self.wrote.is_set()


def look_on(waiting: Waiting, times: int) -> None:
    for _ in range(times):
        assert waiting.looks.acquire(timeout=LONG)


def test_who_has_just_written_lets_those_in_who_wait(path, connection, monkeypatch):
    monkeypatch.setattr(write_queue, "_GIVE_WAY_SECONDS", 1.0)
    waiting, turns = Waiting(path, 0.0), WriteQueue(path, 0.0)
    look_on(waiting, 3)
    assert turns.others_wait()
    connection.execute("COMMIT")
    turns.take(connection, LONG)
    assert waiting.wrote.is_set()
    waiting.join()
    assert not turns.others_wait()
    connection.execute("COMMIT")
    turns.close()


def test_who_is_patient_waits_unseen(path, connection):
    waiting, turns = Waiting(path, LONG), WriteQueue(path, 0.0)
    look_on(waiting, 3)
    assert not turns.others_wait()
    connection.execute("COMMIT")
    waiting.join()
    turns.close()


def test_only_what_a_worker_writes_by_hundreds_is_patient(path):
    url = f"sqlite:///{path}"
    assert open_async_store(url, steady=True)._patience > 0  # type: ignore[attr-defined]
    assert open_async_store(url)._patience == 0  # type: ignore[attr-defined]


WAITS = """
import sys
from pathlib import Path
from onward.stores.sqlite.file import SqliteFile
from onward.stores.sqlite.write_queue import WriteQueue
path = Path(sys.argv[1])
connection = SqliteFile(path).connect()
looks = iter(range(100))
connection.set_trace_callback(lambda _: next(looks) == 3 and print("waits", flush=True))
WriteQueue(path, 0.0).take(connection, 60.0)
"""


def test_a_process_that_dies_waits_no_more(path, connection):
    assert connection.in_transaction
    waiting, turns = process(WAITS, path), WriteQueue(path, 0.0)
    assert waiting.stdout.readline() == "waits\n"
    assert turns.others_wait()
    waiting.kill()
    assert exit_code(waiting) == -9
    assert not turns.others_wait()
    turns.close()


def test_the_sign_is_its_owners_alone(path):
    with opened(path) as store:
        enqueue(store)
    assert stat.S_IMODE(Path(f"{path}-turns").stat().st_mode) == 0o600


def test_where_nothing_can_be_shown_the_lock_is_had_by_luck(path, connection):
    Path(f"{path}-turns").mkdir()
    waiting = Waiting(path, 0.0)
    look_on(waiting, 3)
    connection.execute("COMMIT")
    waiting.join()
    with opened(path) as store:
        enqueue(store)
        assert queued(store) == 1
