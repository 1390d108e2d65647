"""SQLite files that can't be trusted: taken away, damaged, out of reach or out of space."""

import os
import shutil
import sqlite3
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest

from onward import JobFilter, NewJob
from onward.errors import StorageFull, StoreError, StoreUnreachable
from onward.operations.jobs import enqueue as enqueuing
from onward.operations.jobs import inspect, listing
from onward.operations.statement import Operation
from onward.stores.sqlite import file
from onward.stores.sqlite.file import translated
from tests.stores.sqlite.using_sqlite import enqueue, held, ids, integrity, opened, queued, writer


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
        again.run(lambda: listing.list_jobs(JobFilter(), limit=1000), write=False)


def test_a_connection_that_met_damage_is_not_used_again(path, store):  # F35, F36
    def damaged() -> Operation[None]:
        yield from inspect.count()
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
    monkeypatch.setattr(file, "_MOUNTS", table)
    with opened(folder / "onward.db") as store:
        if refused is None:
            enqueue(store)
            return
        with pytest.raises(StoreUnreachable, match=f"is on {refused}, whose locks"):
            enqueue(store)
        assert not (folder / "onward.db").exists()


@pytest.mark.parametrize(("blocks", "expected"), [(0, StorageFull), (1_000_000, StoreError)])
def test_an_error_of_the_disk_is_a_full_disk_if_no_room_is_left(path, blocks, expected, monkeypatch):  # F33
    error = sqlite3.OperationalError("disk I/O error")
    error.sqlite_errorname = "SQLITE_IOERR_WRITE"
    here = os.statvfs(path.parent)
    seen = SimpleNamespace(f_bavail=blocks, f_frsize=here.f_frsize)
    monkeypatch.setattr("onward.stores.sqlite.file.os.statvfs", lambda _: seen)
    assert type(translated(error, path)) is expected


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
