"""Fencing (R7): only the newest lease of a job can write; a refused write changes nothing but the audit."""

from __future__ import annotations

import sqlite3
from datetime import UTC, datetime, timedelta

import pytest
from msgspec.structs import replace

from onward import (
    Cancelled,
    Client,
    Failed,
    InvalidSetting,
    JobState,
    LeaseLost,
    NewJob,
    RateLimited,
    Released,
    Skip,
    Snooze,
    Succeeded,
)
from onward.core.work.claim import QueuePosition
from onward.errors import WorkerLost
from onward.results import Job, Lost

OUTCOMES = [
    Succeeded({"done": True}),
    Skip("no need"),
    Snooze(timedelta(minutes=1)),
    Failed({"error_class": "E", "message": "boom"}),
    Failed({"error_class": "E"}, retryable=False),
    RateLimited(timedelta(minutes=1), {"error_class": "E"}),
    Cancelled("asked to"),
    Released(),
    Lost(),
]


@pytest.fixture
def stale(client: Client) -> Job:
    """A job as its first worker still sees it, although a second one has claimed it since."""
    client.worker.register("first")
    client.worker.register("second")
    client.enqueue(NewJob(job_type="t", payload={"n": 1}))
    [job] = client.worker.claim("q:default", worker_id="first")
    client.worker.retire("first")
    client.worker.rescue().require()
    [again] = client.worker.claim("q:default", worker_id="second")
    assert again.lease > job.lease
    return job


@pytest.mark.parametrize("outcome", OUTCOMES, ids=lambda outcome: type(outcome).__name__)
def test_a_stale_lease_cannot_finish_fail_or_release_the_job(client, stale, outcome):
    before = client.jobs.get(stale.id)
    answer = client.worker.finish([stale.end_with(outcome)])
    assert answer.lost == {stale.id}
    assert not answer.held
    with pytest.raises(LeaseLost, match=stale.id):
        answer.require()
    assert client.jobs.get(stale.id) == before
    assert client.jobs.events(stale.id)[-1].event == "job.stale_result_rejected"
    assert client.jobs.events(stale.id)[-1].lease == stale.lease


def test_a_stale_lease_cannot_be_extended(client, stale):
    client.worker.register("third")
    [current] = [job for job in client.jobs.list().items if job.id == stale.id]
    assert client.worker.extend("second", [current.held_lease]).held == {stale.id}
    assert client.worker.extend("second", [stale.held_lease]).lost == {stale.id}
    assert client.worker.extend("third", [current.held_lease]).lost == {stale.id}


def test_a_worker_that_was_declared_lost_can_neither_extend_nor_claim(client, stale):
    with pytest.raises(WorkerLost, match="register under a new id"):
        client.worker.extend("first", [stale.held_lease])
    with pytest.raises(WorkerLost):
        client.worker.claim("q:default", worker_id="first")
    with pytest.raises(WorkerLost):
        client.worker.claim("q:default", worker_id="never registered")


@pytest.mark.parametrize("given_back_by", [Released(), Snooze(timedelta()), Failed({"error_class": "E"})])
def test_a_lease_ends_when_the_job_is_given_back(client, given_back_by):
    # Nobody has claimed it since, but its last holder no longer holds it.
    client.worker.register("w")
    client.enqueue(NewJob(job_type="t"))
    [job] = client.worker.claim("q:default", worker_id="w")
    client.worker.finish([job.end_with(given_back_by)]).require()
    assert client.worker.finish([job.end_with(Succeeded())]).lost == {job.id}
    assert client.worker.extend("w", [job.held_lease]).lost == {job.id}
    assert client.jobs.get(job.id).state in {JobState.QUEUED, JobState.SCHEDULED}


def test_one_stale_lease_in_a_batch_does_not_spoil_the_others(client, stale):
    client.enqueue_many([NewJob(job_type="t")] * 3)
    jobs = client.worker.claim("q:default", 3, worker_id="second")
    answer = client.worker.finish([job.end_with(Succeeded()) for job in [*jobs[:2], stale, jobs[2]]])
    assert answer.held == {job.id for job in jobs}
    assert answer.lost == {stale.id}


def test_a_second_finish_of_the_same_lease_is_refused(client):
    client.worker.register("w")
    client.enqueue(NewJob(job_type="t"))
    [job] = client.worker.claim("q:default", worker_id="w")
    client.worker.finish([job.end_with(Succeeded({"n": 1}))]).require()
    assert client.worker.finish([job.end_with(Failed({"error_class": "E"}))]).lost == {job.id}
    ended = client.jobs.get(job.id)
    assert (ended.state, ended.result) == (JobState.SUCCEEDED, {"n": 1})


