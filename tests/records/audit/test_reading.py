"""Reading the audit: filtered, by pages, exported; each org sees its own."""

from __future__ import annotations

from datetime import timedelta

import pytest

from onward import AsyncClient, AuditFilter, Client, NewJob
from onward.errors import InvalidSetting
from tests.records.audit.audit_history import NOW, WHO, claimed, finished

HOUR = timedelta(hours=1)


def events(client: Client, **narrow: object) -> list[str]:
    return [record.event for record in client.audit.export(AuditFilter(**narrow))]  # type: ignore[arg-type]


def test_pages_go_through_the_audit_from_either_end(client):
    finished(client)
    every = list(client.audit.export())
    assert [record.seq for record in every] == sorted(record.seq for record in every)
    for oldest_first in (True, False):
        found, cursor = [], None
        while True:
            page = client.audit.list(limit=5, cursor=cursor, oldest_first=oldest_first)
            found += page
            cursor = page.next_cursor
            if cursor is None:
                break
        assert found == (every if oldest_first else every[::-1])
    assert client.audit.list(limit=len(every)).next_cursor is None
    last = client.audit.list(AuditFilter(event="job.enqueued"), limit=1, oldest_first=True).next_cursor
    with pytest.raises(InvalidSetting, match="cursor"):
        client.audit.list(cursor=last)


@pytest.mark.parametrize("end", ["job.succeeded", "job.failed", "job.deadlettered"])
def test_each_event_of_a_job_is_one_line_with_every_field_of_the_contract(client, end):
    # S4-52, S4-53
    job = finished(client.at(NOW))[end]
    lines = [
        {name: getattr(record, name) for name in ("event", "attempt", "at", "job_id", "job_type", *WHO)}
        for record in client.audit.export(AuditFilter(job_id=job.id))
    ]
    always = {"at": NOW, "job_id": job.id, "job_type": "t", **WHO}
    assert lines == [
        {"event": "job.enqueued", "attempt": 0, **always},
        {"event": "job.started", "attempt": 1, **always},
        *([{"event": "job.failed", "attempt": 1, **always}] if end == "job.deadlettered" else []),
        {"event": end, "attempt": 1, **always},
    ]


def test_a_reading_is_narrowed_by_each_field(client):
    finished(client)
    [job] = claimed(client, org_id="other", actor_id="7")
    client.at(NOW + 9 * HOUR).acting_as("user:ada").orgs.pause("acme", reason="unpaid")
    assert events(client, event="job.skipped") == ["job.skipped"]
    assert events(client, job_id=job.id) == ["job.enqueued", "job.started"]
    assert events(client, org_id="other") == ["job.enqueued", "job.started"]
    assert events(client, actor_type="user", actor_id="7") == ["job.enqueued", "job.started"]
    assert events(client, actor_id="ada") == events(client, since=NOW + 8 * HOUR) == ["org.paused"]
    assert events(client, until=NOW - HOUR) == events(client, action="NONE") == []
    assert len(events(client, until=NOW + 9 * HOUR)) == len(events(client)) - 1
    for wrong in ({"event": 1}, {"since": "yesterday"}):
        with pytest.raises(InvalidSetting):
            client.audit.list(AuditFilter(**wrong))
    with pytest.raises(InvalidSetting, match="limit"):
        client.audit.list(limit=0)


def test_a_line_among_many_others_is_found(client):
    client.enqueue_many([NewJob(job_type="t", org_id="many")] * 400)
    client.enqueue(NewJob(job_type="t", org_id="few"))
    client.enqueue_many([NewJob(job_type="t", org_id="many")] * 400)
    for oldest_first in (True, False):
        page = client.audit.list(AuditFilter(org_id="few"), limit=1, oldest_first=oldest_first)
        assert ([record.org_id for record in page], page.next_cursor) == (["few"], None)


def test_an_org_sees_only_its_own_lines(client):
    finished(client)
    [job] = claimed(client, org_id="other")
    client.gate.close(reason="closed")
    assert events(client.for_org("other")) == ["job.enqueued", "job.started"]
    assert events(client.for_org("other"), org_id="acme") == []
    assert list(client.for_org("nobody").audit.list()) == []
    assert client.for_org("acme").jobs.events(job.id).items == []


def test_a_secret_in_a_line_is_shown_to_nobody(client):
    [job] = claimed(client)
    client.worker.note(job.held_lease, "NOTED", {"password": "hunter2hunter2"})
    client.queues.pause("q", reason="password=hunter2hunter2")
    shown = repr([record.detail for record in client.audit.export()])
    assert "NOTED" in repr(client.audit.list())
    assert "hunter2" not in shown


@pytest.mark.anyio
async def test_the_audit_is_exported_by_the_async_client_too(tmp_path):
    async with AsyncClient(f"sqlite:///{tmp_path}/onward.db") as client:
        await client.enqueue_many([NewJob(job_type="t")] * 3)
        assert [record.event async for record in client.audit.export()] == ["job.enqueued"] * 3
        assert (await client.audit.verify()).intact
