"""S4-13, S4-14, S4-15: inputs and outputs are stored with checksums, and read by those who may."""

from __future__ import annotations

import hashlib
import io
import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from onward import Client, InvalidJob, InvalidSetting, JobNotFound, NewJob, NotAllowed
from onward.core.policy.policies import Policies
from onward.errors import ArtifactCorrupt, ArtifactNotFound, ContractBroken
from tests.jobs.inspect.reading import rows
from tests.records.artifacts.files import LARGE

NOW = datetime(2026, 1, 2, tzinfo=UTC)
SIZES = [b"", b"abc", b"x" * 16_384, b"x" * 16_385, LARGE]
HOSTILE = [
    "../../etc/passwd", "/etc/passwd", "..", ".", "a/b\\c", "C:\\x", "\x1b[31mred", "line\nbreak", "é" * 127,
    "<script>alert(1)</script>", "name.html", "  ", "%2e%2e%2f", "con", ".lock",
]  # fmt: skip

WRONG: list[tuple[dict[str, Any], str]] = [
    ({}, "exactly one of"),
    ({"data": b"", "text": ""}, "exactly one of"),
    ({"data": "text"}, "data is a str; give bytes"),
    ({"data": 5}, "data is an int; give bytes"),
    ({"file": 5}, "give bytes or an open binary file"),
    ({"file": ["text"]}, "a piece of an artifact is a str"),
    ({"text": b""}, "give a str"),
    ({"file": "/dev"}, "is no file"),
    ({"file": "missing"}, "is no file"),
    ({"text": "", "content_type": "text/html\r\nX-Bad: 1"}, "content_type"),
    ({"text": "", "content_type": "html"}, "content_type"),
    ({"text": "", "roles": "finance"}, "roles"),
    ({"text": "", "roles": []}, "roles"),
    ({"text": "", "expires": 0}, "a time in the future"),
    ({"text": "", "expires": "2026-13-01T00:00:00Z"}, "RFC 3339"),
    ({"text": "", "expires": "2026-01-01T00:00:00"}, "a time zone"),
    ({"text": "", "expires": "soon"}, "expires"),
]


def test_what_was_put_comes_back_with_its_checksum(client):  # S4-14
    for content in SIZES:
        artifact = client.for_org("acme").artifacts.put("input.bin", content, content_type="image/png")
        assert artifact.sha256 == hashlib.sha256(content).hexdigest()
        assert (artifact.size, artifact.org_id, artifact.content_type) == (len(content), "acme", "image/png")
        assert client.artifacts.get(artifact.id) == artifact
        for which in (artifact, artifact.id, artifact.ref):
            assert client.artifacts.read(which) == content
        with client.artifacts.open(artifact.id) as file:
            assert file.read() == content


def test_small_content_is_in_the_database_and_large_content_in_a_file(client, kept):
    assert client.artifacts.put("small", b"x" * 16_384).place == "database"
    assert kept() == []
    assert client.artifacts.put("large", b"x" * 16_385).place.startswith("file:///")
    [file] = kept()
    assert file.read_bytes() == b"x" * 16_385


def test_what_is_small_can_be_said(client, kept):
    own = Client(store=client.store, policies=Policies.of(artifact_inline_bytes=2))
    assert [own.artifacts.put("n", content).place == "database" for content in (b"ab", b"abc")] == [
        True,
        False,
    ]
    assert len(kept()) == 1
    wrong = Client(store=client.store, policies=Policies.of(artifact_inline_bytes=2**30))
    with pytest.raises(InvalidSetting, match="artifact_inline_bytes"):
        wrong.artifacts.put("n", b"")


