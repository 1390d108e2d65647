"""Idempotency keys under concurrency: one job for a key, and never none."""

from __future__ import annotations

import random
import sqlite3
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import UTC, datetime, timedelta

import psycopg
import pytest

from onward import Client, DuplicateJob, JobFilter, JobState, NewJob, Succeeded
from onward.stores.postgres.sync.postgres_store import PostgresStore
from onward.stores.sqlite.sqlite_store import SqliteStore


def open_transaction(client: Client):
    """A caller's own connection to the client's database."""
    match client.store:
        case SqliteStore() as store:
            return closing(sqlite3.connect(store.file.path, timeout=30, check_same_thread=False))
        case PostgresStore() as store:
            return psycopg.connect(store.url)
    raise AssertionError


@pytest.mark.parametrize("winner_commits", [True, False])
def test_whoever_waits_for_a_key_gets_it_when_the_winner_rolls_back(client, winner_commits):
    # F22, S4-74: the loser must wait; neither a duplicate nor no job at all is allowed.
    client.jobs.count()
    started = threading.Event()
    with open_transaction(client) as tx, ThreadPoolExecutor() as pool:
        winner = client.within(tx).enqueue(NewJob(job_type="t", key="k"))

        def lose():
            started.set()
            return client.enqueue(NewJob(job_type="t", key="k"))

        waiting = pool.submit(lose)
        started.wait()
        tx.commit() if winner_commits else tx.rollback()
        loser = waiting.result(30)
    assert winner.created
    assert (loser.id == winner.id) is winner_commits
    assert loser.created is not winner_commits
    assert [job.id for job in client.jobs.list(JobFilter(key="k")).items] == [loser.id]


def test_sixteen_threads_and_fifty_keys_make_fifty_jobs(client):
    # R9, S0-30, S2-24, S3-6, S3-45, S4-24: a constraint of the database, never look and then insert.
    keys = [f"key-{number}" for number in range(50)]

    def ask(seed: int) -> list[tuple[str, str, bool]]:
        mine = random.Random(seed).sample(keys, len(keys))
        singles = [(key, client.enqueue(NewJob(job_type="t", key=key))) for key in mine[:25]]
        many = client.enqueue_many(NewJob(job_type="t", key=key) for key in mine[25:])
        answers = singles + list(zip(mine[25:], many, strict=True))
        return [(key, answer.id, answer.created) for key, answer in answers]

    with ThreadPoolExecutor(16) as pool:
        answers = [answer for seen in pool.map(ask, range(16)) for answer in seen]
    assert len(answers) == 16 * 50
    assert Counter(key for key, _, created in answers if created) == Counter(keys)
    assert len({(key, job_id) for key, job_id, _ in answers}) == 50
    jobs = client.jobs.list(limit=1000).items
    assert sorted(job.key for job in jobs) == sorted(keys)
    assert {(job.key, job.id) for job in jobs} == {(key, job_id) for key, job_id, _ in answers}


def test_threads_that_reuse_freed_keys_never_hold_one_twice(client):
    # "active": the key is free again when its job has ended; sixteen callers race for each freed key.
    client.worker.register("w")
    for _ in range(5):
        with ThreadPoolExecutor(16) as pool:
            new = [NewJob(job_type="t", key=f"key-{number % 5}", unique="active") for number in range(80)]
            answers = list(pool.map(client.enqueue, new))
        assert sum(answer.created for answer in answers) == 5
        jobs = client.worker.claim("q:default", 100, worker_id="w")
        assert len(jobs) == 5
        client.worker.finish([job.end_with(Succeeded()) for job in jobs]).require()


def test_a_key_holds_for_its_lifetime_also_after_the_end(client):
    # S4-30: by default as long as its category says.
    client.worker.register("w")
    long_ago = datetime.now(UTC) - timedelta(days=8)
    for category, still in (("default", False), ("planning", True)):
        first = client.at(long_ago).enqueue(NewJob(job_type="t", key=category, category=category, queue="q"))
        client.worker.finish(
            [job.end_with(Succeeded()) for job in client.worker.claim("q", worker_id="w")]
        ).require()
        second = client.enqueue(NewJob(job_type="t", key=category, category=category, queue="q"))
        assert second.created is not still
        if still:
            assert (second.id, second.state) == (first.id, JobState.SUCCEEDED)


def test_a_key_whose_lifetime_is_over_still_holds_while_its_job_is_live(client):
    long_ago = datetime.now(UTC) - timedelta(days=8)
    first = client.at(long_ago).enqueue(NewJob(job_type="t", key="k"))
    second = client.enqueue(NewJob(job_type="t", key="k"))
    assert (second.id, second.state, second.created) == (first.id, JobState.QUEUED, False)


def test_a_key_for_ever_is_never_free_again(client):
    client.worker.register("w")
    first = client.enqueue(NewJob(job_type="t", key="k", unique="forever"))
    client.worker.finish(
        [job.end_with(Succeeded()) for job in client.worker.claim("q:default", worker_id="w")]
    )
    later = datetime.now(UTC) + timedelta(days=36_500)
    assert client.at(later).enqueue(NewJob(job_type="t", key="k")).id == first.id


def test_orgs_and_projects_have_key_spaces_of_their_own(client):
    # S4-25, S4-26
    places = [(None, None), ("a", None), ("b", None), ("a", "p"), ("a", "q")]
    jobs = [NewJob(job_type="t", key="k", org_id=org, project_id=project) for org, project in places]
    assert all(answer.created for answer in client.enqueue_many(jobs))
    assert not any(answer.created for answer in client.enqueue_many(jobs))


def test_a_duplicate_raises_where_that_was_asked_for_and_undoes_its_whole_call(client):
    held = client.enqueue(NewJob(job_type="t", key="k"))
    with pytest.raises(DuplicateJob, match="held by job") as refused:
        client.enqueue(NewJob(job_type="t", key="k", on_conflict="raise"))
    assert (refused.value.key, refused.value.job_id) == ("k", held.id)
    with pytest.raises(DuplicateJob):
        client.enqueue_many(
            [NewJob(job_type="t", key="new"), NewJob(job_type="t", key="k", on_conflict="raise")]
        )
    assert [job.id for job in client.jobs.list().items] == [held.id]
    assert client.enqueue(NewJob(job_type="t", key="new")).created


def test_a_key_repeated_within_one_call_makes_one_job(client):
    first, other, again = client.enqueue_many(
        [NewJob(job_type="t", key="k"), NewJob(job_type="t"), NewJob(job_type="t", key="k")]
    )
    assert (first.created, other.created, again.created) == (True, True, False)
    assert again.id == first.id
    assert client.jobs.count().total(JobState.QUEUED) == 2


def test_a_caller_that_keeps_a_duplicate_open_holds_nobody_up(client):
    # A worker must be able to end the job, and others to ask for the key, while that caller dawdles.
    client.worker.register("w")
    held = client.enqueue(NewJob(job_type="t", key="k"))
    if isinstance(client.store, SqliteStore):
        return  # SQLite has one writer: whoever writes within a transaction keeps it.
    with open_transaction(client) as tx:
        assert client.within(tx).enqueue(NewJob(job_type="t", key="k")).id == held.id
        assert client.enqueue(NewJob(job_type="t", key="k")).id == held.id
        client.worker.finish(
            [job.end_with(Succeeded()) for job in client.worker.claim("q:default", worker_id="w")]
        ).require()
        tx.rollback()
