"""R6: when a worker falls silent, its jobs go back; how soon is their category's to say."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest

from onward import Category, Client, JobState, NewJob
from onward.core.policy.policies import Policies
from onward.stores.sqlite.sqlite_store import SqliteStore
from tests.apps import with_categories

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


@pytest.fixture
def client(client: Client) -> Client:
    """An application with the categories of the examples."""
    return with_categories(client)


def claimed(client: Client, *categories: str) -> list[str]:
    """Have a worker claim a job of each category at NOW; it falls silent then."""
    client.at(NOW).worker.register("silent")
    ids = [client.at(NOW).enqueue(NewJob(job_type="t", category=name)).id for name in categories]
    assert len(client.at(NOW).worker.claim("q:default", len(ids), worker_id="silent")) == len(ids)
    return ids


def test_a_job_of_a_long_lease_is_taken_back_when_its_worker_was_silent_that_long(client):
    # S3-11: ten minutes without a sign of life, not ten minutes of work.
    patient, other = claimed(client, "hubspot", "default")
    assert client.at(NOW + MINUTE).worker.rescue().held == {other}
    assert client.at(NOW + 9 * MINUTE).worker.rescue().held == frozenset()
    assert client.jobs.get(patient).state == JobState.RUNNING
    assert client.at(NOW + 10 * MINUTE).worker.rescue().held == {patient}


def test_a_worker_that_shows_life_keeps_its_jobs_however_long_they_take(client):
    # S3-11: the document has no sign of life, so there an eleven-minute job runs twice.
    [job_id] = claimed(client, "hubspot")
    for minute in range(1, 30):
        now = NOW + minute * MINUTE
        client.at(now).worker.extend("silent", (), lease=2 * MINUTE)
        assert client.at(now).worker.rescue().held == frozenset()
    assert client.jobs.get(job_id).state == JobState.RUNNING


def test_a_recovered_job_has_its_attempt_counted_and_waits_five_minutes(client):
    # S3-12: retry_count + 1, next_retry_at = now + 5 minutes.
    [job_id] = claimed(client, "hubspot")
    found = NOW + 11 * MINUTE
    assert client.at(found).worker.rescue().held == {job_id}
    job = client.jobs.get(job_id)
    assert (job.state, job.attempt, job.crashes) == (JobState.SCHEDULED, 1, 1)
    assert job.run_at == found + 5 * MINUTE
    assert job.error is not None
    assert job.error.error_class == "WorkerLost"


def test_a_worker_that_retires_is_not_waited_for(client):
    [job_id] = claimed(client, "hubspot")
    client.at(NOW + MINUTE).worker.retire("silent")
    assert client.at(NOW + MINUTE).worker.rescue().held == {job_id}


def test_a_worker_that_retires_after_it_was_missed_is_not_waited_for(client):
    [job_id] = claimed(client, "hubspot")
    assert client.at(NOW + MINUTE).worker.rescue().held == frozenset()
    client.at(NOW + 2 * MINUTE).worker.retire("silent")
    assert client.at(NOW + 2 * MINUTE).worker.rescue().held == {job_id}


@pytest.mark.parametrize("known", [False, True])
def test_a_job_that_somebody_has_spoilt_does_not_keep_the_others_from_rescue(client, known):  # F43
    spoilt, other = claimed(client, "default", "default")
    store: Any = client.store
    place: Any
    if isinstance(store, SqliteStore):
        place, wrong = sqlite3.connect(store.file.path), "{"
        place.execute("PRAGMA wal_autocheckpoint = 0")
    else:
        place, wrong = psycopg.connect(store.url), "5"
    with closing(place) as connection, connection:
        connection.execute(f"UPDATE {store.prefix}live SET payload = '{wrong}' WHERE id = '{spoilt}'")
    later = NOW + MINUTE
    taken = client.at(later).worker.rescue_worker("silent") if known else client.at(later).worker.rescue()
    assert taken.held == {spoilt, other}


def test_a_worker_that_is_known_to_be_dead_is_not_waited_for(client):
    [job_id] = claimed(client, "hubspot")
    assert client.at(NOW + MINUTE).worker.rescue_worker("silent").held == {job_id}


def test_the_result_of_a_silent_worker_is_taken_as_long_as_its_job_was_not_given_away(client):
    [job_id] = claimed(client, "hubspot")
    job = client.jobs.get(job_id)
    client.at(NOW + 5 * MINUTE).worker.rescue()
    client.at(NOW + 5 * MINUTE).worker.release([job.held_lease]).require()
    assert (client.jobs.get(job_id).state, client.jobs.get(job_id).attempt) == (JobState.QUEUED, 0)


def test_many_jobs_of_a_long_lease_do_not_hide_the_others(client):
    *_, other = claimed(client, *["hubspot"] * 20, "default")
    assert client.at(NOW + MINUTE).worker.rescue(5).held == {other}


@pytest.mark.parametrize("name", ["plain", 'with "quotes"', "with.dots", "$.x", "ünicode"])
def test_an_own_category_may_have_a_lease_whatever_its_name(client, name):
    policies = Policies.of(categories=[Category(name=name, lease=5 * MINUTE)])
    mine = Client(store=client.store, policies=policies)
    [job_id] = claimed(mine, name)
    assert mine.at(NOW + 4 * MINUTE).worker.rescue().held == frozenset()
    assert mine.at(NOW + 5 * MINUTE).worker.rescue().held == {job_id}