def test_a_job_that_finishes_while_it_is_rescued_keeps_its_end(client):
    # F06: the rescuer has chosen the job, then it ends, then the rescuer writes.
    from onward.core.policy.policies import DEFAULT_POLICIES
    from onward.core.work.lifecycle import End
    from onward.operations.work.finish import finish
    from onward.operations.work.rescue import find_lost

    client.worker.register("w")
    client.enqueue(NewJob(job_type="t"))
    [job] = client.worker.claim("q:default", worker_id="w")
    later = datetime.now(UTC) + timedelta(minutes=1)
    [chosen] = client.at(later)._binding.run(find_lost)
    client.worker.finish([job.end_with(Succeeded())]).require()
    late = End.of(chosen, Lost(), DEFAULT_POLICIES.policy_of(chosen))
    assert client.store.run(lambda: finish([late])).lost == {job.id}
    assert client.jobs.get(job.id).state == JobState.SUCCEEDED


def test_a_crash_loop_ends_in_the_dead_letter(client):
    # R6, F07: a crash is an attempt; at once after the first, by its back-off after further ones.
    client.enqueue(NewJob(job_type="t", max_attempts=3))
    now = datetime.now(UTC)
    for life in range(3):
        client.at(now).worker.register(f"life-{life}")
        client.at(now + timedelta(hours=1)).worker.promote()
        [job] = client.at(now).worker.claim("q:default", worker_id=f"life-{life}")
        assert job.attempt == life + 1
        client.at(now).worker.retire(f"life-{life}")
        client.at(now).worker.rescue().require()
        expected = [JobState.QUEUED, JobState.SCHEDULED, JobState.DEAD][life]
        assert client.jobs.get(job.id).state == expected
    dead = client.jobs.get(job.id)
    assert dead.error is not None
    assert dead.error.reason == "crash_loop"
    assert [attempt.outcome for attempt in client.jobs.attempts(job.id)] == ["lost", "lost", "lost"]


def test_a_job_whose_cancellation_was_asked_for_ends_instead_of_going_back(client):
    client.worker.register("w")
    client.enqueue(NewJob(job_type="t"))
    [job] = client.worker.claim("q:default", worker_id="w")
    assert client.acting_as("user:ada").jobs.cancel(job.id, reason="not needed").state == JobState.RUNNING
    assert client.worker.extend("w", [job.held_lease]).cancel_requested == {job.id}
    client.worker.finish([job.end_with(Failed({"error_class": "E"}))]).require()
    assert client.jobs.get(job.id).state == JobState.CANCELLED
    assert [event.event for event in client.jobs.events(job.id)][-2:] == [
        "job.cancel_requested",
        "job.cancelled",
    ]


def test_a_job_that_is_named_twice_in_one_batch_is_finished_once_by_the_first(client):
    client.worker.register("w")
    client.enqueue_many([NewJob(job_type="t")] * 2)
    one, two = client.worker.claim("q:default", 2, worker_id="w")
    ends = [
        one.end_with(Succeeded(1)),
        two.end_with(Released()),
        one.end_with(Failed("late")),
        two.end_with(Succeeded()),
        one.end_with(Succeeded(2)),
    ]
    assert client.worker.finish(ends).held == {one.id, two.id}
    assert (client.jobs.get(one.id).state, client.jobs.get(one.id).result) == (JobState.SUCCEEDED, 1)
    assert client.jobs.get(two.id).state == JobState.QUEUED
    assert [event.event for event in client.jobs.events(one.id)][2:] == ["job.succeeded"]
    assert [event.event for event in client.jobs.events(two.id)][2:] == ["job.released"]


def test_an_old_and_the_newest_lease_of_a_job_in_one_batch_are_told_apart(client, stale):
    [newest] = client.jobs.list().items
    client.worker.finish([stale.end_with(Succeeded("old")), newest.end_with(Succeeded("new"))])
    assert client.jobs.get(stale.id).result == "new"


def test_a_batch_of_every_kind_is_written_for_each_job_as_it_ended(client, stale):
    client.enqueue_many([NewJob(job_type="t", correlation_id=f"c{n}") for n in range(len(OUTCOMES) + 1)])
    jobs = client.worker.claim("q:default", 100, worker_id="second")
    client.jobs.cancel(jobs[-1].id, reason="not needed")
    ends = [
        *zip(jobs, [*OUTCOMES, Failed({"error_class": "E"})], strict=True),
        (stale, Failed({"error_class": "E"})),
    ]
    answer = client.worker.finish([job.end_with(outcome) for job, outcome in ends])
    assert (answer.held, answer.lost) == ({job.id for job in jobs}, {stale.id})
    assert answer.cancel_requested == {jobs[-1].id}
    written = [client.jobs.events(job.id)[-1] for job, _ in ends]
    assert [(event.event, event.attempt, event.lease, event.worker_id) for event in written] == [
        *(
            (f"job.{what}", 1, 1, "second")
            for what in (
                "succeeded", "skipped", "snoozed", "failed", "deadlettered", "rate_limited", "cancelled",
                "released", "failed", "cancelled",
            )
        ),
        ("job.stale_result_rejected", 1, 1, None),
    ]  # fmt: skip
    assert [client.jobs.get(job.id).state.value for job in jobs] == [
        "succeeded", "succeeded", "scheduled", "scheduled", "dead", "scheduled", "cancelled", "queued",
        "queued", "cancelled",
    ]  # fmt: skip
    assert [len(client.jobs.attempts(job.id)) for job in jobs] == [1] * 10


