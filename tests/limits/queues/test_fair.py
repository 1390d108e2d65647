"""Fair claims: round by round from org to org, by weights, and nobody starves."""

from __future__ import annotations

import sqlite3
import time
from collections import Counter
from contextlib import closing
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest

from onward import Client, NewJob, Succeeded
from tests.limits.queues.claiming import Q

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def test_an_org_with_a_hundred_thousand_jobs_does_not_hold_up_one_with_ten(claims):
    # The must-show of issue 6.
    claims.app.queue(Q, fair=True)
    claims.put("large", 2)
    multiply(claims.client, 100_000)
    claims.put("small", 10)
    first = [job.org_id for _ in range(5) for job in claims.take(20)]
    assert len(first) == 100
    assert first.count("small") == 10
    assert max(at for at, org in enumerate(first) if org == "small") < 25
    began = time.monotonic()
    claims.take(100)
    assert time.monotonic() - began < 1


def multiply(client: Client, count: int) -> None:
    """Make so many jobs of those that are there, by one statement."""
    table = f"{client.store.prefix}live"
    if client.store.database == "postgres":
        numbers, new = f"generate_series(1, {count}) AS n", "gen_random_uuid()"
    else:
        counted = f"SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < {count}"
        numbers = f"(WITH RECURSIVE n(n) AS ({counted}) SELECT n FROM n)"
        new = "printf('019b7c2e-9f00-7000-8000-%012d', n)"
    names = (
        "org_id, job_type, queue, category, state, priority, run_at, max_attempts, payload, created_at, fair"
    )
    sql = (
        f"INSERT INTO {table} (id, {names}) SELECT {new}, {names} "
        f"FROM (SELECT * FROM {table} LIMIT 1) AS one CROSS JOIN {numbers}"
    )
    run_sql(client, sql)


def run_sql(client: Client, sql: str) -> None:
    store: Any = client.store
    if store.database == "postgres":
        with psycopg.connect(store.url, autocommit=True) as connection:
            connection.execute(sql.encode())
    else:
        with closing(sqlite3.connect(store.file.path)) as file:
            file.execute(sql)
            file.commit()


