"""What each of the five documents says about a failure, number by number, on both databases."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta

import pytest

from onward import Client, Failed, JobFilter, JobState, NewJob, Succeeded
from onward.results import Job
from tests.apps import with_categories

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
SECOND = timedelta(seconds=1)
DAY = timedelta(days=1)


@pytest.fixture
def client(client: Client) -> Client:
    """An application with the categories of the examples."""
    return with_categories(client)


def enqueue(client: Client, category: str) -> str:
    client.at(NOW).worker.register("w", lease=1000 * DAY)
    return client.at(NOW).enqueue(NewJob(job_type="t", category=category, queue="q:default")).id


def fail(client: Client, now: datetime, message: str = "broken") -> Job:
    """Claim the one job that is due, let its attempt fail, and give the job as it is then."""
    client.at(now).worker.promote()
    [job] = client.at(now).worker.claim("q:default", worker_id="w")
    client.at(now).worker.finish(
        [job.end_with(Failed({"error_class": "ProviderError", "message": message}))]
    ).require()
    return client.jobs.get(job.id)


def fail_until_dead(client: Client) -> tuple[list[timedelta], Job]:
    """Let every attempt fail, each as soon as it is due; gives the waits between, and the dead job."""
    waits, now = list[timedelta](), NOW
    while (job := fail(client, now)).state != JobState.DEAD:
        waits.append(job.run_at - now)
        # A moment before it is due, there is nothing to claim.
        client.at(job.run_at - SECOND / 1000).worker.promote()
        assert client.at(job.run_at - SECOND / 1000).worker.claim("q:default", worker_id="w") == []
        now = job.run_at
    return waits, job


@pytest.mark.parametrize(
    ("category", "waits"),
    [
        ("booking", [60, 60]),  # S0-11, S0-56: attempts < maxAttempts, three in all
        ("atlas", [10, 20, 40]),  # S1-12, S1-25: 10 s doubled each time, no cap, no jitter
        ("harmonyk", [1, 2, 4, 8]),  # S2-18: 1 s after the first failure
        ("hubspot", [120, 240, 480, 960, 1920]),  # S3-5, S3-25, S3-26: the exponent counts retries
    ],
)
def test_the_waits_are_those_of_the_document(client, category, waits):
    enqueue(client, category)
    waited, dead = fail_until_dead(client)
    assert waited == [wait * SECOND for wait in waits]
    assert dead.attempt == dead.max_attempts == len(waits) + 1


@pytest.mark.parametrize(
    ("category", "executions", "cap"),
    [
        ("default", 5, 300),  # S4-31, S4-33
        ("notification", 10, 1800),  # S4-34
        ("planning", 3, 120),  # S4-35
        ("import_export", 5, 600),  # S4-36
    ],
)
def test_the_waits_of_the_specification_grow_to_their_cap_with_jitter(client, category, executions, cap):
    enqueue(client, category)
    waited, dead = fail_until_dead(client)
    assert dead.attempt == executions
    for number, wait in enumerate(waited):
        delay = min(cap, 5 * 2**number) * SECOND
        assert delay / 2 <= wait <= delay  # S4-32


def test_a_retry_keeps_the_error_and_when_it_happened(client):
    job_id = enqueue(client, "booking")
    job = fail(client, NOW, "register closed")
    assert [shown.id for shown in client.jobs.list(JobFilter(state="retrying")).items] == [job_id]
    assert job.error is not None
    assert job.error.message == "register closed"
    [first] = client.jobs.attempts(job_id)
    assert (first.attempt, first.outcome, first.ended_at) == (1, "failed", NOW)


def test_the_end_keeps_the_error_and_when_it_happened(client):
    # S2-22: else failed, keep last_error.
    enqueue(client, "booking")
    _, dead = fail_until_dead(client)
    assert dead.error is not None
    assert (dead.error.message, dead.error.reason) == ("broken", "attempts_exhausted")
    assert dead.ended_at == NOW + 120 * SECOND


def test_a_job_that_waits_to_run_again_is_passed_over_until_its_time(client):
    # S1-29: skip rows whose nextRetryAt is in the future; none means now.
    job_id = enqueue(client, "atlas")
    [job] = client.at(NOW).worker.claim("q:default", worker_id="w")
    client.at(NOW).worker.finish([job.end_with(Failed("x"))]).require()
    client.at(NOW + 9 * SECOND).worker.promote()
    assert client.at(NOW + 9 * SECOND).worker.claim("q:default", worker_id="w") == []
    client.at(NOW + 10 * SECOND).worker.promote()
    [again] = client.at(NOW + 10 * SECOND).worker.claim("q:default", worker_id="w")
    assert (again.id, again.attempt) == (job_id, 2)  # S1-26, S1-27: back in the queue, one more counted


def test_neither_a_success_nor_a_running_job_is_tried_again(client):
    # S2-21: the failure pattern is the worker's, not the handler's.
    job_id = enqueue(client, "harmonyk")
    [job] = client.at(NOW).worker.claim("q:default", worker_id="w")
    client.at(NOW + DAY).worker.promote()
    assert client.at(NOW + DAY).worker.claim("q:default", worker_id="w") == []
    client.at(NOW).worker.finish([job.end_with(Succeeded())]).require()
    client.at(NOW + DAY).worker.promote()
    assert client.at(NOW + DAY).worker.claim("q:default", worker_id="w") == []
    assert client.jobs.get(job_id).state == JobState.SUCCEEDED


def test_the_cap_of_a_minute_holds(client):
    # S2-19
    client.at(NOW).worker.register("w", lease=1000 * DAY)
    client.at(NOW).enqueue(NewJob(job_type="t", category="harmonyk", max_attempts=12))
    waited, _ = fail_until_dead(client)
    assert [wait / SECOND for wait in waited] == [1, 2, 4, 8, 16, 32, 60, 60, 60, 60, 60]


def test_ten_thousand_failures_at_once_come_back_spread(client):
    # F44: no second gets more than three times the mean.
    client.at(NOW).worker.register("w", lease=1000 * DAY)
    client.at(NOW).enqueue_many([NewJob(job_type="t") for _ in range(10_000)])
    jobs = client.at(NOW).worker.claim("q:default", 10_000, worker_id="w")
    client.at(NOW).worker.finish([job.end_with(Failed("the provider is down")) for job in jobs]).require()
    found = client.jobs.get_many([job.id for job in jobs]).values()
    seconds = Counter(int((job.run_at - NOW) / SECOND) for job in found)
    assert sum(seconds.values()) == 10_000
    span = max(seconds) - min(seconds) + 1
    assert span >= 3
    assert max(seconds.values()) <= 3 * 10_000 / span