def test_a_claim_that_finds_nothing_takes_no_job_that_waits(client):
    # On SQLite the numbers of the last rows written tell what was claimed: here those of another table.
    client.worker.register("w")
    client.enqueue_many([NewJob(job_type="t")] * 2 + [NewJob(job_type="t", delay=timedelta(hours=1))] * 3)
    held, done = client.worker.claim("q:default", 5, worker_id="w")
    client.worker.finish([done.end_with(Succeeded())]).require()
    assert client.worker.claim("q:default", 5, worker_id="w") == []
    assert client.jobs.get(held.id) == held
    assert client.jobs.count().total(JobState.SCHEDULED) == 3


def test_a_claim_that_goes_on_past_a_job_leaves_what_is_before_it_to_the_next(client):
    client.worker.register("w")
    client.enqueue_many([NewJob(job_type="t", payload={"n": n}) for n in range(6)])
    first = client.worker.claim("q:default", 2, worker_id="w")
    client.enqueue(NewJob(job_type="t", priority=1, payload={"n": "urgent"}))
    past = client.worker.claim("q:default", 2, worker_id="w", past=QueuePosition.of(first[-1]))
    rest = client.worker.claim("q:default", 9, worker_id="w")
    numbers = [[job.payload["n"] for job in jobs] for jobs in (first, past, rest)]
    if client.store.database == "postgres":
        assert numbers == [[0, 1], [2, 3], ["urgent", 4, 5]]
    else:
        assert numbers == [[0, 1], ["urgent", 2], [3, 4, 5]]
    with pytest.raises(InvalidSetting, match="past"):
        client.worker.claim("q:default", worker_id="w", past="the last one")


@pytest.mark.parametrize(
    "wrong",
    [{"priority": 2**70}, {"priority": "1"}, {"run_at": datetime(2026, 1, 1)}, {"id": "x"}, {"id": 7}],  # noqa: DTZ001
    ids=str,
)
def test_a_claim_past_a_place_that_no_job_can_have_is_refused(client, wrong):  # R7
    client.worker.register("w")
    job_id = client.enqueue(NewJob(job_type="t")).id
    past = QueuePosition.of(client.jobs.get(job_id))
    [name] = wrong
    with pytest.raises(InvalidSetting, match=rf"past\.{name} is "):
        client.worker.claim("q:default", worker_id="w", past=replace(past, **wrong))
    assert client.jobs.get(job_id).state == JobState.QUEUED


def test_large_and_small_jobs_are_claimed_together_in_their_order(client):
    client.worker.register("w")
    payloads = [{"n": n, "text": 'é"\\\n' * (20_000 if n % 2 else 1)} for n in range(5)]
    client.enqueue_many([NewJob(job_type="t", payload=payload) for payload in payloads])
    assert [job.payload for job in client.worker.claim("q:default", 9, worker_id="w")] == payloads


@pytest.mark.parametrize("column", ["payload", "tags"])
def test_a_row_that_cannot_be_read_fails_and_holds_up_no_other(tmp_path, column):
    # F43: only SQLite takes such a thing, by hand; PostgreSQL refuses it.
    with Client(f"sqlite:///{tmp_path}/onward.db") as client:
        good, bad = (client.enqueue(NewJob(job_type="t", tags=["x"], max_attempts=2)).id for _ in range(2))
        with sqlite3.connect(tmp_path / "onward.db") as connection:
            connection.execute(f"UPDATE onward_live SET {column} = '{{oops' WHERE id = ?", (bad,))
        connection.close()
        client.worker.register("w")
        assert [job.id for job in client.worker.claim("q:default", 10, worker_id="w")] == [good]
        assert client.worker.claim("q:default", 10, worker_id="w") == []
        due = datetime.now(UTC) + timedelta(hours=1)
        client.worker.extend("w", (), lease=timedelta(hours=2))
        client.at(due).worker.promote()
        assert client.at(due).worker.claim("q:default", 10, worker_id="w") == []
        with sqlite3.connect(tmp_path / "onward.db") as connection:
            [state, error] = connection.execute(
                "SELECT state, error FROM onward_ended WHERE id = ?", (bad,)
            ).fetchone()
        connection.close()
        assert state == "dead"
        assert "UnreadableJob" in error


def test_of_two_ends_of_a_job_in_one_call_the_stale_one_is_refused_and_audited(client):
    # R7
    client.worker.register("w")
    enqueued = client.enqueue(NewJob(job_type="t"))
    [old] = client.worker.claim("q:default", 1, worker_id="w")
    client.worker.release([old.held_lease])
    [new] = client.worker.claim("q:default", 1, worker_id="w")
    leases = client.worker.finish([old.end_with(Succeeded("old")), new.end_with(Succeeded("new"))])
    assert (leases.held, leases.lost) == ({enqueued.id}, set())
    assert client.jobs.get(enqueued.id).result == "new"
    refused = [
        event for event in client.jobs.events(enqueued.id) if event.event == "job.stale_result_rejected"
    ]
    assert [event.lease for event in refused] == [old.lease]
