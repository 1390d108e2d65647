"""The log beside a SQLite file: folded before it grows, by one at a time."""

import contextlib
import sqlite3
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest

from onward.stores.sqlite import file
from onward.stores.sqlite.file import SqliteFile
from onward.stores.sqlite.sqlite_store import SqliteStore
from tests.stores.sqlite.using_sqlite import enqueue, opened, process, queued


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
    monkeypatch.setattr(file, "_FOLD_BYTES", 100_000)
    return 100_000


def sizes_after(path: Path, writes: int) -> list[int]:
    """Tell how large the log was after each of so many writes."""
    sizes = []
    with opened(path) as store:
        for _ in range(writes):
            enqueue(store, payload={"text": "x" * 20_000})
            # The writer folds after it has answered; it has folded when it answers again.
            enqueue(store)
            sizes.append(log_size(path))
    return sizes


def test_the_log_is_folded_before_it_grows(path, small_folds):  # F32
    sizes = sizes_after(path, 30)
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


def test_a_folded_log_is_written_over_and_cut_when_it_has_doubled(path, small_folds):
    sizes = sizes_after(path, 60)
    grown = [after - before for before, after in pairwise(sizes)]
    assert grown.count(0) > 20, "most writes go over what was folded"
    assert any(growth < 0 for growth in grown), "it is cut"
    assert max(sizes) < 3 * small_folds


def test_a_folded_log_begins_anew_before_anybody_else_may_fold_it(path, small_folds):
    file = SqliteFile(path)
    file.create()
    with contextlib.closing(file.connect()) as connection:
        connection.execute("PRAGMA user_version = 42")
        connection.execute("CREATE TABLE t AS SELECT zeroblob(110000)")
        file.fold_log(connection)
        [_, pages, moved] = connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
        assert (pages, moved) == (1, 1), "one page was written since, the version as it was"
        assert connection.execute("PRAGMA user_version").fetchone() == (42,)


def test_a_log_that_cannot_begin_anew_costs_the_writer_its_connection(path, small_folds, monkeypatch):
    def fails(_: sqlite3.Connection) -> None:
        raise sqlite3.OperationalError("disk I/O error")

    with opened(path) as store:
        enqueue(store)
        monkeypatch.setattr(file, "_begin_anew", fails)
        before = queued(store)
        for _ in range(10):
            enqueue(store, payload={"text": "x" * 20_000})
        assert queued(store) == before + 10