@pytest.mark.parametrize("size", [1, 2, 5, 40])
def test_orgs_share_a_queue_by_their_weights_however_few_a_claim_takes(claims, size):
    claims.app.queue(Q, fair=True, weights={"a": 3})
    for org in ("a", "b", None):
        claims.put(org, 40)
    gone = "".join(claims.orgs(size) for _ in range(40 // size))
    assert {org: gone.count(org) for org in "ab-"} == {"a": 24, "b": 8, "-": 8}


def test_what_a_claim_brings_is_interleaved(claims):
    claims.app.queue(Q, fair=True)
    for org in ("a", "b", "c"):
        claims.put(org, 3)
    assert claims.orgs(7) == "abcabca"
    assert claims.orgs(7) == "bc"


def test_within_an_org_the_more_urgent_goes_first(claims):
    claims.app.queue(Q, fair=True)
    claims.put("a", 1)
    [urgent] = claims.put("a", 1, priority=1)
    claims.put("b", 1)
    assert [job.id for job in claims.take(1)] == [urgent]


def test_the_turns_go_on_where_another_worker_left_them(claims):
    claims.app.queue(Q, fair=True)
    for org in ("a", "b", "c"):
        claims.put(org, 3)
    claims.client.worker.register("other", lease=timedelta(days=1))
    assert claims.orgs(1) == "a"
    [job] = claims.client.worker.claim(Q, 1, worker_id="other")
    assert job.org_id == "b"
    assert claims.orgs(2) == "ca"


def test_an_org_that_has_few_jobs_leaves_its_share_to_the_others(claims):
    claims.app.queue(Q, fair=True)
    claims.put("a", 60)
    for org in "bcdefgh":
        claims.put(org, 1)
    claims.put("i", 5)
    gone = claims.orgs(70)
    assert {org: gone.count(org) for org in "abi"} == {"a": 58, "b": 1, "i": 5}


def test_more_orgs_than_one_claim_looks_at_all_have_their_turn(claims):
    claims.app.queue(Q, fair=True)
    jobs = [NewJob(job_type="t", queue=Q, org_id=f"org {number:03}") for number in range(250)] * 2
    claims.client.enqueue_many(jobs)
    first = [job.org_id for _ in range(5) for job in claims.take(50)]
    assert len(set(first)) == 250


def test_jobs_of_a_producer_that_does_not_know_the_rule_have_their_turn_too(claims):
    claims.put("b", 5)
    claims.app.queue(Q, fair=True)
    claims.put("a", 5)
    claims.put("c", 5)
    assert claims.orgs(6) == "abcabc"
    assert claims.orgs(20) == "abcabcabc"


def test_a_paused_org_and_a_paused_type_are_passed_over(claims):
    claims.app.queue(Q, fair=True)
    for org in ("a", "b", "c"):
        claims.put(org, 2)
    claims.client.enqueue(NewJob(job_type="held", queue=Q, org_id="c", priority=1))
    assert claims.orgs(10, paused_orgs=["a"], paused_types=["held"]) == "bcbc"
    assert claims.orgs(10) == "aca"


def test_a_job_that_waits_long_enough_overtakes_more_urgent_ones(claims):
    claims.app.queue(Q, ageing="10m")
    [old] = claims.put(None, 1, priority=7, run_at=NOW)
    # Always more urgent ones than a claim takes: without ageing the old one would never go.
    for minutes in range(0, 60, 5):
        at = NOW + timedelta(minutes=minutes)
        claims.put(None, 3, priority=5, run_at=at)
        gone = [job.id for job in claims.take(2, now=at)]
        if old in gone:
            break
    assert minutes in {20, 25}


@pytest.mark.parametrize("fair", [True, False])
def test_a_job_of_any_priority_ages(claims, fair):  # R3
    claims.app.queue(Q, ageing="1s", fair=fair)
    [old] = claims.put("a", 1, priority=1000, run_at=NOW)
    [middle] = claims.put("a", 1, priority=77, run_at=NOW)
    later = NOW + timedelta(minutes=20)
    claims.put("a", 30, priority=-100, run_at=later)
    [urgent] = claims.put("a", 1, priority=-1000, run_at=later + timedelta(microseconds=1))
    assert [job.id for job in claims.take(3, now=later + timedelta(seconds=1))] == [middle, urgent, old]


def test_without_ageing_it_would_starve(claims):
    claims.app.queue(Q, concurrency=1000)
    [old] = claims.put(None, 1, priority=7, run_at=NOW)
    claims.put(None, 30, priority=5, run_at=NOW + timedelta(hours=9))
    assert old not in [job.id for job in claims.take(30, now=NOW + timedelta(hours=9))]


def test_in_a_fair_queue_jobs_age_within_their_org(claims):
    claims.app.queue(Q, fair=True, ageing="10m")
    later = NOW + timedelta(minutes=40)
    [old] = claims.put("a", 1, priority=9, run_at=NOW)
    claims.put("a", 3, priority=6, run_at=later)
    claims.put(None, 3, priority=6, run_at=later)
    assert [job.id for job in claims.take(1, now=later)] == [old]
    assert claims.orgs(6, now=later) == "-a-a-a"


def test_a_fair_claim_writes_what_every_claim_writes(claims):
    claims.app.queue(Q, fair=True)
    [job_id] = claims.put("a")
    [job] = claims.take(5)
    assert (job.id, job.attempt, job.lease, job.worker_id) == (job_id, 1, 1, "w")
    assert [event.event for event in claims.client.jobs.events(job_id)] == ["job.enqueued", "job.started"]
    claims.client.worker.finish([job.end_with(Succeeded())]).require()


@pytest.mark.parametrize("count", [100, 130, 200])
def test_of_very_many_orgs_each_has_its_turn(claims, count):
    claims.app.queue(Q, fair=True)
    jobs = [NewJob(job_type="t", queue=Q, org_id=f"{org:03}") for org in range(250) for _ in range(6)]
    claims.client.enqueue_many(jobs)
    had: Counter[str | None] = Counter()
    for _ in range(6):
        had.update(job.org_id for job in claims.take(count))
    assert len(had) == 250
    assert max(had.values()) - min(had.values()) <= 3
