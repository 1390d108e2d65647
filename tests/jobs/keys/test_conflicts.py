"""What an enqueue does to the job that holds its key: every mode, in every state of that job."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from onward import Cancelled, Client, DuplicateJob, Failed, InvalidJob, JobState, NewJob, Released, Succeeded
from onward.results import Enqueued, Job
from tests.apps import with_categories
from tests.jobs.keys.test_held_keys import open_transaction

T = datetime(2026, 3, 1, tzinfo=UTC)
DAY = timedelta(days=1)
WAITING_STATES = ["queued", "scheduled", "retrying"]


@pytest.fixture
def client(client: Client) -> Client:
    """An application with the categories of the examples."""
    return with_categories(client)


def at(seconds: float) -> datetime:
    return T + timedelta(seconds=seconds)


def ask(client: Client, n: int, *, now: float = 0, **options: Any) -> Enqueued:
    return client.at(at(now)).enqueue(NewJob(job_type="t", key="k", payload={"n": n}, **options))


def add(old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    return {"n": old["n"] + new["n"]}


def take(client: Client, now: float) -> Job:
    client.at(at(now)).worker.promote()
    [job] = client.at(at(now)).worker.claim("q:default", 5, worker_id="w")
    return job


@pytest.fixture
def working(client: Client) -> Client:
    client.at(T).worker.register("w", lease=10 * DAY)
    return client


def bring(client: Client, state: str) -> Job:
    """Have the job of the key in a state; its payload is {"n": 1}."""
    enqueued = ask(client, 1, run_at=at(1000) if state == "scheduled" else None, now=0)
    if state == "retrying":
        client.at(at(2)).worker.finish([take(client, 1).end_with(Failed("boom", after=500))])
    elif state == "cancelled":
        client.at(at(2)).jobs.cancel(enqueued.id, reason="no")
    elif state not in {"queued", "scheduled"}:
        job = take(client, 1)
        if state != "running":
            end = Succeeded({"sent": 1}) if state == "succeeded" else Failed("boom", retryable=False)
            client.at(at(2)).worker.finish([job.end_with(end)])
    return client.jobs.get(enqueued.id)


@pytest.mark.parametrize("state", WAITING_STATES)
def test_replace_gives_a_waiting_job_the_new_payload_time_and_priority(working, state):
    # R9
    job = bring(working, state)
    answer = ask(working, 2, on_conflict="replace", priority=1, run_at=at(60), now=10)
    assert (answer.id, answer.created, answer.change, answer.state) == (
        job.id,
        False,
        "replaced",
        "scheduled",
    )
    now = working.jobs.get(job.id)
    assert (now.payload, now.priority, now.run_at) == ({"n": 2}, 1, at(60))
    assert (now.attempt, now.error, now.lease) == (job.attempt, job.error, job.lease)
    assert [job.id for job in working.jobs.list().items] == [job.id]


@pytest.mark.parametrize("state", ["running", "succeeded", "dead", "cancelled"])
def test_replace_leaves_a_job_alone_that_does_not_wait(working, state):
    job = bring(working, state)
    answer = ask(working, 2, on_conflict="replace", now=10)
    assert (answer.id, answer.created, answer.change, answer.state) == (job.id, False, None, state)
    assert working.jobs.get(job.id) == job


@pytest.mark.parametrize("state", [*WAITING_STATES, "succeeded", "dead", "cancelled"])
def test_reset_starts_a_job_again_that_does_not_run(working, state):
    # R9, S0-27, S0-28, S0-60
    job = bring(working, state)
    answer = ask(working, 2, on_conflict="reset", max_attempts=7, now=10)
    assert (answer.id, answer.created, answer.change, answer.state) == (job.id, False, "reset", "queued")
    now = working.jobs.get(job.id)
    assert (now.payload, now.state, now.attempt, now.max_attempts) == ({"n": 2}, "queued", 0, 7)
    assert (now.error, now.result, now.outcome, now.ended_at, now.waits, now.crashes) == (
        None, None, None, None, 0, 0,
    )  # fmt: skip
    # The lease never goes down, and what held it before can't end the new run.
    assert now.lease >= job.lease
    assert (now.key, now.created_at) == ("k", job.created_at)
    again = take(working, 11)
    assert (again.id, again.attempt, again.payload) == (job.id, 1, {"n": 2})
    assert again.lease > job.lease


@pytest.mark.parametrize("state", ["succeeded", "dead"])
def test_an_end_of_before_the_reset_is_refused_after_it(working, state):
    # R10, F47
    enqueued = ask(working, 1)
    old = take(working, 1)
    working.at(at(2)).worker.finish(
        [old.end_with(Succeeded() if state == "succeeded" else Failed("boom", retryable=False))]
    )
    ask(working, 2, on_conflict="reset", now=10)
    assert working.at(at(11)).worker.finish([old.end_with(Succeeded("late"))]).lost == {enqueued.id}
    assert working.jobs.get(enqueued.id).state == "queued"
    assert "job.stale_result_rejected" in [event.event for event in working.jobs.events(enqueued.id)]


def test_the_runs_of_before_a_reset_stay_in_the_history(working):
    job = bring(working, "succeeded")
    ask(working, 2, on_conflict="reset", now=10)
    working.at(at(12)).worker.finish([take(working, 11).end_with(Succeeded())])
    runs = working.jobs.attempts(job.id)
    assert (runs[0].lease, runs[0].attempt, runs[0].outcome) == (1, 1, "succeeded")
    events = [event.event for event in working.jobs.events(job.id)]
    assert events == [
        "job.enqueued", "job.started", "job.succeeded", "job.reset", "job.started", "job.succeeded",
    ]  # fmt: skip


@pytest.mark.parametrize(
    "outcome",
    [Succeeded({"ok": 1}), Failed("boom"), Failed("boom", retryable=False), Released(), Cancelled("enough")],
    ids=["succeeds", "is to be retried", "dies", "is released", "gives way"],
)
def test_reset_of_a_running_job_asks_for_one_more_run_after_this_one(working, outcome):
    # R10, F47, S0-29
    job = bring(working, "running")
    answer = ask(working, 2, on_conflict="reset", now=10, priority=3)
    assert (answer.id, answer.created, answer.change, answer.state) == (
        job.id, False, "rerun_requested", "running",
    )  # fmt: skip
    now = working.jobs.get(job.id)
    assert (now.lease, now.worker_id, now.payload, now.rerun_requested) == (job.lease, "w", {"n": 1}, True)
    assert working.at(at(11)).worker.claim("q:default", 5, worker_id="w") == []
    assert working.at(at(12)).worker.finish([job.end_with(outcome)]).held == {job.id}
    now = working.jobs.get(job.id)
    assert (now.state, now.attempt, now.payload, now.priority, now.error, now.rerun_requested) == (
        "queued", 0, {"n": 2}, 3, None, False,
    )  # fmt: skip
    assert working.at(at(13)).worker.finish([job.end_with(Succeeded())]).lost == {job.id}
    again = take(working, 14)
    assert (again.id, again.attempt, again.payload) == (job.id, 1, {"n": 2})
    assert again.lease > job.lease
    assert working.at(at(15)).worker.finish([again.end_with(Succeeded({"second": True}))]).held == {job.id}
    ended = working.jobs.get(job.id)
    assert (ended.state, ended.result) == ("succeeded", {"second": True})
    runs = working.jobs.attempts(job.id)
    assert (runs[0].lease, runs[0].attempt) == (job.lease, 1)


def test_a_lost_run_of_a_job_that_was_reset_is_followed_by_the_one_more(client):
    # R10, F47: the rescuer of a crashed worker starts it again, with the new payload and all attempts.
    client.at(T).worker.register("w", lease=timedelta(seconds=30))
    job = bring(client, "running")
    ask(client, 2, on_conflict="reset", now=10)
    client.at(at(100)).worker.rescue()
    now = client.jobs.get(job.id)
    assert (now.state, now.attempt, now.crashes, now.payload) == ("queued", 0, 0, {"n": 2})
    assert client.at(at(101)).worker.finish([job.end_with(Succeeded())]).lost == {job.id}


def test_a_cancel_takes_back_the_one_more_run(working):
    job = bring(working, "running")
    ask(working, 2, on_conflict="reset", now=10)
    assert working.at(at(11)).jobs.cancel(job.id, reason="stop").state == "running"
    working.at(at(12)).worker.finish([job.end_with(Cancelled("stop"))])
    assert working.jobs.get(job.id).state == "cancelled"


def test_a_reset_after_a_cancel_runs_once_more_when_the_run_has_given_way(working):
    job = bring(working, "running")
    working.at(at(10)).jobs.cancel(job.id, reason="stop")
    ask(working, 2, on_conflict="reset", now=11)
    working.at(at(12)).worker.finish([job.end_with(Released())])
    now = working.jobs.get(job.id)
    assert (now.state, now.payload, now.cancel_requested_at) == ("queued", {"n": 2}, None)


@pytest.mark.parametrize("state", [*WAITING_STATES, "running", "succeeded", "dead", "cancelled"])
def test_reset_from_names_the_states_that_are_reset(working, state):
    # R10: S0's comment literally, "only if the job exists and failed".
    job = bring(working, state)
    answer = ask(working, 2, on_conflict="reset", reset_from=frozenset({JobState.DEAD}), now=10)
    assert answer.change == ("reset" if state == "dead" else None)
    if state != "dead":
        assert working.jobs.get(job.id) == job


@pytest.mark.parametrize("state", WAITING_STATES)
def test_coalesce_merges_into_a_waiting_job_and_leaves_its_time(working, state):
    # R9, S2-24
    job = bring(working, state)
    answer = ask(working, 10, on_conflict="coalesce", merge=add, now=10)
    assert (answer.id, answer.created, answer.change, answer.state) == (job.id, False, "coalesced", job.state)
    now = working.jobs.get(job.id)
    assert now.payload == {"n": 11}
    assert (now.run_at, now.priority, now.attempt) == (job.run_at, job.priority, job.attempt)


def test_coalesce_with_a_running_job_collects_for_one_more_run(working):
    job = bring(working, "running")
    assert ask(working, 10, on_conflict="coalesce", merge=add, now=10).change == "rerun_requested"
    assert ask(working, 5, on_conflict="coalesce", merge=add, now=11).change == "rerun_requested"
    working.at(at(12)).worker.finish([job.end_with(Succeeded())])
    assert working.jobs.get(job.id).payload == {"n": 16}


@pytest.mark.parametrize("state", ["succeeded", "dead", "cancelled"])
def test_coalesce_finds_nothing_to_merge_with_in_a_job_that_has_ended(working, state):
    job = bring(working, state)
    assert ask(working, 10, on_conflict="coalesce", merge=add, now=10).change is None
    assert working.jobs.get(job.id) == job


@pytest.mark.parametrize("mode", ["replace", "reset", "coalesce"])
def test_a_free_key_makes_a_new_job_whatever_the_mode(client, mode):
    answer = ask(client, 1, on_conflict=mode, merge=add)
    assert answer.created
    assert answer.change is None


def test_a_key_that_lapsed_makes_a_new_job_whatever_the_mode(working):
    # S4-30: after its lifetime the key is anyone's.
    job = bring(working, "succeeded")
    answer = ask(working, 2, on_conflict="reset", now=8 * 86_400)
    assert answer.created
    assert answer.id != job.id
    assert working.jobs.get(job.id).state == "succeeded"


def test_many_in_one_call_each_do_what_they_say(working):
    first = working.at(at(0)).enqueue_many(
        [NewJob(job_type="t", key=f"k{n}", payload={"n": n}) for n in range(4)]
    )
    asked = [
        NewJob(job_type="t", key="k0", payload={"n": 10}),
        NewJob(job_type="t", key="k1", payload={"n": 11}, on_conflict="replace"),
        NewJob(job_type="t", key="k2", payload={"n": 12}, on_conflict="reset"),
        NewJob(job_type="t", key="k3", payload={"n": 13}, on_conflict="coalesce", merge=add),
        NewJob(job_type="t", key="k3", payload={"n": 100}, on_conflict="coalesce", merge=add),
        NewJob(job_type="t", key="new", payload={"n": 5}, on_conflict="replace"),
        NewJob(job_type="t", key="new", payload={"n": 6}, on_conflict="replace"),
    ]
    answers = working.at(at(1)).enqueue_many(asked)
    assert [answer.change for answer in answers] == [
        None, "replaced", "reset", "coalesced", "coalesced", None, "replaced",
    ]  # fmt: skip
    assert [answer.id for answer in answers[:4]] == [answer.id for answer in first]
    assert [working.jobs.get(answer.id).payload["n"] for answer in answers] == [0, 11, 12, 116, 116, 6, 6]


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"on_conflict": "coalesce"}, "merge"),
        ({"on_conflict": "replace", "reset_from": frozenset({"dead"})}, "reset_from"),
        ({"on_conflict": "reset", "reset_from": frozenset({"failed"})}, "failed"),
        ({"on_conflict": "reset", "reset_from": frozenset()}, "reset_from"),
        ({"on_conflict": "upsert"}, "upsert"),
    ],
)
def test_a_mode_that_makes_no_sense_is_refused_before_anything_is_written(client, options, named):
    with pytest.raises(InvalidJob, match=named):
        ask(client, 1, **options)
    with pytest.raises(InvalidJob, match=rf"jobs\[1\].*{named}"):
        client.enqueue_many([NewJob(job_type="t"), NewJob(job_type="t", key="k", **options)])
    assert client.jobs.list().items == []


def test_a_merge_that_fails_leaves_the_job_as_it_was(working):
    job = bring(working, "queued")
    for merge in (lambda _old, _new: 1 / 0, lambda _old, _new: "no dict"):
        with pytest.raises((ZeroDivisionError, InvalidJob)):
            ask(working, 2, on_conflict="coalesce", merge=merge, now=10)
    assert working.jobs.get(job.id) == job


@pytest.mark.parametrize("mode", ["replace", "reset", "coalesce"])
def test_within_a_transaction_that_is_rolled_back_nothing_has_changed(working, mode):
    job = bring(working, "queued")
    with open_transaction(working) as tx:
        answer = ask(working.within(tx), 2, on_conflict=mode, merge=add, now=10)
        assert answer.change is not None
        tx.rollback()
    assert working.jobs.get(job.id) == job


def test_the_category_says_what_happens_where_the_enqueue_does_not(working):
    # R22, S0-16: one job for a subject and a type, for ever; asked for again, it starts again.
    new = NewJob(job_type="invoice", category="booking", subject="booking:42", payload={"n": 1})
    first = working.at(at(0)).enqueue(new)
    working.at(at(2)).worker.finish([take(working, 1).end_with(Succeeded())])
    again = working.at(at(10_000_000)).enqueue(NewJob(**{**_fields(new), "payload": {"n": 2}}))
    assert (again.id, again.created, again.change) == (first.id, False, "reset")
    other = working.at(at(3)).enqueue(NewJob(**{**_fields(new), "job_type": "mail"}))
    elsewhere = working.at(at(3)).enqueue(NewJob(**{**_fields(new), "subject": "booking:43"}))
    assert other.created
    assert elsewhere.created
    with pytest.raises(DuplicateJob, match="booking"):
        working.at(at(10_000_001)).enqueue(NewJob(**{**_fields(new), "on_conflict": "raise"}))


def _fields(new: NewJob) -> dict[str, Any]:
    return {name: getattr(new, name) for name in ("job_type", "category", "subject", "payload")}


def test_what_a_run_that_fails_had_to_do_is_in_the_one_more_run(working):
    # R9: nothing that was coalesced is lost, whatever becomes of the run that was under way.
    job = bring(working, "running")
    ask(working, 10, on_conflict="coalesce", merge=add, now=10)
    working.at(at(20)).worker.finish([job.end_with(Failed("boom"))])
    assert working.jobs.get(job.id).payload == {"n": 11}


@pytest.mark.parametrize("state", ["queued", "running", "succeeded"])
@pytest.mark.parametrize("mode", ["replace", "reset", "coalesce"])
def test_a_job_of_another_type_keeps_its_payload_whatever_its_key(working, mode, state):
    job = bring(working, state)
    answer = working.at(at(10)).enqueue(
        NewJob(job_type="other", key="k", payload={"n": 2}, on_conflict=mode, merge=add)
    )
    assert (answer.id, answer.created, answer.change) == (job.id, False, None)
    assert working.jobs.get(job.id) == job