def test_content_may_be_bytes_text_a_path_an_open_file_or_pieces(client, tmp_path):
    path = tmp_path / "report.csv"
    path.write_bytes(LARGE)
    put, put_file = client.artifacts.put, client.artifacts.put_file
    with path.open("rb") as file:
        made = [
            put("n", LARGE), put("n", bytearray(LARGE)), put("n", memoryview(LARGE)), put_file("n", path),
            put_file("n", str(path)), put_file("n", file), put_file("n", io.BytesIO(LARGE)),
            put_file("n", iter([LARGE[:5], LARGE[5:]])),
        ]  # fmt: skip
    assert {artifact.sha256 for artifact in made} == {hashlib.sha256(LARGE).hexdigest()}
    assert {client.artifacts.read(artifact) for artifact in made} == {LARGE}
    text = put("n", text="é")
    assert (client.artifacts.read(text), text.content_type) == ("é".encode(), "text/plain; charset=utf-8")


def test_what_makes_no_sense_is_refused_and_nothing_is_stored(client, kept):
    for given, told in WRONG:
        with pytest.raises(InvalidSetting, match=told):
            (client.artifacts.put_file if "file" in given else client.artifacts.put)("n", **given)
    assert (kept(), client.artifacts.list().items) == ([], [])


def test_an_instant_may_be_text(client):
    artifact = client.artifacts.put("n", b"x", expires="2100-01-01T02:00:00+02:00")
    assert artifact.expires_at == datetime(2100, 1, 1, tzinfo=UTC)


def test_a_file_that_is_open_as_text_is_refused(client):
    with pytest.raises(InvalidSetting, match="mode 'rb'"):
        client.artifacts.put_file("n", io.StringIO("text"))


def test_a_name_is_data_only(client, kept, place):  # A22
    for name in HOSTILE:
        artifact = client.for_org("../../x").artifacts.put(name, LARGE, content_type="text/html")
        found = client.artifacts.get(artifact.id)
        assert (found.name, found.content_type) == (name, "text/html")
        [file] = kept()
        assert (file.name, file.parent.name) == (artifact.sha256, artifact.sha256[:2])
        assert all(set(part) <= set("0123456789abcdef") for part in file.relative_to(place).parts)
        assert client.artifacts.list(name=name).items == [artifact]


def test_a_name_that_can_not_be_stored_is_refused(client):  # A22
    for name in ("", "a\0b", "é" * 128, "\ud800"):
        with pytest.raises(InvalidJob, match="an artifact's name"):
            client.artifacts.put(name, b"")


def test_an_input_travels_in_a_payload_by_its_ref(client):  # S4-14
    artifact = client.for_org("acme").artifacts.put("orders.csv", LARGE)
    job_id = client.enqueue(NewJob(job_type="import", org_id="acme", payload={"file": artifact.ref})).id
    ref = client.jobs.get(job_id).payload["file"]
    assert ref == f"artifact:{artifact.id}:sha256:{artifact.sha256}"
    assert client.artifacts.read(ref) == LARGE


def test_a_ref_with_another_checksum_than_the_stored_one_is_found_out(client):  # A22, S4-14
    artifact, other = client.artifacts.put("a", b"one"), client.artifacts.put("b", b"two")
    swapped = f"artifact:{artifact.id}:sha256:{other.sha256}"
    for read in (client.artifacts.read, client.artifacts.open, client.artifacts.get):
        with pytest.raises(ArtifactCorrupt, match=other.sha256):
            read(swapped)


def test_what_is_no_artifact_is_told(client):
    for wrong in ("", "x", "artifact:1:sha256:2", "../../etc", 5, None):
        with pytest.raises(InvalidSetting, match="give its id or its ref"):
            client.artifacts.read(wrong)


def test_a_file_that_was_changed_on_disk_is_found_out_on_reading(client, kept):  # A22
    artifact = client.artifacts.put("n", LARGE)
    small = client.artifacts.put("n", b"small")
    for change in (b"y" + LARGE[1:], LARGE[:-1], LARGE + b"!", b"", None):
        [file] = kept()
        file.unlink() if change is None else file.write_bytes(change)
        for read in (client.artifacts.read, client.artifacts.open):
            with pytest.raises(ArtifactCorrupt, match=artifact.id):
                read(artifact.id)
        verified = client.artifacts.verify()
        assert (verified.checked, verified.corrupt, verified.next_cursor) == (2, (artifact,), None)
        assert client.artifacts.read(small.id) == b"small"
        # The same content put again mends it.
        again = client.artifacts.put("again", LARGE)
        assert client.artifacts.read(artifact.id) == LARGE
        client.artifacts.delete(again.id, reason="not needed")


