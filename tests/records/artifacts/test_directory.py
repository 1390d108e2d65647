"""Files of artifacts in a directory: for their owner alone, whole or not there, and never somewhere else."""

from __future__ import annotations

import fcntl
import logging
import os
import stat
import threading
import time
import tracemalloc
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from onward import Client
from onward.blobs import key_of, open_blobs
from onward.blobs.directory import DirectoryBlobs
from onward.errors import ArtifactCorrupt, StorageFull, StoreUnreachable
from tests.records.artifacts.files import LARGE, files

MB = 1_048_576


@pytest.fixture
def blobs(place: Path) -> DirectoryBlobs:
    return DirectoryBlobs(place)


@pytest.fixture
def local(tmp_path: Path) -> Iterator[Client]:
    with Client(f"sqlite:///{tmp_path}/onward.db") as client:
        yield client


def test_files_and_folders_are_for_their_owner_alone(local, place):  # A28
    before = os.umask(0)
    try:
        local.artifacts.put("n", LARGE)
    finally:
        os.umask(before)
    modes = {path: stat.S_IMODE(path.stat().st_mode) for path in (place, *place.rglob("*"))}
    assert {mode for path, mode in modes.items() if path.is_dir()} == {0o700}
    assert {mode for path, mode in modes.items() if path.is_file()} == {0o600}


def test_a_directory_that_others_can_enter_is_told_of_once(local, place, caplog):  # A28
    place.mkdir(mode=0o755)
    with caplog.at_level(logging.WARNING, "onward.artifacts"):
        local.artifacts.put("n", LARGE)
        local.artifacts.put("n", LARGE)
    assert [record.getMessage() for record in caplog.records] == [
        f"{place} can be entered by others; chmod 700 keeps artifacts to their owner"
    ]


def test_without_a_setting_the_directory_lies_beside_the_sqlite_file(local, tmp_path, monkeypatch):
    monkeypatch.delenv("ONWARD_ARTIFACTS")
    local.artifacts.put("n", LARGE)
    assert len(files(tmp_path / "onward-artifacts")) == 1


def test_two_databases_in_one_directory_leave_each_others_files_alone(local, tmp_path, kept):
    with Client(f"sqlite:///{tmp_path}/other.db") as other:
        theirs = other.artifacts.put("n", LARGE)
        local.artifacts.put("n", LARGE)
        assert len(kept()) == 2
        for file in kept():
            os.utime(file, (0, 0))
        assert local.artifacts.prune().removed == 0
        assert other.artifacts.read(theirs.id) == LARGE


def test_a_folder_that_is_a_link_leads_nowhere(blobs, place, tmp_path):  # A22
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    blobs.put("i/org", [b"first"])
    (place / "i" / "linked").symlink_to(elsewhere)
    with pytest.raises(StoreUnreachable):
        blobs.put("i/linked", [b"x"])
    (elsewhere / "secret").write_bytes(b"secret")
    with pytest.raises(FileNotFoundError):
        list(blobs.read("i/linked/secret"))
    assert not blobs.remove("i/linked/secret", before=time.time() + 60)
    assert [path.name for path in elsewhere.iterdir()] == ["secret"]


@pytest.mark.parametrize("kind", ["link", "pipe", "folder"])
def test_what_lies_in_the_place_of_a_file_is_not_read(local, kept, tmp_path, kind):  # A22
    artifact = local.artifacts.put("n", LARGE)
    [file] = kept()
    file.unlink()
    if kind == "link":
        (tmp_path / "target").write_bytes(LARGE)
        file.symlink_to(tmp_path / "target")
    elif kind == "pipe":
        os.mkfifo(file)
    else:
        file.mkdir()
    with pytest.raises((ArtifactCorrupt, StoreUnreachable)):
        local.artifacts.read(artifact.id)


def test_content_that_breaks_off_leaves_nothing(blobs, place):
    def breaking() -> Iterator[bytes]:
        yield LARGE
        raise ConnectionResetError("the sender is gone")

    with pytest.raises(StoreUnreachable):
        blobs.put("i/org", breaking())
    assert files(place) == []


def test_a_full_disk_is_told_of_and_leaves_nothing(blobs, place):
    def too_much() -> Iterator[bytes]:
        yield LARGE
        raise OSError(28, "No space left on device")

    with pytest.raises(StorageFull, match="nothing was stored"):
        blobs.put("i/org", too_much())
    assert files(place) == []


def test_a_directory_that_can_not_be_made_is_told_of(tmp_path):
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(StoreUnreachable, match="can't be reached"):
        DirectoryBlobs(tmp_path / "file" / "below").put("i/org", [b"x"])


def test_a_file_url_is_a_directory(tmp_path):
    assert open_blobs((tmp_path / "a b").as_uri()).name == (tmp_path / "a b").as_uri()


def test_thirty_megabytes_are_never_in_memory_whole(local, tmp_path):
    source = tmp_path / "source"
    with source.open("wb") as file:
        for n in range(30):
            file.write(bytes([n]) * MB)
    tracemalloc.start()
    try:
        artifact = local.artifacts.put_file("video", source)
        with local.artifacts.open(artifact.id) as copy:
            first = copy.read(1)
        assert local.artifacts.verify().corrupt == ()
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert (first, artifact.size) == (b"\0", 30 * MB)
    assert peak < 6 * MB


def test_eight_threads_that_put_the_same_content_leave_one_file(local, kept):
    together = threading.Barrier(8)

    def put(n: int) -> str:
        together.wait()
        made: str = local.artifacts.put(f"n{n}", LARGE).id
        return made

    with ThreadPoolExecutor(8) as threads:
        ids = list(threads.map(put, range(8)))
    assert len(kept()) == 1
    assert [local.artifacts.read(artifact_id) for artifact_id in ids] == [LARGE] * 8


def test_an_old_file_that_is_being_put_anew_is_not_removed(blobs, place):
    key = key_of("i/org", blobs.put("i/org", [LARGE]).sha256)
    os.utime(place / key, (0, 0))
    with ThreadPoolExecutor(1) as thread, (place / "i/org/.lock").open() as lock:
        # As a put does while it brings its file into place.
        fcntl.flock(lock, fcntl.LOCK_SH)
        removed = thread.submit(blobs.remove, key, before=time.time() - 60)
        with pytest.raises(TimeoutError):
            removed.result(timeout=0.1)
        assert blobs.put("i/org", [LARGE]).size == len(LARGE)
        fcntl.flock(lock, fcntl.LOCK_UN)
        assert removed.result(timeout=10) is False
    assert b"".join(blobs.read(key)) == LARGE


def test_a_file_comes_into_place_only_when_nobody_removes(blobs, place):
    blobs.put("i/org", [b"first"])
    with ThreadPoolExecutor(1) as thread, (place / "i/org/.lock").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        put = thread.submit(blobs.put, "i/org", [LARGE])
        with pytest.raises(TimeoutError):
            put.result(timeout=0.1)
        fcntl.flock(lock, fcntl.LOCK_UN)
        assert b"".join(blobs.read(key_of("i/org", put.result(timeout=10).sha256))) == LARGE


def test_the_age_of_a_file_counts_from_the_end_of_its_put(blobs, place):
    def slowly() -> Iterator[bytes]:
        yield LARGE
        [part] = files(place)
        os.utime(part, (0, 0))

    key = key_of("i/org", blobs.put("i/org", slowly()).sha256)
    assert not blobs.remove(key, before=time.time() - 60)
