"""What operators do to schedules: add, look, pause, resume, remove; and what the audit says of it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from onward import Client, NewJob, Onward
from onward.core.policy.policies import Policies
from onward.errors import ContractBroken, InvalidSetting, PayloadRejected, ScheduleNotFound
from onward.operations.schedules.fire import Known
from onward.operations.schedules.schedules import checked_schedule

T = datetime(2026, 3, 2, tzinfo=UTC)
HOUR = timedelta(hours=1)
KNOWN = Known({"report"})
STRICT = Policies.of(profile="strict")
ORG = "0f4b3a52-6a0e-4a26-9d3c-6b2f1f0f7a11"


def told(client: Client) -> list[str]:
    """The events of schedules, the oldest first."""
    records = sorted(client.audit.list(limit=100), key=lambda record: record.seq)
    return [record.event for record in records if record.event.startswith("schedule.")]


def test_a_schedule_is_stored_with_all_that_was_said(client):
    job = NewJob(job_type="report", payload={"kind": "sales"}, priority=2, org_id="acme", tags=["t"])
    client.at(T).schedules.add(
        "nightly", job, cron="0 2 * * *", tz="Europe/Lisbon", jitter="5m", missed=3, overlap="skip",
        warm_up="30s",
    )  # fmt: skip
    schedule = client.schedules.get("nightly")
    assert (schedule.timing.cron, schedule.timing.tz) == ("0 2 * * *", "Europe/Lisbon")
    assert (schedule.missed, schedule.overlap) == (3, "skip")
    assert (schedule.jitter, schedule.warm_up) == (timedelta(minutes=5), timedelta(seconds=30))
    assert (schedule.source, schedule.org_id, schedule.payload) == ("database", "acme", {"kind": "sales"})
    assert schedule.next_at == T + 2 * HOUR
    assert client.schedules.list().items == [schedule]
    [job_id] = client.at(T + 2 * HOUR).worker.schedules.fire(KNOWN).jobs["nightly"]
    made = client.jobs.get(job_id)
    assert (made.org_id, made.priority, made.tags, made.payload) == ("acme", 2, ["t"], {"kind": "sales"})


def test_the_next_times_are_told_also_while_it_is_paused(client):
    client.at(T).schedules.add("nightly", "report", cron="0 2 * * *")
    client.at(T).schedules.pause("nightly", reason="holidays")
    times = client.at(T).schedules.next_times("nightly")
    assert list(times) == [T + 2 * HOUR + timedelta(days=day) for day in range(5)]


def test_the_same_schedule_again_changes_nothing(client):
    first = client.at(T).schedules.add("nightly", "report", every="1h", warm_up="30s")
    again = client.at(T + HOUR / 2).schedules.add("nightly", "report", every="1h", warm_up="30s")
    assert again == first
    assert told(client) == ["schedule.added"]


def test_another_job_leaves_the_occurrences_and_other_times_begin_now(client):
    client.at(T).schedules.add("nightly", "report", every="1h")
    client.at(T + 90 * HOUR / 60).schedules.add("nightly", "report", payload={"a": 1}, every="1h")
    assert client.schedules.get("nightly").next_at == T + HOUR, "an occurrence that is due stays due"
    changed = client.at(T + 3 * HOUR).schedules.add("nightly", "report", payload={"a": 1}, every="2h")
    assert changed.next_at == T + 4 * HOUR
    assert told(client) == ["schedule.added", "schedule.changed", "schedule.changed"]


def test_a_paused_schedule_fires_nothing_and_makes_up_for_nothing(client):
    client.at(T).schedules.add("nightly", "report", every="1h", missed="all")
    assert client.at(T).acting_as("user:42").schedules.pause("nightly", reason="holidays")
    assert not client.at(T).schedules.pause("nightly", reason="holidays")
    pause = client.schedules.get("nightly").pause
    assert pause is not None
    assert (pause.reason, pause.actor_type, pause.actor_id, pause.at) == ("holidays", "user", "42", T)
    assert client.at(T + 5 * HOUR).worker.schedules.fire(KNOWN).jobs == {}
    assert client.at(T + 5 * HOUR).schedules.resume("nightly")
    assert not client.at(T + 5 * HOUR).schedules.resume("nightly")
    assert client.at(T + 5 * HOUR).worker.schedules.fire(KNOWN).jobs == {}
    assert len(client.at(T + 6 * HOUR).worker.schedules.fire(KNOWN).jobs["nightly"]) == 1
    assert told(client) == ["schedule.added", "schedule.paused", "schedule.resumed"]


def test_a_pause_outlasts_a_change(client):
    client.at(T).schedules.add("nightly", "report", every="1h")
    client.at(T).schedules.pause("nightly", reason="holidays")
    changed = client.at(T).schedules.add("nightly", "report", every="2h")
    assert changed.pause is not None
    assert client.at(T + 5 * HOUR).worker.schedules.fire(KNOWN).jobs == {}


def test_a_removed_schedule_is_gone_but_for_its_history(client):
    client.at(T).schedules.add("nightly", "report", every="1h")
    client.at(T + HOUR).worker.schedules.fire(KNOWN)
    client.at(T + HOUR).schedules.remove("nightly", reason="no more reports")
    assert not client.schedules.list()
    assert client.at(T + 2 * HOUR).worker.schedules.fire(KNOWN).jobs == {}
    assert len(client.schedules.runs("nightly")) == 1
    for ask in (client.schedules.get, client.schedules.next_times):
        with pytest.raises(ScheduleNotFound, match="onward schedules list"):
            ask("nightly")
    with pytest.raises(ScheduleNotFound):
        client.schedules.remove("nightly", reason="again")
    assert client.at(T + 3 * HOUR).schedules.add("nightly", "report", every="1h").next_at == T + 4 * HOUR
    assert told(client) == ["schedule.added", "schedule.removed", "schedule.added"]


def test_what_code_defines_is_changed_there_alone(client):
    new = checked_schedule("report", NewJob(job_type="report"), {"every": "1h"}, Policies(), source="code")
    client.at(T).worker.schedules.declare([new])
    client.at(T).worker.schedules.declare([new])
    with pytest.raises(InvalidSetting, match="is defined in code"):
        client.schedules.add("report", "report", every="2h")
    assert client.schedules.get("report").source == "code"
    assert told(client) == [], "new code is nobody's act"
    changed = checked_schedule(
        "report", NewJob(job_type="report"), {"every": "2h"}, Policies(), source="code"
    )
    client.at(T).worker.schedules.declare([changed])
    assert told(client) == ["schedule.changed"]


def test_the_runs_of_all_schedules_are_told_together(client):
    for name in ("a", "b"):
        client.at(T).schedules.add(name, "report", every="1h")
    client.at(T + HOUR).worker.schedules.fire(KNOWN)
    assert {run.schedule for run in client.schedules.runs()} == {"a", "b"}
    assert len(client.schedules.runs(limit=1)) == 1


def test_the_runs_of_a_schedule_that_never_was_are_asked_for_in_vain(client):
    with pytest.raises(ScheduleNotFound, match="no schedule is named 'zzz'"):
        client.schedules.runs("zzz")
    client.at(T).schedules.add("nightly", "report", every="1h")
    assert not client.schedules.runs("nightly")
    client.at(T).schedules.remove("nightly", reason="no more reports")
    assert not client.schedules.runs("nightly"), "it was one"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, "either cron= or every="),
        ({"cron": "0 2 * * *", "every": "1h"}, "either cron= or every="),
        ({"every": "1h", "overlap": "maybe"}, "overlap is 'maybe'; give one of 'allow', 'skip', 'wait'"),
        ({"every": "1h", "missed": "some"}, "missed is 'some'"),
        ({"every": "1h", "jitter": "-1s"}, "jitter"),
        ({"every": "1h", "jitter": "61m"}, "jitter is 1h1m, and the occurrences are 1h apart"),
        ({"cron": "0,5 9 * * *", "jitter": "6m"}, "give at most 5m"),
        ({"every": "1h", "warm_up": "8d"}, "warm_up is 8d"),
        ({"cron": "0 0 30 2 *"}, "never"),
        ({"cron": "0 2 * * *", "tz": "Atlantis"}, "Atlantis"),
    ],
)
def test_what_makes_no_sense_is_refused(options, said):
    with pytest.raises(InvalidSetting, match=said):
        checked_schedule("nightly", NewJob(job_type="report"), options, Policies())


@pytest.mark.parametrize(
    "field",
    [
        {"run_at": T},
        {"delay": HOUR},
        {"deadline": T},
        {"after": ("x",)},
        {"debounce": HOUR, "delay": HOUR},
    ],
)
def test_a_job_with_a_time_of_its_own_has_no_schedule(field):
    with pytest.raises(InvalidSetting, match=f"leave {next(iter(field))} out"):
        checked_schedule("nightly", NewJob(job_type="report", **field), {"every": "1h"}, Policies())


@pytest.mark.parametrize(
    "times", [{"every": "1h"}, {"cron": "@hourly"}, {"cron": "@hourly", "tz": "Asia/Tokyo"}]
)
def test_jitter_may_be_as_long_as_the_interval(times):
    new = checked_schedule("nightly", NewJob(job_type="report"), {**times, "jitter": "1h"}, Policies())
    assert new.jitter == HOUR


def test_what_is_refused_is_not_written(client):
    with pytest.raises(PayloadRejected):
        client.schedules.add("nightly", "report", payload={"password": "hunter2-hunter2"}, every="1h")
    with pytest.raises(InvalidSetting):
        client.schedules.add("nightly", "report", every="1h", overlap="maybe")
    assert (client.schedules.list().items, told(client)) == ([], [])


def strict_job(category: str) -> NewJob:
    return NewJob(job_type="report", category=category, org_id=ORG)


@pytest.mark.parametrize("category", ["default", "planning", "critical", "import_export"])
def test_the_strict_profile_has_no_schedules_for_other_categories(category):  # S4-65
    with pytest.raises(ContractBroken, match=f"category {category} may not be scheduled"):
        checked_schedule("nightly", strict_job(category), {"every": "1h"}, STRICT)


def test_the_strict_profile_has_schedules_for_maintenance_and_notifications(client):  # S4-65
    strict = Client(store=client.store, policies=STRICT).acting_as("user:ada")
    for allowed in ("maintenance", "notification"):
        strict.at(T).schedules.add(allowed, strict_job(allowed), every="1h")
    assert [schedule.name for schedule in client.schedules.list()] == ["maintenance", "notification"]


def test_a_scheduled_job_has_an_explicit_time(client):  # S4-66
    strict = Client(store=client.store, policies=STRICT).acting_as("user:ada")
    strict.at(T).schedules.add("n", strict_job("notification"), every="1h", jitter="5m")
    [job_id] = strict.at(T + HOUR).worker.schedules.fire(KNOWN).jobs["n"]
    job = client.jobs.get(job_id)
    assert T + HOUR < job.run_at < T + HOUR + timedelta(minutes=5)
    assert job.request_id == job.correlation_id == job.key


def test_a_denied_category_is_refused_where_the_schedule_is_defined():
    app = Onward("sqlite:///none.db", profile="strict")
    with pytest.raises(ContractBroken, match=r"job type 'report'.*may not be scheduled"):

        @app.job(cron="0 2 * * *", category="planning")
        def report() -> None: ...
