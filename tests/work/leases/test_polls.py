"""What workers ask all the time: where there is work, and what has changed for them."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from datetime import UTC, datetime, timedelta

import pytest

from onward import AsyncClient, Client, InvalidSetting, NewJob, Succeeded
from onward.sql.catalogue import catalogue
from tests.jobs.inspect.reading import rows

NOW = datetime.now(UTC).replace(microsecond=123_456)
SECOND = timedelta(seconds=1)
LEASE = timedelta(seconds=30)


def test_an_empty_store_has_nothing_ready_and_nothing_due(client):
    seen = client.at(NOW).worker.ready_queues()
    assert (seen.queues, seen.next_due, seen.now) == (frozenset(), None, NOW)


def test_a_look_names_each_queue_with_a_ready_job_and_no_other(client):
    client.at(NOW).worker.register("w")
    for queue in ("b", "a", "ä", "q:done", "B", "a"):
        client.at(NOW).enqueue(NewJob(job_type="t", queue=queue))
    client.at(NOW).enqueue(NewJob(job_type="t", queue="later", delay=LEASE))
    [job] = client.at(NOW).worker.claim("q:done", worker_id="w")
    assert client.at(NOW).worker.ready_queues().queues == {"a", "b", "B", "ä"}
    client.at(NOW).worker.finish([job.end_with(Succeeded())]).require()
    client.at(NOW).worker.claim("a", 2, worker_id="w")
    assert client.at(NOW).worker.ready_queues().queues == {"b", "B", "ä"}


def test_a_look_tells_what_is_due_next_also_if_it_is_over(client):
    client.at(NOW).enqueue(NewJob(job_type="t", delay=2 * SECOND))
    client.at(NOW).enqueue(NewJob(job_type="t", delay=LEASE))
    assert client.at(NOW).worker.ready_queues().next_due == NOW + 2 * SECOND
    late = client.at(NOW + 5 * SECOND).worker.ready_queues()
    assert (late.next_due, late.queues, late.now) == (NOW + 2 * SECOND, frozenset(), NOW + 5 * SECOND)
    client.at(NOW + 5 * SECOND).worker.promote()
    after = client.at(NOW + 5 * SECOND).worker.ready_queues()
    assert (after.next_due, after.queues) == (NOW + LEASE, {"q:default"})


def test_a_look_tells_the_time_of_the_database(client):
    before = datetime.now(UTC)
    # Both run on this machine, so their clocks are one.
    assert before - SECOND <= client.worker.ready_queues().now <= datetime.now(UTC) + SECOND


def test_a_time_without_a_zone_is_refused(client):
    with pytest.raises(InvalidSetting, match="instant is"):
        client.at(datetime(2026, 1, 1))  # noqa: DTZ001


def test_a_worker_is_alive_until_its_lease_runs_out(client):
    client.at(NOW).worker.register("w", lease=LEASE)
    assert client.at(NOW).worker.instructions("w").alive
    assert client.at(NOW + LEASE - SECOND).worker.instructions("w").alive
    assert not client.at(NOW + LEASE).worker.instructions("w").alive
    client.at(NOW + 20 * SECOND).worker.extend("w", [], lease=LEASE)
    assert client.at(NOW + LEASE).worker.instructions("w").alive
    assert not client.at(NOW).worker.instructions("never registered").alive


def test_a_worker_that_was_declared_lost_is_not_alive(client):
    client.at(NOW).worker.register("w", lease=LEASE)
    client.at(NOW + LEASE).worker.rescue()
    assert not client.at(NOW).worker.instructions("w").alive
    client.at(NOW).worker.register("x", lease=LEASE)
    client.at(NOW).worker.retire("x")
    assert not client.at(NOW).worker.instructions("x").alive


def test_a_watch_tells_which_running_jobs_to_cancel_and_why(client):
    client.at(NOW).worker.register("w")
    client.at(NOW).worker.register("other")
    client.at(NOW).enqueue_many([NewJob(job_type="t")] * 4)
    asked, quiet, over = client.at(NOW).worker.claim("q:default", 3, worker_id="w")
    [theirs] = client.at(NOW).worker.claim("q:default", worker_id="other")
    assert client.at(NOW).worker.instructions("w").cancel_requested == {}
    client.at(NOW).jobs.cancel(asked.id, reason="the booking was refunded: é")
    client.at(NOW).jobs.cancel(asked.id, reason="again")
    client.at(NOW).jobs.cancel(theirs.id, reason="not yours")
    client.at(NOW).jobs.cancel(over.id, reason="too late")
    client.at(NOW).worker.finish([over.end_with(Succeeded())]).require()
    assert client.at(NOW).worker.instructions("w").cancel_requested == {
        asked.id: "the booking was refunded: é"
    }
    assert client.at(NOW).worker.instructions("other").cancel_requested == {theirs.id: "not yours"}
    assert quiet.id not in client.at(NOW).worker.instructions("w").cancel_requested


def test_a_request_whose_line_in_the_audit_is_gone_is_still_seen(client):
    client.at(NOW).worker.register("w")
    client.at(NOW).enqueue(NewJob(job_type="t"))
    [job] = client.at(NOW).worker.claim("q:default", worker_id="w")
    client.at(NOW).jobs.cancel(job.id, reason="forgotten")
    trigger = {"sqlite": "{prefix}audit_is_not_deleted", "postgres": "append_only ON {prefix}audit"}
    rows(client, f"DROP TRIGGER {trigger[client.store.database]}")
    rows(client, "DELETE FROM {prefix}audit")
    assert client.at(NOW).worker.instructions("w").cancel_requested == {job.id: "cancelled"}


def test_a_watch_tells_what_is_paused_and_whether_the_gate_is_closed(client):
    client.at(NOW).worker.register("w")
    assert (client.at(NOW).worker.instructions("w").gate, client.at(NOW).worker.instructions("w").pauses) == (
        None,
        frozenset(),
    )
    client.at(NOW).queues.pause("q:default", reason="r1")
    client.at(NOW).orgs.pause("acme", reason="r2")
    client.at(NOW).job_types.pause("mail", reason="r3")
    client.at(NOW).gate.close(reason="r4")
    seen, stored = client.at(NOW).worker.instructions("w"), client.gate.status()
    assert (seen.gate, seen.pauses) == (stored.gate, stored.pauses)
    assert seen.gate.reason == "r4"
    assert (seen.paused("queue"), seen.paused("org"), seen.paused("job_type")) == (
        {"q:default"},
        {"acme"},
        {"mail"},
    )


@pytest.mark.anyio
async def test_an_async_worker_asks_the_same(tmp_path):
    async with AsyncClient(f"sqlite:///{tmp_path}/onward.db") as client:
        await client.worker.register("w")
        await client.enqueue(NewJob(job_type="t"))
        assert (await client.worker.ready_queues()).queues == {"q:default"}
        assert (await client.worker.instructions("w")).alive


@pytest.mark.parametrize("analysed", [False, True])
def test_on_sqlite_no_question_of_a_worker_reads_a_whole_table(tmp_path, analysed):
    path = tmp_path / "onward.db"
    with Client(f"sqlite:///{path}") as client:
        client.enqueue_many([NewJob(job_type="t")] * 100)
        client.enqueue_many([NewJob(job_type="t", delay=LEASE)] * 100)
    with closing(sqlite3.connect(path)) as connection:
        if analysed:
            connection.execute("ANALYZE")
        plans = {
            name: {
                detail
                for step in catalogue("sqlite", "question", "onward_")[name].steps
                for *_, detail in connection.execute(f"EXPLAIN QUERY PLAN {step.text}", [1] * len(step.names))
                if "live" in detail or "audit" in detail or "B-TREE" in detail
            }
            for name in ("ready_queues", "instructions", "find_held_jobs")
        }
    # A scan of an index in its order goes no further than its LIMIT; a sort would read on.
    assert plans["ready_queues"] == {
        "SCAN onward_live USING INDEX onward_live_ready",
        "SEARCH live USING INDEX onward_live_ready (queue>?)",
        "SCAN onward_live USING INDEX onward_live_due",
    }
    assert plans["instructions"] == {
        "SEARCH live USING INDEX onward_live_held (worker_id=?)",
        "SEARCH audit USING INDEX onward_audit_of_job (job_id=?)",
    }
    assert plans["find_held_jobs"] == {"SEARCH live USING INDEX onward_live_held (worker_id=?)"}
