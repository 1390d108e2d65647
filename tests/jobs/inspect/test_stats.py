"""Figures for monitors: counts by state, run and wait times, lags of queues, the newest failures."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from onward import Client, Failed, InvalidSetting, NewJob, Succeeded
from onward.operations.jobs import stats

T = datetime(2026, 3, 1, tzinfo=UTC)
SECOND = timedelta(seconds=1)
HOUR = timedelta(hours=1)
ERROR = {"error_class": "E", "message": "m"}


@pytest.fixture
def working(client: Client) -> Client:
    client.at(T).worker.register("w", lease=timedelta(days=30))
    return client


def put(client: Client, *, at: datetime = T, **options: Any) -> str:
    return client.at(at).enqueue(NewJob(**{"job_type": "t"} | options)).id


def run(client: Client, outcome: Any, *, at: datetime = T, lasting: timedelta = SECOND) -> str:
    """Run the next job from this time on, for so long."""
    [job] = client.at(at).worker.claim("q:default", 1, worker_id="w")
    client.at(at + lasting).worker.finish([job.end_with(outcome)])
    return job.id


def test_jobs_are_counted_by_state_and_those_that_wait_for_a_retry_apart(working):  # S3-36
    for _ in range(4):
        put(working)
    put(working, delay=HOUR)
    put(working, queue="other", org_id="acme")
    run(working, Failed(ERROR, after=HOUR))
    run(working, Succeeded())
    counted = working.at(T + SECOND).stats.counts()
    assert counted.live == {"queued": 3, "scheduled": 1, "retrying": 1}
    assert counted.ended == {"succeeded": 1, "dead": 0, "cancelled": 0}
    assert (counted.now, counted.since) == (T + SECOND, T + SECOND - timedelta(days=1))
    assert counted.created_from is None
    acme = working.at(T + SECOND).for_org("acme").stats.counts()
    assert (acme.live, acme.ended["succeeded"]) == ({"queued": 1}, 0)


def test_the_successes_of_the_last_day_are_counted(working):  # S3-35
    for hours in (0, 10, 30):
        put(working, at=T)
        run(working, Succeeded(), at=T + hours * HOUR)
    now = working.at(T + 31 * HOUR)
    assert now.stats.counts().ended["succeeded"] == 2
    assert now.stats.counts(window="2h").ended["succeeded"] == 1
    assert now.stats.counts(window=timedelta(days=9)).ended["succeeded"] == 3


def test_figures_of_many_jobs_say_since_when_these_were_created(working, monkeypatch):
    monkeypatch.setattr(stats, "_SAMPLE", 2)
    for _ in range(4):
        put(working)
        run(working, Succeeded())
    counted = working.at(T + SECOND).stats.counts()
    assert counted.ended["succeeded"] == 2
    assert counted.created_from is not None
    measured = working.at(T + SECOND).stats.durations()
    assert [item.jobs for item in measured.items] == [2]
    assert measured.created_from == counted.created_from


def test_the_times_of_runs_and_waits_are_measured_for_each_type(working):  # S3-38
    for seconds in range(1, 101):
        put(working)
        run(working, Succeeded(), at=T + 5 * SECOND, lasting=seconds * SECOND)
    put(working, job_type="other")
    run(working, Failed(ERROR, retryable=False), lasting=3 * SECOND)
    measured = working.at(T + HOUR).stats.durations()
    many, one = measured.items
    assert (many.name, many.jobs, one.name, one.jobs) == ("t", 100, "other", 1)
    assert (many.run.mean, many.run.p50) == (50.5 * SECOND, 50 * SECOND)
    assert (many.run.p95, many.run.p99) == (95 * SECOND, 99 * SECOND)
    assert {many.wait.mean, many.wait.p50, many.wait.p99} == {5 * SECOND}
    assert (one.run.p50, one.run.p99, one.wait.p50) == (3 * SECOND, 3 * SECOND, timedelta())
    assert working.at(T + 50 * HOUR).stats.durations().items == []


def test_the_times_of_runs_are_measured_for_each_queue(working):
    put(working, job_type="a")
    put(working, job_type="b")
    run(working, Succeeded())
    run(working, Succeeded())
    [item] = working.at(T + HOUR).stats.durations("queue").items
    assert (item.name, item.jobs) == ("q:default", 2)


def test_the_lag_of_a_queue_is_the_age_of_its_oldest_ready_job(working):  # S3-39
    put(working, at=T, priority=9, org_id="acme")
    put(working, at=T + HOUR, priority=1)
    put(working, at=T + 2 * HOUR, queue="other")
    put(working, at=T, queue="later", delay=9 * HOUR)
    now = working.at(T + 3 * HOUR)
    lags = [(lag.queue, lag.since, lag.lag) for lag in now.stats.lags()]
    assert lags == [("q:default", T, 3 * HOUR), ("other", T + 2 * HOUR, HOUR)]
    assert [(lag.queue, lag.lag) for lag in now.for_org("acme").stats.lags()] == [("q:default", 3 * HOUR)]
    assert now.for_org("bolt").stats.lags().items == []


def test_the_newest_failures_are_listed_by_their_times(working):  # S3-37
    first, second, third = (put(working, priority=at, org_id="acme") for at in (1, 2, 3))
    run(working, Failed(ERROR, after=HOUR), at=T)
    run(working, Failed(ERROR, retryable=False), at=T + 10 * SECOND)
    run(working, Succeeded(), at=T + 20 * SECOND)
    dead, retrying = working.at(T + HOUR).stats.failures().items
    assert (dead.job_id, dead.state, dead.at, dead.next_at) == (second, "dead", T + 11 * SECOND, None)
    assert (retrying.job_id, retrying.state, retrying.at) == (first, "retrying", T + SECOND)
    assert retrying.next_at == T + SECOND + HOUR
    assert (retrying.attempt, retrying.max_attempts) == (1, working.jobs.get(first).max_attempts)
    assert retrying.error is not None
    assert retrying.error.error_class == "E"
    assert working.jobs.get(third).state == "succeeded"
    assert [one.job_id for one in working.stats.failures(limit=1)] == [second]
    assert working.for_org("bolt").stats.failures().items == []
    assert len(working.for_org("acme").stats.failures()) == 2


def test_a_job_that_succeeded_after_all_is_no_failure(working):
    put(working)
    run(working, Failed(ERROR, after=timedelta()), at=T)
    working.at(T + SECOND).worker.promote()
    run(working, Succeeded(), at=T + 2 * SECOND)
    assert working.stats.failures().items == []


@pytest.mark.parametrize("window", [timedelta(), -HOUR, timedelta(days=400), "soon"])
def test_a_window_is_a_time_of_at_most_a_year(client, window):
    with pytest.raises(InvalidSetting, match="window"):
        client.stats.counts(window=window)


def test_what_is_measured_is_of_types_or_queues(client):
    with pytest.raises(InvalidSetting, match="give 'job_type' or 'queue'"):
        client.stats.durations("org")
