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
    seen = client.look(now=NOW)
    assert (seen.ready, seen.next_due, seen.now) == (frozenset(), None, NOW)


def test_a_look_names_each_queue_with_a_ready_job_and_no_other(client):
    client.register("w", now=NOW)
    for queue in ("b", "a", "ä", "q:done", "B", "a"):
        client.enqueue(NewJob(job_type="t", queue=queue), now=NOW)
    client.enqueue(NewJob(job_type="t", queue="later", delay=LEASE), now=NOW)
    [job] = client.claim("q:done", worker_id="w", now=NOW)
    assert client.look(now=NOW).ready == {"a", "b", "B", "ä"}
    client.finish([(job, Succeeded())], now=NOW).require()
    client.claim("a", 2, worker_id="w", now=NOW)
    assert client.look(now=NOW).ready == {"b", "B", "ä"}


def test_a_look_tells_what_is_due_next_also_if_it_is_over(client):
    client.enqueue(NewJob(job_type="t", delay=2 * SECOND), now=NOW)
    client.enqueue(NewJob(job_type="t", delay=LEASE), now=NOW)
    assert client.look(now=NOW).next_due == NOW + 2 * SECOND
    late = client.look(now=NOW + 5 * SECOND)
    assert (late.next_due, late.ready, late.now) == (NOW + 2 * SECOND, frozenset(), NOW + 5 * SECOND)
    client.promote(now=NOW + 5 * SECOND)
    after = client.look(now=NOW + 5 * SECOND)
    assert (after.next_due, after.ready) == (NOW + LEASE, {"q:default"})


def test_a_look_tells_the_time_of_the_database(client):
    before = datetime.now(UTC)
    # Both run on this machine, so their clocks are one.
    assert before - SECOND <= client.look().now <= datetime.now(UTC) + SECOND


def test_a_time_without_a_zone_is_refused(client):
    with pytest.raises(InvalidSetting, match="now is"):
        client.look(now=datetime(2026, 1, 1))  # noqa: DTZ001
    with pytest.raises(InvalidSetting, match="now is"):
        client.watch("w", now=datetime(2026, 1, 1))  # noqa: DTZ001


def test_a_worker_is_alive_until_its_lease_runs_out(client):
    client.register("w", lease=LEASE, now=NOW)
    assert client.watch("w", now=NOW).alive
    assert client.watch("w", now=NOW + LEASE - SECOND).alive
    assert not client.watch("w", now=NOW + LEASE).alive
    client.extend("w", [], lease=LEASE, now=NOW + 20 * SECOND)
    assert client.watch("w", now=NOW + LEASE).alive
    assert not client.watch("never registered", now=NOW).alive


def test_a_worker_that_was_declared_lost_is_not_alive(client):
    client.register("w", lease=LEASE, now=NOW)
    client.rescue(now=NOW + LEASE)
    assert not client.watch("w", now=NOW).alive
    client.register("x", lease=LEASE, now=NOW)
    client.retire("x", now=NOW)
    assert not client.watch("x", now=NOW).alive


def test_a_watch_tells_which_running_jobs_to_cancel_and_why(client):
    client.register("w", now=NOW)
    client.register("other", now=NOW)
    client.enqueue_many([NewJob(job_type="t")] * 4, now=NOW)
    asked, quiet, over = client.claim("q:default", 3, worker_id="w", now=NOW)
    [theirs] = client.claim("q:default", worker_id="other", now=NOW)
    assert client.watch("w", now=NOW).cancel_requested == {}
    client.cancel(asked.id, reason="the booking was refunded: é", now=NOW)
    client.cancel(asked.id, reason="again", now=NOW)
    client.cancel(theirs.id, reason="not yours", now=NOW)
    client.cancel(over.id, reason="too late", now=NOW)
    client.finish([(over, Succeeded())], now=NOW).require()
    assert client.watch("w", now=NOW).cancel_requested == {asked.id: "the booking was refunded: é"}
    assert client.watch("other", now=NOW).cancel_requested == {theirs.id: "not yours"}
    assert quiet.id not in client.watch("w", now=NOW).cancel_requested


def test_a_request_whose_line_in_the_audit_is_gone_is_still_seen(client):
    client.register("w", now=NOW)
    client.enqueue(NewJob(job_type="t"), now=NOW)
    [job] = client.claim("q:default", worker_id="w", now=NOW)
    client.cancel(job.id, reason="forgotten", now=NOW)
    trigger = {"sqlite": "{prefix}audit_is_not_deleted", "postgres": "append_only ON {prefix}audit"}
    rows(client, f"DROP TRIGGER {trigger[client.store.database]}")
    rows(client, "DELETE FROM {prefix}audit")
    assert client.watch("w", now=NOW).cancel_requested == {job.id: "cancelled"}


def test_a_watch_tells_what_is_paused_and_whether_the_gate_is_closed(client):
    client.register("w", now=NOW)
    assert (client.watch("w", now=NOW).gate, client.watch("w", now=NOW).pauses) == (None, frozenset())
    client.pause("queue", "q:default", reason="r1", now=NOW)
    client.pause("org", "acme", reason="r2", now=NOW)
    client.pause("job_type", "mail", reason="r3", now=NOW)
    client.close_gate(reason="r4", now=NOW)
    seen, stored = client.watch("w", now=NOW), client.controls()
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
        await client.register("w")
        await client.enqueue(NewJob(job_type="t"))
        assert (await client.look()).ready == {"q:default"}
        assert (await client.watch("w")).alive


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
            for name in ("look", "watch", "find_held_jobs")
        }
    # A scan of an index in its order goes no further than its LIMIT; a sort would read on.
    assert plans["look"] == {
        "SCAN onward_live USING INDEX onward_live_ready",
        "SEARCH live USING INDEX onward_live_ready (queue>?)",
        "SCAN onward_live USING INDEX onward_live_due",
    }
    assert plans["watch"] == {
        "SEARCH live USING INDEX onward_live_held (worker_id=?)",
        "SEARCH audit USING INDEX onward_audit_of_job (job_id=?)",
    }
    assert plans["find_held_jobs"] == {"SEARCH live USING INDEX onward_live_held (worker_id=?)"}
