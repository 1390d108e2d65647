"""Fencing (R7): only the newest lease of a job can write; a refused write changes nothing but the audit."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from onward import (
    Cancelled,
    Client,
    Failed,
    Job,
    JobState,
    LeaseLost,
    Lost,
    NewJob,
    RateLimited,
    Released,
    Skip,
    Snooze,
    Succeeded,
    WorkerLost,
)

OUTCOMES = [
    Succeeded({"done": True}),
    Skip("no need"),
    Snooze(timedelta(minutes=1)),
    Failed({"class": "E", "message": "boom"}),
    Failed({"class": "E"}, retryable=False),
    RateLimited(timedelta(minutes=1), {"class": "E"}),
    Cancelled("asked to"),
    Released(),
    Lost(),
]


@pytest.fixture
def stale(client: Client) -> Job:
    """A job as its first worker still sees it, although a second one has claimed it since."""
    client.register("first")
    client.register("second")
    client.enqueue(NewJob(job_type="t", payload={"n": 1}))
    [job] = client.claim("q:default", worker_id="first")
    client.retire("first")
    client.rescue().require()
    [again] = client.claim("q:default", worker_id="second")
    assert again.lease > job.lease
    return job


@pytest.mark.parametrize("outcome", OUTCOMES, ids=lambda outcome: type(outcome).__name__)
def test_a_stale_lease_cannot_finish_fail_or_release_the_job(client, stale, outcome):
    before = client.get(stale.id)
    answer = client.finish([(stale, outcome)])
    assert answer.lost == {stale.id}
    assert not answer.held
    with pytest.raises(LeaseLost, match=stale.id):
        answer.require()
    assert client.get(stale.id) == before
    assert client.events(stale.id)[-1].event == "job.stale_result_rejected"
    assert client.events(stale.id)[-1].lease == stale.lease


def test_a_stale_lease_cannot_be_extended(client, stale):
    client.register("third")
    [current] = [job for job in client.list_jobs().jobs if job.id == stale.id]
    assert client.extend("second", [current]).held == {stale.id}
    assert client.extend("second", [stale]).lost == {stale.id}
    assert client.extend("third", [current]).lost == {stale.id}


def test_a_worker_that_was_declared_lost_can_neither_extend_nor_claim(client, stale):
    with pytest.raises(WorkerLost, match="register under a new id"):
        client.extend("first", [stale])
    with pytest.raises(WorkerLost):
        client.claim("q:default", worker_id="first")
    with pytest.raises(WorkerLost):
        client.claim("q:default", worker_id="never registered")


@pytest.mark.parametrize("given_back_by", [Released(), Snooze(timedelta()), Failed({"class": "E"})])
def test_a_lease_ends_when_the_job_is_given_back(client, given_back_by):
    # Nobody has claimed it since, but its last holder no longer holds it.
    client.register("w")
    client.enqueue(NewJob(job_type="t"))
    [job] = client.claim("q:default", worker_id="w")
    client.finish([(job, given_back_by)]).require()
    assert client.finish([(job, Succeeded())]).lost == {job.id}
    assert client.extend("w", [job]).lost == {job.id}
    assert client.get(job.id).state in {JobState.QUEUED, JobState.SCHEDULED}


def test_one_stale_lease_in_a_batch_does_not_spoil_the_others(client, stale):
    client.enqueue_many([NewJob(job_type="t")] * 3)
    jobs = client.claim("q:default", 3, worker_id="second")
    answer = client.finish([(job, Succeeded()) for job in [*jobs[:2], stale, jobs[2]]])
    assert answer.held == {job.id for job in jobs}
    assert answer.lost == {stale.id}


def test_a_second_finish_of_the_same_lease_is_refused(client):
    client.register("w")
    client.enqueue(NewJob(job_type="t"))
    [job] = client.claim("q:default", worker_id="w")
    client.finish([(job, Succeeded({"n": 1}))]).require()
    assert client.finish([(job, Failed({"class": "E"}))]).lost == {job.id}
    ended = client.get(job.id)
    assert (ended.state, ended.result) == (JobState.SUCCEEDED, {"n": 1})


def test_a_job_that_finishes_while_it_is_rescued_keeps_its_end(client):
    # F06: the rescuer has chosen the job, then it ends, then the rescuer writes.
    from onward.core.lifecycle import End
    from onward.operations.rescue import find_lost, policy_of
    from onward.operations.work import finish

    client.register("w")
    client.enqueue(NewJob(job_type="t"))
    [job] = client.claim("q:default", worker_id="w")
    later = datetime.now(UTC) + timedelta(minutes=1)
    [chosen] = client.store.run(lambda: find_lost(now=later))
    client.finish([(job, Succeeded())]).require()
    late = End.of(chosen, Lost(), policy_of(chosen))
    assert client.store.run(lambda: finish([late])).lost == {job.id}
    assert client.get(job.id).state == JobState.SUCCEEDED


def test_a_crash_loop_ends_in_the_dead_letter(client):
    # R6, F07: a crash is an attempt; at once after the first, by its back-off after further ones.
    client.enqueue(NewJob(job_type="t", max_attempts=3))
    now = datetime.now(UTC)
    for life in range(3):
        client.register(f"life-{life}", now=now)
        client.promote(now=now + timedelta(hours=1))
        [job] = client.claim("q:default", worker_id=f"life-{life}", now=now)
        assert job.attempt == life + 1
        client.retire(f"life-{life}", now=now)
        client.rescue(now=now).require()
        expected = [JobState.QUEUED, JobState.SCHEDULED, JobState.DEAD][life]
        assert client.get(job.id).state == expected
    dead = client.get(job.id)
    assert dead.error is not None
    assert dead.error["reason"] == "attempts_exhausted"
    assert [attempt.outcome for attempt in client.attempts(job.id)] == ["lost", "lost"]


def test_a_job_whose_cancellation_was_asked_for_ends_instead_of_going_back(client):
    client.register("w")
    client.enqueue(NewJob(job_type="t"))
    [job] = client.claim("q:default", worker_id="w")
    assert client.cancel(job.id, reason="not needed", actor_type="user", actor_id="ada") == JobState.RUNNING
    assert client.extend("w", [job]).cancel_requested == {job.id}
    client.finish([(job, Failed({"class": "E"}))]).require()
    assert client.get(job.id).state == JobState.CANCELLED
    assert [event.event for event in client.events(job.id)][-2:] == ["job.cancel_requested", "job.cancelled"]
