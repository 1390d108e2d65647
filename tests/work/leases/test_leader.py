"""One worker at a time sweeps: by a row that runs out on the database's clock."""

from __future__ import annotations

import sqlite3
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from onward import Client, InvalidJob, InvalidSetting, JobState, NewJob
from onward.operations.work.rescue import SWEEPER
from tests.jobs.inspect.reading import rows
from tests.stores.postgres.postgres_schema import clean_schema

NOW = datetime.now(UTC).replace(microsecond=0)
SECOND = timedelta(seconds=1)
TTL = timedelta(seconds=10)
LEASE = timedelta(seconds=30)


def until(client: Client) -> Any:
    [(found,)] = rows(client, "SELECT until FROM {prefix}leaders")
    return found


def test_the_first_leads_and_the_second_does_not(client):
    assert client.lead("sweeper", "a", ttl=TTL, now=NOW)
    assert not client.lead("sweeper", "b", ttl=TTL, now=NOW)
    assert client.lead("sweeper", "a", ttl=TTL, now=NOW + SECOND)
    assert client.lead("something else", "b", ttl=TTL, now=NOW)


def test_a_leader_is_replaced_when_its_time_is_over(client):
    assert client.lead("sweeper", "a", ttl=TTL, now=NOW)
    assert not client.lead("sweeper", "b", ttl=TTL, now=NOW + TTL - SECOND)
    assert client.lead("sweeper", "b", ttl=TTL, now=NOW + TTL)
    # The frozen one wakes up: by its own count it led just now.
    assert not client.lead("sweeper", "a", ttl=TTL, now=NOW + TTL)


def test_a_leader_that_comes_late_leads_on_if_nobody_has_taken_its_place(client):
    assert client.lead("sweeper", "a", ttl=TTL, now=NOW)
    assert client.lead("sweeper", "a", ttl=TTL, now=NOW + 3 * TTL)
    assert not client.lead("sweeper", "b", ttl=TTL, now=NOW + 3 * TTL + SECOND)


def test_nothing_is_written_before_half_of_the_time_is_over_nor_by_who_does_not_lead(client):
    client.lead("sweeper", "a", ttl=TTL, now=NOW)
    first = until(client)
    for worker, after in [("a", 1), ("b", 2), ("a", 4)]:
        client.lead("sweeper", worker, ttl=TTL, now=NOW + after * SECOND)
        assert until(client) == first
    client.lead("sweeper", "a", ttl=TTL, now=NOW + 5 * SECOND)
    assert until(client) > first
    assert client.lead("sweeper", "a", ttl=TTL, now=NOW + 14 * SECOND)


def test_on_postgresql_who_does_not_lead_does_not_even_lock_the_row(postgres_url):
    with clean_schema(postgres_url) as store:
        client = Client(store=store)
        client.lead("sweeper", "a", ttl=TTL)
        before = rows(client, "SELECT xmin, xmax FROM {prefix}leaders")
        assert not client.lead("sweeper", "b", ttl=TTL)
        assert client.lead("sweeper", "a", ttl=TTL)
        assert rows(client, "SELECT xmin, xmax FROM {prefix}leaders") == before


def test_on_sqlite_who_does_not_lead_changes_nothing_in_the_file(tmp_path):
    path = tmp_path / "onward.db"
    with Client(f"sqlite:///{path}") as client, closing(sqlite3.connect(path)) as connection:
        client.lead("sweeper", "a", ttl=TTL, now=NOW)
        before = connection.execute("PRAGMA data_version").fetchone()
        assert not client.lead("sweeper", "b", ttl=TTL, now=NOW)
        assert client.lead("sweeper", "a", ttl=TTL, now=NOW)
        assert connection.execute("PRAGMA data_version").fetchone() == before
        client.lead("sweeper", "a", ttl=TTL, now=NOW + TTL)
        assert connection.execute("PRAGMA data_version").fetchone() != before


def test_of_many_that_race_for_the_lead_one_has_it(client):
    start = threading.Barrier(4)

    def race(worker: str) -> list[bool]:
        won = []
        for name in range(20):
            start.wait(30)
            won.append(client.lead(f"lead-{name}", worker, ttl=TTL, now=NOW))
            start.wait(30)
            # And for one that has just run out.
            won.append(client.lead(f"lead-{name}", worker, ttl=TTL, now=NOW + TTL))
        return won

    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(race, "abcd"))
    assert [sum(of_each) for of_each in zip(*answers, strict=True)] == [1] * 40


