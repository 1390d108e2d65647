"""What is removed, when, and with what; on both databases."""

from __future__ import annotations

import threading
from dataclasses import replace
from datetime import timedelta

import pytest

from onward import AuditFilter, Client, NewJob, Retention
from onward.core.page import make_cursor
from onward.core.policy.category import category
from onward.core.policy.policies import Policies
from onward.core.work.lifecycle import Failed, Succeeded
from onward.errors import InvalidSetting, NotAllowed
from tests.records.usage.usage_metering import spend
from tests.upkeep.maintenance.maintenance_history import (
    DAY,
    LONG,
    later,
    left,
    prune_all,
    put_ended,
    row_count,
)


def with_settings(client: Client, **settings: object) -> Client:
    """The same database, for an application with other policies."""
    return Client(store=client.store, policies=Policies.of(**settings))  # type: ignore[arg-type]


def test_jobs_go_by_the_state_that_they_ended_in(client):
    # S4-16
    succeeded, cancelled, dead = (put_ended(client, state) for state in ("succeeded", "cancelled", "dead"))
    everything = (succeeded, cancelled, dead)
    assert client.at(later(6.9)).maintenance.prune().counts == {}
    assert left(client, *everything) == list(everything)
    assert prune_all(client, later(7.1)) == {"succeeded": 1}
    assert left(client, *everything) == [cancelled, dead]
    assert prune_all(client, later(30.1))["cancelled"] == 1
    assert left(client, *everything) == [dead]
    assert prune_all(client, later(90.1))["dead"] == 1
    assert left(client, *everything) == []


def test_a_job_that_has_not_ended_never_goes(client):
    waiting = client.enqueue(NewJob(job_type="t")).id
    retrying = client.enqueue(NewJob(job_type="t", queue="q")).id
    client.worker.register("w", lease=LONG)
    [job] = client.worker.claim("q", worker_id="w")
    client.worker.finish([job.end_with(Failed("no", after=timedelta(days=1)))])
    prune_all(client, later(5000))
    assert left(client, waiting, retrying) == [waiting, retrying]


def test_a_queue_and_a_category_have_spans_of_their_own(client):
    # S4-16
    retention = Retention(
        succeeded="1d",
        by_queue={"q:exports": {"succeeded": "90d"}},
        by_category={"planning": {"succeeded": None}},
    )
    own = with_settings(client, retention=retention)
    plain, exported = put_ended(own), put_ended(own, queue="q:exports")
    planned = put_ended(own, category="planning")
    assert prune_all(own, later(2)) == {"succeeded": 1}
    assert left(own, plain, exported, planned) == [exported, planned]
    prune_all(own, later(91))
    assert left(own, exported, planned) == [planned]


def test_everything_of_a_job_goes_with_it_but_the_audit_and_the_usage(client):
    job_id = client.enqueue(NewJob(job_type="t")).id
    client.worker.register("w", lease=LONG)
    [job] = client.worker.claim("q:default", worker_id="w")
    client.worker.finish([job.end_with(Failed("first", after=timedelta()))])
    client.at(later(0.1)).worker.promote()
    [job] = client.worker.claim("q:default", worker_id="w")
    client.worker.finish([job.end_with(Failed("second", retryable=False))])
    client.dead.discard([job_id], reason="seen")
    tables = ("attempts", "dead_letters")
    assert [row_count(client, table) for table in tables] == [1, 1]
    events = len(client.jobs.events(job_id))
    prune_all(client, later(91))
    assert left(client, job_id) == []
    assert [row_count(client, table) for table in tables] == [0, 0]
    assert len(client.jobs.events(job_id)) == events


def test_a_round_leaves_one_line_in_the_audit_with_who_asked(client):
    jobs = [put_ended(client) for _ in range(3)]
    client.at(later(8)).acting_as("system:me").maintenance.prune()
    [line] = client.audit.list(AuditFilter(event="jobs.pruned"))
    assert line.detail == {"succeeded": 3, "first": jobs[0], "last": jobs[2]}
    assert (line.actor_type, line.actor_id) == ("system", "me")
    client.at(later(8)).maintenance.prune()
    assert len(client.audit.list(AuditFilter(event="jobs.pruned"))) == 1


def test_expired_keys_go_and_those_that_hold_stay(client):
    # S4-17
    put_ended(client, key="over", unique=timedelta(hours=1))
    put_ended(client, key="holds", unique=timedelta(days=3))
    waiting = client.enqueue(NewJob(job_type="t", key="waiting", unique="active")).id
    assert client.at(later(1)).maintenance.prune(dry_run=True).counts == {"keys": 1}
    assert prune_all(client, later(1)) == {"keys": 1}
    assert client.keys.get("over") is None
    assert client.keys.get("holds") is not None
    held = client.keys.get("waiting")
    assert held is not None
    assert held.job_id == waiting


def test_usage_goes_after_its_time(client):
    client.worker.register("w", lease=LONG)
    spend(client, None, 5)
    prune_all(client, later(399))
    assert row_count(client, "usage") == 1
    assert prune_all(client, later(401))["usage"] == 1
    assert row_count(client, "usage") == 0


