"""Artifacts in an object store: a bucket of this machine, over HTTP, and the stores of obstore itself."""

from __future__ import annotations

import sys
import time
from datetime import timedelta
from pathlib import Path

import pytest
from obstore.store import LocalStore, MemoryStore

from onward import Client, InvalidSetting
from onward.blobs import key_of, open_blobs
from onward.blobs.content import Blob
from onward.blobs.objects import ObjectBlobs
from onward.core.policy.policies import Policies
from onward.errors import ArtifactCorrupt, MissingExtra, StoreUnreachable
from tests.records.artifacts.bucket import Bucket, bucket
from tests.records.artifacts.files import LARGE

PIECE = 1_048_576


@pytest.fixture(params=["memory", "local"])
def blobs(request: pytest.FixtureRequest, tmp_path: Path) -> ObjectBlobs:
    store = MemoryStore() if request.param == "memory" else LocalStore(str(tmp_path))
    return ObjectBlobs(store, request.param)


@pytest.fixture
def s3(monkeypatch: pytest.MonkeyPatch):
    with bucket() as served:
        for name, value in {
            "ENDPOINT": served.url, "ALLOW_HTTP": "true", "REGION": "us-east-1", "ACCESS_KEY_ID": "key",
            "SECRET_ACCESS_KEY": "not-a-secret",
        }.items():  # fmt: skip
            monkeypatch.setenv(f"AWS_{name}", value)
        open_blobs.cache_clear()
        yield served
        open_blobs.cache_clear()


@pytest.fixture
def own(client: Client, s3: Bucket) -> Client:
    return Client(store=client.store, policies=Policies.of(artifacts="s3://files/below/here"))


def test_an_object_is_put_read_in_pieces_and_removed_when_it_is_old(blobs):
    content = [b"x" * PIECE, b"y" * PIECE, b"z"]
    blob = blobs.put("i/org", iter(content))
    key = key_of("i/org", blob.sha256)
    assert blob.size == 2 * PIECE + 1
    assert list(blobs.read(key)) == content
    now = time.time()
    assert list(blobs.keys("i", before=now + 60)) == [key]
    assert list(blobs.keys("i", before=now - 60)) == []
    assert list(blobs.keys("other", before=now + 60)) == []
    assert not blobs.remove(key, before=now - 60)
    assert blobs.remove(key, before=now + 60)
    assert not blobs.remove(key, before=now + 60)
    with pytest.raises(FileNotFoundError):
        list(blobs.read(key))


def test_what_is_put_twice_is_one_object(blobs):
    first, second = (blobs.put("i/org", [LARGE]) for _ in range(2))
    assert isinstance(first, Blob)
    assert first == second
    assert len(list(blobs.keys("i", before=time.time() + 60))) == 1


def test_artifacts_are_kept_in_a_bucket(own, s3, kept):
    artifact = own.for_org("acme").artifacts.put("n", LARGE)
    assert artifact.place == "s3://files/below/here"
    [key] = s3.objects
    assert key.startswith("below/here/")
    assert key.endswith(f"/{artifact.sha256[:2]}/{artifact.sha256}")
    assert "acme" not in key
    assert own.artifacts.read(artifact.ref) == LARGE
    assert kept() == []
    s3.objects[key] = (b"!" + LARGE[1:], s3.objects[key][1])
    with pytest.raises(ArtifactCorrupt):
        own.artifacts.read(artifact.id)
    del s3.objects[key]
    with pytest.raises(ArtifactCorrupt, match=r"is not in s3://files/below/here"):
        own.artifacts.read(artifact.id)


def test_a_bucket_is_pruned(own, s3):
    gone, stays = own.artifacts.put("n", LARGE), own.artifacts.put("n", LARGE + b"!")
    own.artifacts.delete(gone.id, reason="why")
    assert own.artifacts.prune().removed == 0
    s3.age(timedelta(days=2))
    assert own.artifacts.prune().removed == 1
    assert own.artifacts.read(stays.id) == LARGE + b"!"


def test_a_bucket_that_refuses_is_told_of_and_no_row_is_left(own, s3):
    s3.broken = True
    with pytest.raises(
        StoreUnreachable, match=r"artifacts in s3://files/below/here can't be reached"
    ) as told:
        own.artifacts.put("n", LARGE)
    assert "not-a-secret" not in str(told.value)
    assert own.artifacts.list().items == []


@pytest.mark.parametrize("place", ["ftp://host/x", "s3://", "s3://key:secret@bucket", "http://host/x"])
def test_a_place_that_is_none_is_refused(place):
    with pytest.raises(InvalidSetting, match="artifacts are to be kept") as told:
        open_blobs(place)
    assert "secret" not in str(told.value)


def test_without_obstore_the_message_names_its_extra(monkeypatch):
    missing = {name: None for name in sys.modules if name.partition(".")[0] == "obstore"}
    for name in missing:
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(MissingExtra, match=r'pip install "onward\[s3\]"'):
        ObjectBlobs.open("s3://bucket")
