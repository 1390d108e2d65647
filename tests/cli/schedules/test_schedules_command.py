"""`onward schedules`: lists, shows, runs, pauses and resumes."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta

import pytest

from onward import Client, NewJob, Onward
from onward.cli.views.banner import describe_jobs
from onward.core.policy.policies import Policies
from onward.operations.schedules.fire import Known
from onward.operations.schedules.schedules import checked_schedule

_NIGHT = datetime(2026, 1, 5, 2, tzinfo=UTC)


@pytest.fixture
def client(folder):
    with Client(f"sqlite:///{folder}/onward.db") as client:
        client.migrate()
        yield client


def add_nightly(client):
    client.at(_NIGHT - timedelta(hours=1)).schedules.add(
        "nightly", "report", cron="0 2 * * *", tz="Europe/Lisbon", jitter="5m"
    )


def fire(client, at):
    fired = client.at(at).worker.schedules.fire(Known({"report"}))
    assert fired.jobs
    return fired.jobs["nightly"]


def test_schedules_are_listed_for_people_and_for_programs(onward, client):
    assert onward("schedules", "list").err.startswith("no schedules; give a job type cron= or every=")
    add_nightly(client)
    client.schedules.add("sync", "sync", every="2m")
    client.schedules.pause("sync", reason="their maintenance")
    heading, nightly, sync = onward("schedules", "list").out.splitlines()
    assert heading.split() == ["NAME", "WHEN", "NEXT", "LAST", "RUN"]
    assert nightly.startswith("nightly  At 02:00 every day, Europe/Lisbon  due for ")
    assert nightly.endswith("never")
    assert sync.split("  ")[-1] == "never"
    assert "Every 2 minutes" in sync
    assert "paused: their maintenance" in sync
    shown = json.loads(onward("schedules", "list", "--json").out)["items"]
    assert [(one["name"], one["timing"]["cron"], one["timing"]["every"], one["jitter"]) for one in shown] == [
        ("nightly", "0 2 * * *", None, 300.0),
        ("sync", None, 120.0, 0.0),
    ]
    assert shown[0]["next_at"] == "2026-01-05T02:00:00.000000Z"
    assert shown[1]["pause"]["reason"] == "their maintenance"
    assert "job" not in shown[0], "its payload may hold secrets"
    assert shown[1]["next_at"] is None


def test_a_schedule_is_shown_with_its_next_times_and_its_last_runs(onward, client):
    add_nightly(client)
    [job_id] = fire(client, _NIGHT + timedelta(minutes=2))
    shown = onward("schedules", "show", "nightly").out
    assert "cron 0 2 * * * (At 02:00 every day, Europe/Lisbon)\n" in shown
    assert "jitter      5m\n" in shown
    assert "2026-01-05 02:00:00" not in shown.partition("last runs")[0]
    assert shown.partition("next times")[2].count(" in ") == 5
    assert f"2026-01-05 02:00:00 WET  clock  2m    not ended  {job_id}" in shown.partition("last runs")[2]
    told = json.loads(onward("schedules", "show", "nightly", "--json").out)
    assert len(told["next_times"]) == 5
    assert [(run["occurrence"], run["drift"], run["late"], run["job_id"]) for run in told["runs"]] == [
        ("2026-01-05T02:00:00.000000Z", 120.0, True, job_id)
    ]


def test_the_next_times_are_those_of_its_zone(onward, client):
    client.schedules.add("noon", "report", cron="0 12 * * *", tz="Asia/Kathmandu")
    lines = onward("schedules", "next", "noon", "-n", "3").out.splitlines()
    assert len(lines) == 3
    assert all(" 12:00:00 +0545  in " in line for line in lines)
    times = json.loads(onward("schedules", "next", "noon", "--json").out)["next_times"]
    assert len(times) == 5
    assert {time[10:] for time in times} == {"T06:15:00.000000Z"}


def test_the_history_says_what_became_of_each_run(onward, client):
    add_nightly(client)
    assert onward("schedules", "history", "nightly").err == "nightly has not run yet\n"
    [first] = fire(client, _NIGHT)
    client.jobs.cancel(first, reason="not tonight")
    client.worker.follow_up()
    [second] = fire(client, _NIGHT + timedelta(days=1))
    heading, newest, oldest = onward("schedules", "history", "nightly").out.splitlines()
    assert heading.split() == ["OCCURRENCE", "BY", "LATE", "OUTCOME", "JOB", "ERROR"]
    assert newest.split()[1:] == ["02:00:00", "WET", "clock", "not", "ended", second]
    assert "cancelled" in oldest
    runs = json.loads(onward("schedules", "history", "nightly", "--limit", "1", "--json").out)["items"]
    assert [(run["job_id"], run["outcome"]) for run in runs] == [(second, None)]


def test_a_schedule_is_run_now_beside_its_times(onward, client):
    add_nightly(client)
    before = client.schedules.get("nightly").next_at
    ran = onward("schedules", "run", "nightly", "--reason", "the numbers were wrong", "--actor", "user:ada")
    assert ran.code == 0
    assert client.jobs.get(ran.out.strip()).job_type == "report"
    assert client.schedules.get("nightly").next_at == before
    [_, line] = onward("schedules", "history", "nightly").out.splitlines()
    assert line.split()[3:6] == ["hand", "not", "ended"]
    told = json.loads(onward("schedules", "run", "nightly", "--json").out)
    assert client.jobs.get(told["job_id"]).job_type == "report"
    newest, oldest = [record for record in client.audit.list() if record.event == "schedule.run_now"]
    assert (oldest.actor_id, oldest.detail["reason"]) == ("ada", "the numbers were wrong")
    assert newest.actor_type == "cli"  # whoever says nothing


def test_a_schedule_is_paused_and_resumed_for_a_reason(onward, client):
    add_nightly(client)
    paused = onward("schedules", "pause", "nightly", "--reason", "audit week", "--actor", "user:ada")
    assert (paused.code, paused.err) == (0, "nightly is paused\n")
    assert client.schedules.get("nightly").pause.reason == "audit week"
    assert "by user:ada: audit week" in onward("schedules", "show", "nightly").out
    again = onward("schedules", "pause", "nightly", "--reason", "audit week")
    assert again.err == "nightly was paused for that reason already\n"
    assert onward("schedules", "resume", "nightly").err == "nightly is resumed\n"
    assert client.schedules.get("nightly").pause is None
    resumed = onward("schedules", "resume", "nightly")
    assert (resumed.code, resumed.err) == (1, "nightly was not paused\n")


@pytest.mark.parametrize("arguments", [["show"], ["next"], ["history"], ["run"], ["pause", "--reason", "r"]])
def test_a_schedule_that_is_not_there_is_an_error(onward, client, arguments):
    ran = onward("schedules", *arguments, "nightli")
    assert ran.code != 0
    assert "no schedule is named 'nightli'" in ran.err


def test_a_schedule_is_removed_for_a_reason(onward, client):
    add_nightly(client)
    said = onward("schedules", "remove", "nightly", "--reason", "no more reports")
    assert said.err == "nightly is removed\n"
    assert not client.schedules.list()


def test_the_history_of_a_removed_schedule_is_told_in_utc(onward, client):
    add_nightly(client)
    fire(client, _NIGHT)
    client.schedules.remove("nightly", reason="no more reports")
    assert "2026-01-05 02:00:00 UTC" in onward("schedules", "history", "nightly").out


def test_who_removes_what_code_defines_is_told_that_it_comes_back(onward, client):
    new = checked_schedule("report", NewJob(job_type="report"), {"every": "1h"}, Policies(), source="code")
    client.worker.schedules.declare([new])
    said = onward("schedules", "remove", "report", "--reason", "no more reports")
    assert said.err == (
        "report is removed\nit is defined in code, so it returns when a worker starts; "
        "to stop its runs: onward schedules pause --reason … report\n"
    )


def test_a_pause_without_a_reason_is_refused(onward, client):
    add_nightly(client)
    assert onward("schedules", "pause", "nightly").code == 2
    assert client.schedules.get("nightly").pause is None


def test_a_worker_says_at_its_start_when_scheduled_job_types_run(folder):
    app = Onward()

    @app.job
    def greet() -> None: ...

    @app.job(cron="0 2 * * *", tz="Europe/Lisbon")
    def nightly_report() -> None: ...

    @app.job(every="2m")
    def poll() -> None: ...

    @app.job(every="2m", warm_up="30s")
    def sync() -> None: ...

    said = describe_jobs(app)
    assert re.fullmatch(
        r"4 found: greet \(q:default\), nightly_report \(cron 0 2 \* \* \*, next in [^)]+\), "
        r"poll \(every 2m, next in .+\), sync \(every 2m\)",
        said,
    ), said
