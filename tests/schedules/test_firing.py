"""Occurrences become jobs: each once, by whoever fires, and as the policies of its schedule say."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from onward import Client, JobState, NewJob, Succeeded
from onward.core.policy.category import CATEGORIES
from onward.core.policy.policies import Policies
from onward.core.policy.registry import Registry
from onward.core.schedules.timing import jitter
from onward.errors import ScheduleNotFound
from onward.operations.schedules.fire import Known
from onward.operations.schedules.schedules import checked_schedule

T = datetime(2026, 3, 2, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
KNOWN = Known({"report"})


def add(client: Client, job: NewJob | str = "report", **options) -> None:
    client.at(T).schedules.add("nightly", job, **{"every": "10m"} | options)


def occurrences(client: Client) -> list[int]:
    """The minutes of the runs, the oldest first."""
    return sorted((run.occurrence - T) // MINUTE for run in client.schedules.runs("nightly"))


def jobs(client: Client) -> list[str]:
    return [str(job.key) for job in reversed(client.jobs.list().items)]


def test_an_occurrence_is_fired_when_it_is_due_and_once(client):
    add(client)
    assert client.at(T).worker.due(KNOWN).next_occurrence == T + 10 * MINUTE
    assert client.at(T + 9 * MINUTE).worker.schedules.fire(KNOWN).jobs == {}
    fired = client.at(T + 10 * MINUTE).worker.schedules.fire(KNOWN)
    assert client.at(T + 10 * MINUTE).worker.schedules.fire(KNOWN).jobs == {}
    [job] = client.jobs.list().items
    assert fired.jobs == {"nightly": [job.id]}
    assert (job.state, job.run_at) == (JobState.QUEUED, T + 10 * MINUTE)
    [run] = client.schedules.runs("nightly")
    assert (run.occurrence, run.fired_at, run.job_id, run.outcome) == (job.run_at, job.run_at, job.id, None)
    schedule = client.schedules.get("nightly")
    assert (schedule.last_occurrence, schedule.next_at) == (T + 10 * MINUTE, T + 20 * MINUTE)
    assert schedule.last_run == run


def test_a_scheduled_job_is_idempotent_by_its_occurrence(client):  # S4-68
    add(client)
    [job_id] = client.at(T + 10 * MINUTE).worker.schedules.fire(KNOWN).jobs["nightly"]
    key = "schedule:nightly:2026-03-02T00:10:00Z"
    assert client.jobs.get(job_id).key == key
    again = client.at(T + 10 * MINUTE).enqueue(NewJob(job_type="report", key=key))
    assert (again.id, again.created) == (job_id, False)


def test_an_occurrence_whose_key_is_taken_enqueues_nothing(client):
    add(client)
    other = client.at(T).enqueue(NewJob(job_type="report", key="schedule:nightly:2026-03-02T00:10:00Z"))
    assert client.at(T + 10 * MINUTE).worker.schedules.fire(KNOWN).jobs == {}
    [run] = client.schedules.runs("nightly")
    assert run.outcome == "duplicate"
    assert other.id in str(run.error)
    assert len(jobs(client)) == 1


def test_jobs_of_schedules_are_told_from_those_of_callers_and_of_jobs(client):  # S1-33
    add(client)
    [job_id] = client.at(T + 10 * MINUTE).worker.schedules.fire(KNOWN).jobs["nightly"]
    scheduled = client.jobs.get(job_id)
    called = client.jobs.get(client.enqueue(NewJob(job_type="t", actor_type="user", actor_id="42")).id)
    child = client.jobs.get(client.enqueue(NewJob(job_type="t", parent_id=job_id)).id)
    assert (scheduled.actor_type, scheduled.actor_id) == ("system", "schedule:nightly")
    assert scheduled.request_id == scheduled.key
    assert (called.actor_type, called.actor_id, called.parent_id) == ("user", "42", None)
    assert (child.parent_id, scheduled.parent_id) == (job_id, None)


@pytest.mark.parametrize(
    ("missed", "fired"),
    [("skip", []), ("last", [50]), ("all", [10, 20, 30, 40, 50]), (2, [40, 50])],
)
def test_missed_occurrences_are_made_up_for_as_the_policy_says(client, missed, fired):
    add(client, missed=missed)
    client.at(T + 55 * MINUTE).worker.schedules.fire(KNOWN)
    assert occurrences(client) == fired
    assert client.schedules.get("nightly").next_at == T + 60 * MINUTE
    client.at(T + 60 * MINUTE).worker.schedules.fire(KNOWN)
    assert occurrences(client) == [*fired, 60]


@pytest.mark.parametrize(("missed", "fired"), [("skip", 1), ("last", 1), (5, 5), ("all", 20)])
def test_a_short_stop_of_a_quick_schedule_brings_no_burst(client, missed, fired):
    client.at(T).schedules.add("often", "report", every="1s", missed=missed)
    back = client.at(T + timedelta(seconds=20.5)).worker.schedules.fire(KNOWN)
    assert len(back.jobs["often"]) == fired
    assert len(client.at(T + timedelta(seconds=21)).worker.schedules.fire(KNOWN).jobs["often"]) == 1


def test_many_missed_occurrences_are_made_up_for_in_parts(client):
    client.at(T).schedules.add("often", "report", every="1s", missed="all")
    first = client.at(T + timedelta(seconds=1500)).worker.schedules.fire(KNOWN)
    second = client.at(T + timedelta(seconds=1500)).worker.schedules.fire(KNOWN)
    assert (len(first.jobs["often"]), first.more) == (1000, True)
    assert (len(second.jobs["often"]), second.more) == (500, False)


def test_jitter_delays_the_job_and_not_the_occurrence(client):
    add(client, jitter="5m")
    occurrence = T + 10 * MINUTE
    [job_id] = client.at(occurrence).worker.schedules.fire(KNOWN).jobs["nightly"]
    late = jitter("nightly", occurrence, 5 * MINUTE)
    assert late > timedelta()
    assert (client.jobs.get(job_id).run_at, client.jobs.get(job_id).state) == (
        occurrence + late,
        JobState.SCHEDULED,
    )
    assert occurrences(client) == [10]


def test_a_deadline_counts_from_the_occurrence(client):
    new = checked_schedule(
        "nightly", NewJob(job_type="report"), {"every": "10m"}, Policies(), allowed=timedelta(hours=1)
    )
    client.at(T).schedules.put(new)
    [job_id] = client.at(T + 12 * MINUTE).worker.schedules.fire(KNOWN).jobs["nightly"]
    assert client.jobs.get(job_id).deadline == T + 70 * MINUTE


def test_an_overlapping_run_is_allowed_if_nothing_else_is_said(client):
    add(client)
    client.at(T + 10 * MINUTE).worker.schedules.fire(KNOWN)
    client.at(T + 20 * MINUTE).worker.schedules.fire(KNOWN)
    assert [job.state for job in client.jobs.list().items] == [JobState.QUEUED] * 2


def test_an_overlapping_run_may_be_skipped_until_the_one_before_has_ended(client):
    add(client, overlap="skip")
    [first] = client.at(T + 10 * MINUTE).worker.schedules.fire(KNOWN).jobs["nightly"]
    assert client.at(T + 20 * MINUTE).worker.schedules.fire(KNOWN).jobs == {}
    skipped, _ = client.schedules.runs("nightly")
    assert (skipped.outcome, skipped.job_id, skipped.ended_at) == ("skipped", None, T + 20 * MINUTE)
    assert first in str(skipped.error)
    end(client, first, T + 21 * MINUTE)
    assert len(client.at(T + 30 * MINUTE).worker.schedules.fire(KNOWN).jobs["nightly"]) == 1


def test_an_overlapping_run_may_wait_for_the_one_before(client):
    add(client, overlap="wait", missed="all")
    first, second = client.at(T + 20 * MINUTE).worker.schedules.fire(KNOWN).jobs["nightly"]
    [third] = client.at(T + 30 * MINUTE).worker.schedules.fire(KNOWN).jobs["nightly"]
    assert states(client, first, second, third) == ["queued", "blocked", "blocked"]
    end(client, first, T + 31 * MINUTE)
    assert states(client, first, second, third) == ["succeeded", "queued", "blocked"]
    end(client, second, T + 32 * MINUTE)
    assert states(client, first, second, third) == ["succeeded", "succeeded", "queued"]


def test_an_occurrence_that_was_fired_before_the_clock_was_set_back_is_not_fired_again(client):
    add(client, overlap="wait", missed="all")
    client.at(T + 20 * MINUTE).worker.schedules.fire(KNOWN)
    client.at(T).schedules.add("nightly", "report", every="20m", overlap="wait", missed="all")
    [job_id] = client.at(T + 40 * MINUTE).worker.schedules.fire(KNOWN).jobs["nightly"]
    assert occurrences(client) == [10, 20, 40]
    assert states(client, job_id) == ["queued"]


def states(client: Client, *ids: str) -> list[str]:
    return [client.jobs.get(job_id).state.value for job_id in ids]


def end(client: Client, job_id: str, now: datetime) -> None:
    client.at(now).worker.register(f"worker of {job_id}")
    [job] = client.at(now).worker.claim("q:default", worker_id=f"worker of {job_id}")
    assert job.id == job_id
    client.at(now).worker.finish([job.end_with(Succeeded())])


def test_the_end_of_a_run_is_in_the_history(client):
    add(client)
    [job_id] = client.at(T + 10 * MINUTE).worker.schedules.fire(KNOWN).jobs["nightly"]
    end(client, job_id, T + 11 * MINUTE)
    [run] = client.schedules.runs("nightly")
    assert (run.outcome, run.ended_at, run.error) == ("succeeded", T + 11 * MINUTE, None)


def test_a_run_that_was_cancelled_says_so(client):
    add(client)
    [job_id] = client.at(T + 10 * MINUTE).worker.schedules.fire(KNOWN).jobs["nightly"]
    client.at(T + 11 * MINUTE).jobs.cancel(job_id, reason="not tonight")
    [run] = client.schedules.runs("nightly")
    assert (run.outcome, run.error) == ("cancelled", "not tonight")


def test_a_job_that_may_not_be_enqueued_uses_up_its_occurrence_and_says_why(client):
    add(client, NewJob(job_type="report", category="planning"))
    client.at(T).schedules.add("other", "report", every="10m")
    changed = Client(
        store=client.store,
        policies=Policies(registry=Registry(categories={"default": CATEGORIES["default"]})),
    )
    fired = changed.at(T + 10 * MINUTE).worker.schedules.fire(KNOWN)
    assert set(fired.jobs) == {"other"}
    assert "planning" in fired.errors["nightly"]
    [run] = client.schedules.runs("nightly")
    assert (run.outcome, run.job_id) == ("refused", None)
    assert "planning" in str(run.error)


def test_only_who_knows_its_job_type_fires_a_schedule(client):
    add(client)
    stranger = Known({"other"}, ["nightly"])
    assert client.at(T + 10 * MINUTE).worker.due(stranger).next_occurrence is None
    assert client.at(T + 10 * MINUTE).worker.schedules.fire(stranger).jobs == {}
    assert "nightly" in client.at(T + 10 * MINUTE).worker.schedules.fire(KNOWN).jobs


def test_a_schedule_of_code_is_fired_by_who_defines_it_and_no_longer_by_others(client):
    new = checked_schedule("report", NewJob(job_type="report"), {"every": "10m"}, Policies(), source="code")
    client.at(T).worker.schedules.declare([new])
    assert client.at(T + 10 * MINUTE).worker.schedules.fire(Known({"report"})).jobs == {}
    assert "report" in client.at(T + 10 * MINUTE).worker.schedules.fire(Known({"report"}, ["report"])).jobs


def test_a_worker_waits_for_its_warm_up_then_fires_and_then_every_two_minutes(client):
    new = checked_schedule(
        "report", NewJob(job_type="report"), {"every": "2m", "warm_up": "30s"}, Policies(), source="code"
    )
    client.at(T).worker.schedules.declare([new])

    def fired(seconds: int, up: int) -> bool:
        known = Known({"report"}, ["report"], timedelta(seconds=up))
        return bool(client.at(T + timedelta(seconds=seconds)).worker.schedules.fire(known).jobs)

    # S3-42
    assert not fired(29, up=29)
    assert fired(30, up=30)
    # S3-43
    assert not fired(149, up=149)
    assert fired(150, up=150)
    # S3-10
    assert [fired(second, up=second) for second in (269, 270, 389, 390)] == [False, True, False, True]
    # A worker that starts later waits as well, and makes up for what was missed.
    assert not fired(520, up=29)
    assert fired(521, up=30)


def test_a_late_occurrence_is_marked_and_told(client):  # S4-67
    add(client)
    on_time = client.at(T + 11 * MINUTE).worker.schedules.fire(KNOWN)
    late = client.at(T + 21 * MINUTE + timedelta(seconds=1)).worker.schedules.fire(KNOWN)
    assert on_time.late == ()
    [told] = late.late
    assert (told.schedule, told.occurrence, told.drift) == ("nightly", T + 20 * MINUTE, timedelta(seconds=61))
    assert [run.late for run in client.schedules.runs("nightly")] == [True, False]
    assert client.schedules.runs("nightly")[0].drift == timedelta(seconds=61)


def test_run_now_is_beside_the_occurrences(client):
    add(client)
    client.at(T).schedules.pause("nightly", reason="holidays")
    at = T + 10 * MINUTE
    first = client.at(at).schedules.run_now("nightly", reason="asked for")
    second = client.at(at).schedules.run_now("nightly")
    assert (first.created, second.created, first.id == second.id) == (True, True, False)
    assert {run.source for run in client.schedules.runs("nightly")} == {"run_now"}
    client.at(T).schedules.resume("nightly")
    assert "nightly" in client.at(at).worker.schedules.fire(KNOWN).jobs
    assert occurrences(client) == [10, 10, 10]
    told = [one.detail for one in client.audit.list(limit=100) if one.event == "schedule.run_now"]
    assert {(one["job_id"], one.get("reason")) for one in told} == {
        (first.id, "asked for"),
        (second.id, None),
    }


def test_run_now_waits_for_a_run_where_runs_may_not_overlap(client):
    add(client, overlap="skip")
    [first] = client.at(T + 10 * MINUTE).worker.schedules.fire(KNOWN).jobs["nightly"]
    second = client.at(T + 11 * MINUTE).schedules.run_now("nightly")
    assert states(client, first, second.id) == ["queued", "blocked"]


def test_to_run_what_is_not_there_is_refused(client):
    with pytest.raises(ScheduleNotFound, match="no schedule is named 'weekly'"):
        client.schedules.run_now("weekly")
