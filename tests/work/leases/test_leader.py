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
    assert client.at(NOW).worker.lead("sweeper", "a", ttl=TTL)
    assert not client.at(NOW).worker.lead("sweeper", "b", ttl=TTL)
    assert client.at(NOW + SECOND).worker.lead("sweeper", "a", ttl=TTL)
    assert client.at(NOW).worker.lead("something else", "b", ttl=TTL)


def test_a_leader_is_replaced_when_its_time_is_over(client):
    assert client.at(NOW).worker.lead("sweeper", "a", ttl=TTL)
    assert not client.at(NOW + TTL - SECOND).worker.lead("sweeper", "b", ttl=TTL)
    assert client.at(NOW + TTL).worker.lead("sweeper", "b", ttl=TTL)
    # The frozen one wakes up: by its own count it led just now.
    assert not client.at(NOW + TTL).worker.lead("sweeper", "a", ttl=TTL)


def test_a_leader_that_comes_late_leads_on_if_nobody_has_taken_its_place(client):
    assert client.at(NOW).worker.lead("sweeper", "a", ttl=TTL)
    assert client.at(NOW + 3 * TTL).worker.lead("sweeper", "a", ttl=TTL)
    assert not client.at(NOW + 3 * TTL + SECOND).worker.lead("sweeper", "b", ttl=TTL)


def test_nothing_is_written_before_half_of_the_time_is_over_nor_by_who_does_not_lead(client):
    client.at(NOW).worker.lead("sweeper", "a", ttl=TTL)
    first = until(client)
    for worker, after in [("a", 1), ("b", 2), ("a", 4)]:
        client.at(NOW + after * SECOND).worker.lead("sweeper", worker, ttl=TTL)
        assert until(client) == first
    client.at(NOW + 5 * SECOND).worker.lead("sweeper", "a", ttl=TTL)
    assert until(client) > first
    assert client.at(NOW + 14 * SECOND).worker.lead("sweeper", "a", ttl=TTL)


def test_on_postgresql_who_does_not_lead_does_not_even_lock_the_row(postgres_url):
    with clean_schema(postgres_url) as store:
        client = Client(store=store)
        client.worker.lead("sweeper", "a", ttl=TTL)
        before = rows(client, "SELECT xmin, xmax FROM {prefix}leaders")
        assert not client.worker.lead("sweeper", "b", ttl=TTL)
        assert client.worker.lead("sweeper", "a", ttl=TTL)
        assert rows(client, "SELECT xmin, xmax FROM {prefix}leaders") == before


def test_on_sqlite_who_does_not_lead_changes_nothing_in_the_file(tmp_path):
    path = tmp_path / "onward.db"
    with Client(f"sqlite:///{path}") as client, closing(sqlite3.connect(path)) as connection:
        client.at(NOW).worker.lead("sweeper", "a", ttl=TTL)
        before = connection.execute("PRAGMA data_version").fetchone()
        assert not client.at(NOW).worker.lead("sweeper", "b", ttl=TTL)
        assert client.at(NOW).worker.lead("sweeper", "a", ttl=TTL)
        assert connection.execute("PRAGMA data_version").fetchone() == before
        client.at(NOW + TTL).worker.lead("sweeper", "a", ttl=TTL)
        assert connection.execute("PRAGMA data_version").fetchone() != before


def test_of_many_that_race_for_the_lead_one_has_it(client):
    start = threading.Barrier(4)

    def race(worker: str) -> list[bool]:
        won = []
        for name in range(20):
            start.wait(30)
            won.append(client.at(NOW).worker.lead(f"lead-{name}", worker, ttl=TTL))
            start.wait(30)
            # And for one that has just run out.
            won.append(client.at(NOW + TTL).worker.lead(f"lead-{name}", worker, ttl=TTL))
        return won

    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(race, "abcd"))
    assert [sum(of_each) for of_each in zip(*answers, strict=True)] == [1] * 40


def test_only_the_leader_sweeps(client):
    client.at(NOW).worker.register("lost", lease=LEASE)
    client.at(NOW).enqueue(NewJob(job_type="t"))
    [job] = client.at(NOW).worker.claim("q:default", worker_id="lost")
    late = NOW + LEASE
    assert client.at(late - TTL - SECOND).worker.sweep("a", ttl=TTL).leader
    swept = client.at(late - 2 * SECOND).worker.sweep("b", ttl=TTL)
    assert (swept.leader, swept.leases.held) == (False, frozenset())
    # The leader froze over the end of the lease, and the other took its place and did the work.
    swept = client.at(late).worker.sweep("b", ttl=TTL)
    assert (swept.leader, swept.leases.held) == (True, {job.id})
    assert client.jobs.get(job.id).state == JobState.QUEUED
    deposed = client.at(late).worker.sweep("a", ttl=TTL)
    assert (deposed.leader, deposed.leases.held) == (False, frozenset())


