"""Schedules of job types, in code and at run time."""

from __future__ import annotations

from datetime import timedelta

import pytest

from onward import Category, NewJob, Onward
from onward.errors import InvalidSetting

HOUR = timedelta(hours=1)


@pytest.fixture
def unused() -> Onward:
    """An application whose database is never asked for."""
    return Onward("sqlite:///never-made.db")


def test_a_job_type_may_have_a_schedule(unused):
    @unused.job(
        cron="0 2 * * *", tz="Europe/Lisbon", jitter="5m", missed="skip", overlap="wait", warm_up="30s",
        priority=2, deadline="1h",
    )  # fmt: skip
    def report(kind: str = "sales") -> None: ...

    schedule = report.handler.schedule
    assert schedule is not None
    assert (schedule.name, schedule.source) == ("report", "code")
    assert (schedule.timing.cron, schedule.timing.tz) == ("0 2 * * *", "Europe/Lisbon")
    assert (schedule.missed, schedule.overlap) == ("skip", "wait")
    assert (schedule.jitter, schedule.warm_up) == (timedelta(minutes=5), timedelta(seconds=30))
    assert (schedule.template.priority, schedule.template.allowed) == (2, HOUR)


def test_a_job_type_without_times_has_no_schedule(unused):
    @unused.job
    def report() -> None: ...

    assert report.handler.schedule is None


@pytest.mark.parametrize("options", [{"tz": "UTC"}, {"jitter": "5m"}, {"overlap": "skip", "missed": "all"}])
def test_the_options_of_a_schedule_need_its_times(unused, options):
    with pytest.raises(InvalidSetting, match="give cron= or every= too"):

        @unused.job(**options)
        def report() -> None: ...


def test_a_schedule_in_code_needs_a_function_without_arguments(unused):
    with pytest.raises(InvalidSetting, match=r"job type 'report'[\s\S]*app\.schedule\("):

        @unused.job(every="1h")
        def report(kind: str) -> None: ...


def test_a_key_of_the_job_type_gives_way_to_that_of_the_occurrence(unused):
    @unused.job(every="1h", key="report:{kind}")
    def report(kind: str = "sales") -> None: ...

    assert report.handler.schedule is not None


def test_a_category_that_denies_it_is_refused_where_the_schedule_is_defined(unused):
    unused.category(Category(name="now_only", scheduling="deny"))
    with pytest.raises(ValueError, match="category now_only may not be scheduled"):

        @unused.job(every="1h", category="now_only")
        def report() -> None: ...


def test_a_schedule_is_added_at_run_time_for_a_job_type(app):
    @app.job(deadline="1h")
    def report(kind: str) -> None: ...

    with app.context(actor="user:42"):
        of_acme = report.using(priority=2, org_id="acme")
        stored = app.schedule("weekly", of_acme, payload={"kind": "sales"}, cron="0 8 * * 1")
    assert (stored.source, stored.job_type, stored.payload) == ("database", "report", {"kind": "sales"})
    job = stored.job_at(stored.next_at)
    assert (job.org_id, job.actor_id, job.priority) == ("acme", "schedule:weekly", 2)
    assert job.deadline == stored.next_at + HOUR
    with pytest.raises(ValueError, match="kind"):
        app.schedule("weekly", report, payload={}, cron="0 8 * * 1")
    with pytest.raises(InvalidSetting, match='schedule\\(\\) has no option "crom"'):
        app.schedule("weekly", report, payload={"kind": "sales"}, crom="0 8 * * 1")


def test_a_schedule_is_added_for_the_name_of_a_job_type_with_its_defaults(app):
    @app.job(priority=2)
    def report(kind: str, copies: int = 3) -> None: ...

    stored = app.schedule("weekly", "report", payload={"kind": "sales"}, cron="0 8 * * 1")
    assert (stored.job_type, stored.payload["kind"]) == ("report", "sales")
    assert stored.job_at(stored.next_at).priority == 2
    with pytest.raises(ValueError, match="kind"):
        app.schedule("weekly", "report", cron="0 8 * * 1")


def test_a_schedule_of_something_else_is_refused(unused):
    @unused.job
    def report() -> None: ...

    for name, job, said in (
        ("weekly", "reprot", "no job type 'reprot'; did you mean 'report'"),
        ("report", "weekly", "First comes the schedule's name"),
        (report, "weekly", r"give the schedule's name \(a str\), then"),
        ("weekly", print, "then a job type, a job type's name, or NewJob"),
        ("weekly", None, "then a job type, a job type's name, or NewJob"),
    ):
        with pytest.raises(InvalidSetting, match=said):
            unused.schedule(name, job, every="1h")
    with pytest.raises(InvalidSetting, match='Did you mean "tz"'):
        unused.schedule("weekly", report, cron="@weekly", timezone="Europe/Lisbon")


def test_a_client_of_an_application_takes_the_names_of_its_job_types(app):
    assert app.client.schedules.add("any", "elsewhere", every="1h").job_type == "elsewhere"

    @app.job
    def report() -> None: ...

    with pytest.raises(InvalidSetting, match=r"did you mean 'report'[\s\S]*NewJob\(job_type="):
        app.client.schedules.add("typo", "reprot", every="1h")
    assert app.client.schedules.add("other", NewJob(job_type="elsewhere"), every="1h")
    with pytest.raises(InvalidSetting, match="leave payload= out"):
        app.client.schedules.add("other", NewJob(job_type="elsewhere"), payload={}, every="1h")


@pytest.mark.anyio
async def test_a_schedule_is_added_at_run_time_for_a_job(app):
    stored = await app.aschedule("weekly", NewJob(job_type="elsewhere", payload={"a": 1}), every="7d")
    assert (stored.job_type, stored.payload) == ("elsewhere", {"a": 1})
    with pytest.raises(InvalidSetting, match="leave payload= out"):
        await app.aschedule("weekly", NewJob(job_type="elsewhere"), payload={}, every="7d")
    await app.aclose()


@pytest.mark.parametrize("wrong", [5, lambda needed: needed])
def test_what_could_not_be_called_at_a_start_is_refused(unused, wrong):
    with pytest.raises(InvalidSetting, match=r"on_start\(\)"):
        unused.on_start(wrong)


def test_a_hook_stays_the_function_that_it_was(unused):
    @unused.on_start(delay="15s")
    def prepare() -> str:
        return "ready"

    [hook] = unused.on_start
    assert (prepare(), hook.delay) == ("ready", timedelta(seconds=15))