def test_a_row_that_was_changed_is_found_out_on_reading(client):  # A22
    artifact = client.artifacts.put("n", b"small")
    for data in ("c21hbGw", "AAAA", "%"):
        rows(client, f"UPDATE {{prefix}}artifacts SET data = '{data}'")
        with pytest.raises(ArtifactCorrupt, match=artifact.id):
            client.artifacts.read(artifact.id)


def test_a_checksum_that_was_swapped_in_its_row_is_found_out(client):  # A22
    artifact, other = client.artifacts.put("a", LARGE), client.artifacts.put("b", LARGE + b"!")
    rows(client, f"UPDATE {{prefix}}artifacts SET sha256 = '{other.sha256}' WHERE id = '{artifact.id}'")
    with pytest.raises(ArtifactCorrupt):
        client.artifacts.read(artifact.id)
    with pytest.raises(ArtifactCorrupt):
        client.artifacts.read(artifact.ref)


def test_a_role_is_needed_where_one_is_named(client):  # S4-15
    artifact = client.artifacts.put("pay.csv", b"secret", roles=("finance", "audit"))
    assert client.artifacts.get(artifact.id).roles == ("finance", "audit")
    for role in (None, "", "sales", "Finance"):
        for read in (client.artifacts.read, client.artifacts.open):
            with pytest.raises(NotAllowed, match="it is for finance, audit"):
                read(artifact.id, role=role)
    assert client.artifacts.read(artifact.id, role="audit") == b"secret"
    anyone = client.artifacts.put("open.csv", b"open")
    assert client.artifacts.read(anyone.id, role="sales") == b"open"


def test_two_orgs_with_the_same_content_share_no_file_and_can_not_read_each_others(client, kept):  # A18
    ours, theirs = (client.for_org(org).artifacts.put("n", LARGE) for org in ("a", "b"))
    nobodys = client.artifacts.put("n", LARGE)
    again = client.for_org("a").artifacts.put("n", LARGE)
    assert len(kept()) == 3
    confined = client.for_org("a")
    assert confined.artifacts.read(ours.id) == LARGE
    for artifact in (theirs, nobodys):
        for read in (confined.artifacts.get, confined.artifacts.read, confined.artifacts.open):
            with pytest.raises(ArtifactNotFound, match=f"no artifact {artifact.id}"):
                read(artifact.ref)
        with pytest.raises(ArtifactNotFound):
            confined.artifacts.delete(artifact.id, reason="mine now")
    assert confined.artifacts.list().items == [again, ours]
    assert confined.artifacts.put("n", b"x").org_id == "a"
    with pytest.raises(NotAllowed):
        confined.for_org("b").artifacts.put("n", b"x")
    with pytest.raises(NotAllowed):
        confined.artifacts.prune()
    assert client.artifacts.read(theirs.id) == LARGE


def test_an_artifact_can_be_brought_to_a_job_of_the_same_org(client):
    job_id = client.enqueue(NewJob(job_type="t", org_id="a", project_id="p")).id
    artifact = client.acting_as("user:1").artifacts.put("n", b"x", job_id=job_id)
    assert (artifact.job_id, artifact.org_id, artifact.project_id) == (job_id, "a", "p")
    assert (artifact.lease, artifact.actor_type, artifact.actor_id) == (None, "user", "1")
    assert client.artifacts.list(job_id=job_id).items == [artifact]
    with pytest.raises(JobNotFound):
        client.for_org("b").artifacts.put("n", b"x", job_id=job_id)