def test_a_deposed_leader_rescues_nothing_although_there_is_something(client):
    assert client.at(NOW).worker.sweep("a", ttl=TTL).leader
    client.at(NOW).worker.register("lost", lease=SECOND)
    client.at(NOW).enqueue(NewJob(job_type="t"))
    [job] = client.at(NOW).worker.claim("q:default", worker_id="lost")
    assert client.at(NOW + TTL).worker.lead(SWEEPER, "b", ttl=TTL)
    assert not client.at(NOW + TTL).worker.sweep("a", ttl=TTL).leader
    assert client.jobs.get(job.id).state == JobState.RUNNING
    assert client.at(NOW + TTL).worker.sweep("b", ttl=TTL, limit=1).leases.held == {job.id}


def test_who_abdicates_or_retires_is_followed_at_once(client):
    client.at(NOW).worker.lead("sweeper", "a", ttl=TTL)
    client.at(NOW).worker.lead("other", "a", ttl=TTL)
    client.at(NOW).worker.lead("third", "b", ttl=TTL)
    assert client.worker.abdicate("a") == {"sweeper", "other"}
    assert client.worker.abdicate("a") == frozenset()
    assert client.at(NOW).worker.lead("sweeper", "b", ttl=TTL)
    client.at(NOW).worker.register("b")
    assert client.at(NOW).worker.retire("b")
    assert client.at(NOW).worker.lead("sweeper", "c", ttl=TTL)
    assert client.at(NOW).worker.lead("third", "c", ttl=TTL)


def test_a_lead_without_a_name_or_an_end_is_refused(client):
    with pytest.raises(InvalidJob, match="name is empty"):
        client.worker.lead("", "a")
    with pytest.raises(InvalidJob, match="worker_id is empty"):
        client.worker.lead("sweeper", "")
    with pytest.raises(InvalidSetting, match="ttl is"):
        client.worker.lead("sweeper", "a", ttl=timedelta())


def test_the_jobs_of_a_worker_that_is_known_to_be_dead_come_back_in_one_call(client):
    # Its lease still holds: nobody has to wait for it.
    client.at(NOW).worker.register("dead")
    client.at(NOW).worker.register("alive")
    client.at(NOW).enqueue_many([NewJob(job_type="t")] * 5)
    held = client.at(NOW).worker.claim("q:default", 3, worker_id="dead")
    others = client.at(NOW).worker.claim("q:default", 2, worker_id="alive")
    client.at(NOW).jobs.cancel(held[0].id, reason="r")
    with pytest.raises(InvalidSetting, match="how it died"):
        client.at(NOW).worker.rescue_worker("dead", how=9)
    leases = client.at(NOW).worker.rescue_worker("dead", how="was ended by SIGKILL")
    assert client.jobs.get(held[1].id).error.message == "worker 'dead' was ended by SIGKILL"
    assert leases.held == {job.id for job in held}
    assert (leases.lost, leases.cancel_requested) == (frozenset(), {held[0].id})
    states = [client.jobs.get(job.id).state for job in [*held, *others]]
    assert states == ["cancelled", "queued", "queued", "running", "running"]
    assert not client.at(NOW).worker.instructions("dead").alive
    assert client.at(NOW).worker.rescue_worker("dead").held == frozenset()
    assert client.at(NOW).worker.rescue_worker("never registered").held == frozenset()


def test_more_jobs_than_one_statement_takes_come_back_too(client, monkeypatch):
    from onward.operations.work import rescue

    client.at(NOW).worker.register("dead")
    client.at(NOW).enqueue_many([NewJob(job_type="t")] * 5)
    held = client.at(NOW).worker.claim("q:default", 5, worker_id="dead")
    monkeypatch.setattr(rescue, "MOST_PER_CLAIM", 2)
    assert client.at(NOW).worker.rescue_worker("dead").held == {job.id for job in held}


def test_what_a_dead_worker_led_is_free_as_well(client):
    client.at(NOW).worker.register("dead")
    assert client.at(NOW).worker.sweep("dead", ttl=TTL).leader
    client.at(NOW).worker.rescue_worker("dead")
    assert client.at(NOW).worker.sweep("alive", ttl=TTL).leader
