"""Worker processes whose SQLite file is locked, removed, or on a full disk."""

from __future__ import annotations

import shutil
import signal
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from onward import JobState
from onward.errors import StorageFull
from tests.worker.faults.faults_history import broken
from tests.worker.faults.place import Place, fresh_place, may_mount, small_disk, until


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    """Empty tables on SQLite."""
    with fresh_place(f"sqlite:///{tmp_path}/onward.db", "onward") as place:
        yield place


# F31
def test_a_writer_that_holds_the_file_for_longer_than_the_lease_stops_nothing_for_good(place, tmp_path):
    gate = tmp_path / "gate"
    with place.worker("--lease", "2s") as worker:
        long = place.put("waits", gate=str(gate))
        worker.wait_for("began waits")
        with closing(sqlite3.connect(tmp_path / "onward.db", isolation_level=None)) as holder:
            holder.execute("BEGIN IMMEDIATE")
            gate.touch()
            since = time.monotonic()
            until(lambda: time.monotonic() - since > 3.0)
            assert place.state(long) == JobState.RUNNING
            holder.execute("ROLLBACK")
        freed = time.monotonic()
        after = place.put("step")
        until(lambda: place.ended() == 2, about=place.client.jobs.count)
        assert time.monotonic() - freed < 3.0
        worker.send(signal.SIGTERM)
        assert worker.end() == 0
    assert broken(place.client, [long, after]) == []


def test_a_folder_that_is_removed_makes_the_worker_loud(tmp_path):  # F36
    folder = tmp_path / "gone"
    folder.mkdir()
    with fresh_place(f"sqlite:///{folder}/onward.db", "onward") as place, place.worker() as worker:
        first = place.put("step")
        until(lambda: place.state(first) == JobState.SUCCEEDED)
        shutil.rmtree(folder)
        assert "was removed or replaced while open" in worker.wait_for("database trouble")
        worker.send(signal.SIGTERM)
        assert worker.end() == 5
        assert not folder.exists(), "no empty database took its place"


def fill(path: Path) -> None:
    """Write until there is no space."""
    with path.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(4096))
        except OSError:
            return


if may_mount():

    def test_a_full_disk_is_told_and_work_goes_on_when_there_is_space(tmp_path):  # F33
        disk = tmp_path / "small"
        disk.mkdir()
        gate, filler = tmp_path / "gate", disk / "filler"
        with small_disk(disk, 2), fresh_place(f"sqlite:///{disk}/onward.db", "onward") as place:
            with place.worker() as worker:
                long = place.put("waits", gate=str(gate))
                worker.wait_for("began waits")
                fill(filler)
                accepted = place.put_until(StorageFull)
                gate.touch()
                worker.wait_for("StorageFull")
                filler.unlink()
                freed = time.monotonic()
                after = place.put("step")
                ids = [long, after, *accepted]
                until(lambda: place.ended() == len(ids), about=place.client.jobs.count)
                assert time.monotonic() - freed < 5.0
                worker.send(signal.SIGTERM)
                assert worker.end() == 0
            assert broken(place.client, ids) == []
            assert place.client.jobs.get(long).attempt == 1
            assert place.query("PRAGMA integrity_check") == [("ok",)]