def test_only_the_leader_sweeps(client):
    client.register("lost", lease=LEASE, now=NOW)
    client.enqueue(NewJob(job_type="t"), now=NOW)
    [job] = client.claim("q:default", worker_id="lost", now=NOW)
    late = NOW + LEASE
    assert client.sweep("a", ttl=TTL, now=late - TTL - SECOND).leader
    swept = client.sweep("b", ttl=TTL, now=late - 2 * SECOND)
    assert (swept.leader, swept.leases.held) == (False, frozenset())
    # The leader froze over the end of the lease, and the other took its place and did the work.
    swept = client.sweep("b", ttl=TTL, now=late)
    assert (swept.leader, swept.leases.held) == (True, {job.id})
    assert client.get(job.id).state == JobState.QUEUED
    deposed = client.sweep("a", ttl=TTL, now=late)
    assert (deposed.leader, deposed.leases.held) == (False, frozenset())


def test_a_deposed_leader_rescues_nothing_although_there_is_something(client):
    assert client.sweep("a", ttl=TTL, now=NOW).leader
    client.register("lost", lease=SECOND, now=NOW)
    client.enqueue(NewJob(job_type="t"), now=NOW)
    [job] = client.claim("q:default", worker_id="lost", now=NOW)
    assert client.lead(SWEEPER, "b", ttl=TTL, now=NOW + TTL)
    assert not client.sweep("a", ttl=TTL, now=NOW + TTL).leader
    assert client.get(job.id).state == JobState.RUNNING
    assert client.sweep("b", ttl=TTL, limit=1, now=NOW + TTL).leases.held == {job.id}


def test_who_abdicates_or_retires_is_followed_at_once(client):
    client.lead("sweeper", "a", ttl=TTL, now=NOW)
    client.lead("other", "a", ttl=TTL, now=NOW)
    client.lead("third", "b", ttl=TTL, now=NOW)
    assert client.abdicate("a") == {"sweeper", "other"}
    assert client.abdicate("a") == frozenset()
    assert client.lead("sweeper", "b", ttl=TTL, now=NOW)
    client.register("b", now=NOW)
    assert client.retire("b", now=NOW)
    assert client.lead("sweeper", "c", ttl=TTL, now=NOW)
    assert client.lead("third", "c", ttl=TTL, now=NOW)


def test_a_lead_without_a_name_or_an_end_is_refused(client):
    with pytest.raises(InvalidJob, match="name is empty"):
        client.lead("", "a")
    with pytest.raises(InvalidJob, match="worker_id is empty"):
        client.lead("sweeper", "")
    with pytest.raises(InvalidSetting, match="ttl is"):
        client.lead("sweeper", "a", ttl=timedelta())


def test_the_jobs_of_a_worker_that_is_known_to_be_dead_come_back_in_one_call(client):
    # Its lease still holds: nobody has to wait for it.
    client.register("dead", now=NOW)
    client.register("alive", now=NOW)
    client.enqueue_many([NewJob(job_type="t")] * 5, now=NOW)
    held = client.claim("q:default", 3, worker_id="dead", now=NOW)
    others = client.claim("q:default", 2, worker_id="alive", now=NOW)
    client.cancel(held[0].id, reason="r", now=NOW)
    with pytest.raises(InvalidSetting, match="how it died"):
        client.rescue_worker("dead", how=9, now=NOW)
    leases = client.rescue_worker("dead", how="was ended by SIGKILL", now=NOW)
    assert client.get(held[1].id).error["message"] == "worker 'dead' was ended by SIGKILL"
    assert leases.held == {job.id for job in held}
    assert (leases.lost, leases.cancel_requested) == (frozenset(), {held[0].id})
    states = [client.get(job.id).state for job in [*held, *others]]
    assert states == ["cancelled", "queued", "queued", "running", "running"]
    assert not client.watch("dead", now=NOW).alive
    assert client.rescue_worker("dead", now=NOW).held == frozenset()
    assert client.rescue_worker("never registered", now=NOW).held == frozenset()


def test_more_jobs_than_one_statement_takes_come_back_too(client, monkeypatch):
    from onward.operations.work import rescue

    client.register("dead", now=NOW)
    client.enqueue_many([NewJob(job_type="t")] * 5, now=NOW)
    held = client.claim("q:default", 5, worker_id="dead", now=NOW)
    monkeypatch.setattr(rescue, "MOST_AT_ONCE", 2)
    assert client.rescue_worker("dead", now=NOW).held == {job.id for job in held}


def test_what_a_dead_worker_led_is_free_as_well(client):
    client.register("dead", now=NOW)
    assert client.sweep("dead", ttl=TTL, now=NOW).leader
    client.rescue_worker("dead", now=NOW)
    assert client.sweep("alive", ttl=TTL, now=NOW).leader