def test_an_artifact_belongs_to_the_org_and_the_project_of_its_client(client):
    artifact = client.for_org("a").for_project("p").artifacts.put("n", b"x")
    assert (artifact.org_id, artifact.project_id) == ("a", "p")


def test_where_an_org_is_required_an_artifact_has_one(client):
    strict = Client(store=client.store, policies=Policies.of(tenancy="required"))
    with pytest.raises(ContractBroken, match="use for_org"):
        strict.artifacts.put("n", b"x")
    assert strict.for_org("a").artifacts.put("n", b"x").org_id == "a"


def test_artifacts_are_listed_newest_first_by_pages(client):
    made = [client.artifacts.put(f"n{n % 2}", b"x") for n in range(5)][::-1]
    first = client.artifacts.list(limit=2)
    second = client.artifacts.list(limit=2, cursor=first.next_cursor)
    third = client.artifacts.list(limit=2, cursor=second.next_cursor)
    assert [*first, *second, *third] == made
    assert third.next_cursor is None
    assert [found.name for found in client.artifacts.list(name="n1")] == ["n1", "n1"]


def test_a_deleted_artifact_is_not_found_and_its_end_is_audited(client):
    artifact = client.for_org("a").artifacts.put("n.csv", b"x")
    client.acting_as("user:7").artifacts.delete(artifact.ref, reason="asked by the customer")
    with pytest.raises(ArtifactNotFound):
        client.artifacts.get(artifact.id)
    with pytest.raises(ArtifactNotFound):
        client.artifacts.delete(artifact.id, reason="again")
    [stored, deleted] = audited(client)
    about = {"artifact_id": artifact.id, "name": "n.csv", "size": 1, "sha256": artifact.sha256}
    assert stored == ("artifact.stored", "a", None, None, about)
    assert deleted == ("artifact.deleted", "a", "user", "7", {**about, "reason": "asked by the customer"})


def test_without_an_audit_only_what_an_operator_does_is_kept(client):
    silent = Client(store=client.store, policies=Policies.of(audit="off"))
    artifact = silent.at(NOW).artifacts.put("n", b"x", expires="1h")
    silent.artifacts.delete(silent.artifacts.put("n", b"x").id, reason="why")
    silent.at(NOW + timedelta(hours=2)).artifacts.prune()
    with pytest.raises(ArtifactNotFound):
        silent.artifacts.get(artifact.id)
    assert [event for event, *_ in audited(client)] == ["artifact.deleted"]


def audited(client: Client) -> list[tuple[object, ...]]:
    found = rows(client, "SELECT event, org_id, actor_type, actor_id, detail FROM {prefix}audit ORDER BY seq")
    return [(*row, json.loads(detail) if isinstance(detail, str) else detail) for *row, detail in found]


@pytest.mark.anyio
async def test_the_async_client_does_the_same(client, kept):
    from onward import AsyncClient
    from onward.stores import open_async_store
    from onward.stores.sqlite.sqlite_store import SqliteStore

    if isinstance(client.store, SqliteStore):
        store = open_async_store(f"sqlite:///{client.store.file.path}")
    else:
        store = open_async_store(client.store.url, schema=client.store.prefix.rstrip("."))
    async with AsyncClient(store=store) as own:
        artifact = await own.artifacts.put("n", LARGE, roles=["r"], expires="1h")
        assert await own.artifacts.read(artifact.ref, role="r") == LARGE
        with await own.artifacts.open(artifact.id, role="r") as file:
            assert file.read(4) == LARGE[:4]
        assert (await own.artifacts.verify()).corrupt == ()
        assert (await own.artifacts.list()).items == [artifact]
        later = artifact.created_at + timedelta(days=3)
        assert (await own.at(later).artifacts.prune()).removed == 1
    assert kept() == []
    assert client.artifacts.list().items == []
    with pytest.raises(ArtifactNotFound):
        client.artifacts.get(artifact.id)