def test_workers_that_are_long_gone_are_forgotten_and_those_that_hold_jobs_are_not(client):
    client.enqueue(NewJob(job_type="t"))
    for name, lease in (("gone", DAY / 100), ("holds", DAY / 100), ("fresh", 20 * DAY)):
        client.worker.register(name, lease=lease)
    client.worker.claim("q:default", worker_id="holds")
    assert client.at(later(8)).maintenance.prune(dry_run=True).counts == {"workers": 1}
    assert prune_all(client, later(8)) == {"workers": 1}
    assert row_count(client, "workers") == 2


def test_the_audit_stays_unless_the_rules_say_otherwise(client):
    put_ended(client)
    before = row_count(client, "audit")
    prune_all(client, later(5000))
    assert row_count(client, "audit") == before + 1


def test_the_audit_goes_by_its_span_or_by_that_of_a_category_and_stays_verifiable(client):
    # S4-16
    lasting = replace(category("planning"), audit_retention=100 * DAY)
    own = with_settings(client, retention=Retention(audit="10d"), categories=[lasting], audit_chain=True)
    plain, planned = put_ended(own), put_ended(own, category="planning")
    own.audit.seal()
    assert own.at(later(11)).maintenance.prune(dry_run=True).counts["audit"] == len(own.jobs.events(plain))
    prune_all(own, later(11))
    assert own.jobs.events(plain).items == []
    # Only the job tells of which category its lines are: it stays as long as they do.
    assert left(own, plain, planned) == [planned]
    assert own.jobs.events(planned)
    assert own.audit.verify().intact
    prune_all(own, later(101))
    assert own.jobs.events(planned).items == []
    assert own.audit.verify().intact


def test_expired_artifacts_go(client, tmp_path):
    own = with_settings(client, artifacts=str(tmp_path / "files"))
    own.artifacts.put("a.txt", text="a", expires=timedelta(days=1))
    kept = own.artifacts.put("b.txt", text="b", expires=timedelta(days=9))
    assert own.at(later(2)).maintenance.prune(dry_run=True).counts == {"artifacts": 1}
    assert prune_all(own, later(2)) == {"artifacts": 1}
    assert [found.id for found in own.artifacts.list()] == [kept.id]


def test_rounds_are_bounded_and_go_on_where_the_last_one_stopped(client):
    # S4-16
    jobs = [put_ended(client, "dead" if at % 3 else "succeeded") for at in range(9)]
    first = client.at(later(8)).maintenance.prune(limit=4)
    assert first.counts == {"succeeded": 2}
    second = client.at(later(8)).maintenance.prune(cursor=first.next_cursor, limit=4)
    assert second.counts == {"succeeded": 1}
    third = client.at(later(8)).maintenance.prune(cursor=second.next_cursor, limit=4)
    assert third.counts == {}
    assert client.at(later(8)).maintenance.prune(cursor=third.next_cursor, limit=4).next_cursor is None
    assert len(left(client, *jobs)) == 6


def test_a_dry_run_counts_what_a_prune_removes_and_removes_nothing(client):
    jobs = [put_ended(client, state) for state in ("succeeded", "succeeded", "dead", "cancelled")]
    put_ended(client, key="k", unique=timedelta(days=200))
    counted = prune_all(client, later(91), dry_run=True, limit=2)
    assert left(client, *jobs) == jobs
    assert counted == prune_all(client, later(91))
    assert counted == {"succeeded": 2, "dead": 1, "cancelled": 1}


def test_a_prune_is_for_all_orgs_and_never_within_a_transaction(client):
    with pytest.raises(NotAllowed):
        client.for_org("o").maintenance.prune()
    connection = client.store.connect()
    try:
        connection.execute("BEGIN")
        with pytest.raises(InvalidSetting, match="not within"):
            client.within(connection).maintenance.prune()
        connection.rollback()
    finally:
        connection.close()
    with pytest.raises(InvalidSetting, match="limit is 0"):
        client.maintenance.prune(limit=0)


def test_two_who_prune_at_once_remove_each_job_once(client):
    jobs = [put_ended(client) for _ in range(40)]
    counts: list[int] = []

    def prune() -> None:
        counts.append(prune_all(client, later(8), limit=3).get("succeeded", 0))

    threads = [threading.Thread(target=prune) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    prune_all(client, later(8))
    assert left(client, *jobs) == []
    assert sum(counts) <= len(jobs)


def test_a_prune_does_not_hold_up_those_who_work(client):
    put_ended(client)
    client.enqueue(NewJob(job_type="t"))
    client.worker.register("w", lease=LONG)
    client.at(later(8)).maintenance.prune()
    [job] = client.worker.claim("q:default", worker_id="w")
    assert client.worker.finish([job.end_with(Succeeded())]).held == {job.id}


def test_a_cursor_of_another_call_is_refused(client):
    foreign, incomplete = make_cursor("jobs.list", "x"), make_cursor("prune.jobs") + "." * 9
    for wrong in ("", "x", 7, "." * 20, foreign, incomplete):
        with pytest.raises(InvalidSetting, match="cursor"):
            client.maintenance.prune(cursor=wrong)
