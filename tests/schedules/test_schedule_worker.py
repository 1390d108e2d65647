"""Workers fire schedules at their time, and do what the application wants done when they start."""

from __future__ import annotations

import asyncio
import logging
import threading
from datetime import UTC, datetime, timedelta

import pytest

from onward import JobType, Onward
from onward.results import ScheduleRun
from tests.worker.waiting import SOON, drain, until

pytestmark = pytest.mark.anyio

HOUR = timedelta(hours=1)


def long_ago(app: Onward, job_type: JobType, **options) -> None:
    """Add a schedule of which occurrences have been missed."""
    now = datetime.now(UTC) - 5 * HOUR
    anchor = now - timedelta(minutes=7)
    app.client.at(now).schedules.add(job_type.name, job_type.build(), every="1h", anchor=anchor, **options)


def runs(app: Onward, name: str) -> list[ScheduleRun]:
    return list(app.client.schedules.runs(name))


async def test_jobs_run_within_a_second_of_their_occurrences(app):
    began: list[datetime] = []

    @app.job(every="1s")
    async def often() -> None:
        began.append(datetime.now(UTC))

    async with app.worker():
        await until(lambda: len(began) >= 2)
    occurrences = sorted(run.occurrence for run in runs(app, "often"))
    drifts = [at - occurrence for at, occurrence in zip(began, occurrences, strict=False)]
    assert all(timedelta() <= drift < timedelta(seconds=1) for drift in drifts), drifts


async def test_every_run_is_in_the_history_with_its_outcome_and_error(app):  # S3-40
    @app.job
    def works() -> None: ...

    @app.job(max_attempts=1)
    def fails() -> None:
        raise RuntimeError("the provider is gone")

    long_ago(app, works)
    long_ago(app, fails)
    await drain(app)
    [good], [bad] = runs(app, "works"), runs(app, "fails")
    assert (good.outcome, good.error) == ("succeeded", None)
    assert (bad.outcome, bad.error) == ("dead", "RuntimeError: the provider is gone")
    assert good.ended_at is not None
    assert app.client.schedules.get("fails").last_run == bad


async def test_a_worker_declares_what_its_code_defines(app):
    @app.job(cron="0 2 * * *", missed="all")
    def report() -> None: ...

    await drain(app)
    schedule = app.client.schedules.get("report")
    assert (schedule.source, schedule.timing.cron, schedule.missed) == ("code", "0 2 * * *", "all")
    app.client.schedules.pause("report", reason="holidays")
    await drain(app)
    assert app.client.schedules.get("report").pause is not None, "a start of a worker ends no pause"


def test_a_tick_fires_what_is_due(app):
    ran = threading.Event()

    @app.job
    def report() -> None:
        ran.set()

    long_ago(app, report, warm_up="1h")
    tick = app.tick()
    assert (tick.processed, ran.is_set()) == (1, True)
    assert len(runs(app, "report")) == 1


async def test_a_late_occurrence_is_told_in_the_log_and_by_the_doctor(app, caplog):  # S4-67
    @app.job
    def report() -> None: ...

    long_ago(app, report)
    with caplog.at_level(logging.WARNING, logger="onward.worker"):
        await drain(app)
    [told] = [record.getMessage() for record in caplog.records if "late" in record.getMessage()]
    assert told.startswith("schedule report: the occurrence of ")
    finding = next(one for one in app.client.doctor.check() if one.code == "silent_schedule")
    assert (finding.severity, finding.evidence["schedule"]) == ("warning", "report")
    assert "late" in finding.title


async def test_a_schedule_that_can_not_be_fired_keeps_no_other_from_it(app, caplog):
    @app.job
    def report() -> None: ...

    long_ago(app, report)
    app.client.at(datetime.now(UTC) - 5 * HOUR).schedules.add("spoilt", "report", cron="0 * * * *")
    spoil(app, "spoilt")
    with caplog.at_level(logging.ERROR, logger="onward.worker"):
        await drain(app)
    assert len(runs(app, "report")) == 1
    assert any("schedule spoilt could not be fired" in record.getMessage() for record in caplog.records)


def spoil(app: Onward, name: str) -> None:
    """Give a schedule a time zone that this machine does not have."""
    store = app.client.store
    connection = store.connect()
    with connection:
        connection.execute(f"UPDATE {store.prefix}schedules SET tz = 'Atlantis' WHERE name = '{name}'")
    connection.close()


async def test_start_hooks_run_once_after_their_delay_and_may_fail(app, caplog):  # S3-41
    called: list[str] = []
    later = asyncio.Event()

    @app.on_start
    def broken() -> None:
        called.append("broken")
        raise RuntimeError("no such property")

    @app.on_start(delay="0.05s")
    async def prepare() -> None:
        called.append("prepare")
        later.set()

    @app.on_start(delay="1h")
    def never() -> None:
        called.append("never")

    with caplog.at_level(logging.ERROR, logger="onward.worker"):
        for _ in range(2):
            async with app.worker() as worker, asyncio.timeout(SOON):
                await later.wait()
                await until(lambda: len(called) == 2)
                assert worker.worker_id is not None
    assert called == ["broken", "prepare"]
    [told] = caplog.records
    assert "broken failed; the worker goes on" in told.getMessage()


async def test_who_only_drains_runs_no_start_hooks(app):
    called: list[str] = []
    app.on_start(lambda: called.append("hook"))
    await drain(app)
    assert called == []
