"""Workers tell the sinks: one of them leads, and no sink can do harm to a job or to another sink."""

from __future__ import annotations

import asyncio
import json
import logging
import threading
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from onward import CallableSink, Client, InvalidSetting, LogSink, NewJob, Onward, Unrecoverable
from onward.clients.upkeep.doctor import AsyncDoctor
from onward.core.upkeep import findings
from onward.core.upkeep.diagnosis import Finding
from onward.results import Alert
from onward.worker.loops.alert_delivery import back_off
from onward.worker.timings import Timings
from tests.cli.program import Program
from tests.failures.alerts.deaths import Told
from tests.failures.alerts.samples import alert
from tests.failures.alerts.servers import web_server
from tests.jobs.inspect.reading import rows
from tests.stores.postgres.postgres_schema import clean_schema
from tests.worker.faults.place import until as until_seen
from tests.worker.waiting import drain, until

pytestmark = pytest.mark.anyio

ROOT = Path(__file__).parents[3]


@pytest.fixture
def told() -> Told:
    return Told()


@pytest.fixture(params=["sqlite", "postgres"])
async def app(request, tmp_path, told, anyio_backend) -> AsyncIterator[Onward]:
    if request.param == "sqlite":
        made = Onward(f"sqlite:///{tmp_path}/onward.db", alerts=[told])
        yield dying(made)
        await made.aclose()
        return
    url = request.getfixturevalue("postgres_url")
    with clean_schema(url) as store:
        made = Onward(url, schema=store.prefix.rstrip("."), alerts=[told])
        yield dying(made)
        await made.aclose()


def dying(app: Onward) -> Onward:
    @app.job
    async def die(why: str = "no such mailbox") -> None:
        raise Unrecoverable(why, hint="correct `to`", link="https://example.com/runbooks/mail")

    @app.job
    async def live() -> str:
        return "well"

    return app


async def test_a_worker_that_runs_tells_of_a_death_by_itself(app, told):
    # S3-24, S4-45
    handle = await app.jobs["die"].aenqueue()
    async with app.worker():
        await until(lambda: told.alerts)
    [alert] = told.alerts
    assert (alert.job_id, alert.job_type, alert.hint) == (handle.id, "die", "correct `to`")
    [listed] = app.client.alerts.list()
    assert (listed.fingerprint, listed.count, listed.waiting) == (alert.fingerprint, 1, ())
    assert app.client.jobs.get(handle.id).error.fingerprint == alert.fingerprint


async def test_a_worker_that_only_comes_by_tells_before_it_goes(app, told):
    await app.jobs["die"].aenqueue()
    tick = await app.atick()
    assert tick.dead == 1
    assert [alert.message for alert in told.alerts] == ["no such mailbox"]


async def test_of_two_workers_one_tells_and_only_once(app, told):
    async with AsyncExitStack() as stack:
        for _ in range(2):
            await stack.enter_async_context(app.worker())
        await app.aenqueue_many(app.jobs["die"].build(why=f"number {n}") for n in range(10))
        await until(lambda: sum(alert.count for alert in told.alerts) == 10 or told.alerts[1:])
        leaders = rows(app.client, "SELECT worker_id FROM {prefix}leaders WHERE name = 'alerter'")
        assert len(leaders) == 1
    await drain(app)
    [listed] = app.client.alerts.list()
    assert listed.count == 10
    assert sum(alert.count for alert in told.alerts) + listed.unsent == 10


async def test_a_sink_that_fails_touches_neither_jobs_nor_other_sinks_and_is_tried_again(app, told, caplog):
    second = Told("second")
    app.policies.registry.sinks.append(second)
    told.failure = OSError("password=hunter2hunter2 is wrong")
    await app.jobs["die"].aenqueue()
    well = await app.jobs["live"].aenqueue()
    with caplog.at_level(logging.WARNING, "onward.worker"):
        await drain(app)
        await drain(app)
    assert await well.aresult() == "well"
    assert (len(second.alerts), told.tries, told.alerts) == (1, 1, [])
    [waiting] = app.client.alerts.list()[0].waiting
    assert (waiting.sink, waiting.tries) == ("told", 1)
    assert "hunter2" not in waiting.error
    assert waiting.error.startswith("OSError: password=")
    assert waiting.next_at is not None
    assert len([line for line in caplog.messages if "alert sink told fails" in line]) == 1
    told.failure = None
    rows(app.client, "UPDATE {prefix}alert_sends SET next_at = sent_at FROM {prefix}alerts")
    await drain(app)
    assert [alert.count for alert in told.alerts] == [1]
    assert app.client.alerts.list()[0].waiting == ()


async def test_a_sink_that_hangs_keeps_only_itself_waiting(app, told):
    over = threading.Event()
    calls: list[Alert] = []

    @app.alert_sink
    def hanging(alert: Alert) -> None:
        calls.append(alert)
        over.wait(20)

    try:
        await app.jobs["die"].aenqueue()
        began = time.monotonic()
        await drain(app, timings=Timings(sink=0.1))
        assert time.monotonic() - began < 5
        assert (len(told.alerts), len(calls)) == (1, 1)
        [waiting] = app.client.alerts.list()[0].waiting
        assert waiting.error == "it did not come back within 0.1 s"
    finally:
        over.set()


async def test_what_was_sent_when_a_worker_ends_is_not_sent_again(app, told):
    sending, over = threading.Event(), threading.Event()

    @app.alert_sink
    def slow(alert: Alert) -> None:
        sending.set()
        over.wait(20)

    await app.jobs["die"].aenqueue()
    async with app.worker():
        await until(sending.is_set)
        asyncio.get_running_loop().call_later(0.1, over.set)
    assert app.client.alerts.list()[0].waiting == ()


async def test_without_sinks_nothing_is_done_and_what_died_is_told_to_the_first_one(app, told):
    sinks = app.policies.registry.sinks[:]
    app.policies.registry.sinks.clear()
    await app.jobs["die"].aenqueue()
    await drain(app)
    assert list(app.client.alerts.list()) == []
    app.policies.registry.sinks.extend(sinks)
    await drain(app)
    assert len(told.alerts) == 1


async def test_a_finding_of_the_doctor_is_told(app, told, monkeypatch):
    monkeypatch.setattr(findings, "_RESTART", timedelta())
    await app.jobs["live"].using(queue="q:nobody").aenqueue()
    async with app.worker(queues={"q:default": None}, timings=Timings(check=0.0)):
        await until(lambda: told.alerts)
    alert = next(alert for alert in told.alerts if alert.kind == "unserved_queue")
    assert alert.fingerprint == "unserved_queue:q:nobody"
    assert alert.job_id is None


async def test_a_doctor_that_fails_keeps_no_death_from_being_told(app, told, monkeypatch, caplog):
    async def check(_self, **_options) -> list[Finding]:
        raise KeyError("oops")

    monkeypatch.setattr(AsyncDoctor, "check", check)
    await app.jobs["die"].aenqueue()
    with caplog.at_level(logging.WARNING, "onward.worker"):
        async with app.worker(timings=Timings(check=0.0)):
            await until(lambda: told.alerts)
    assert [line for line in caplog.messages if "the doctor fails: KeyError" in line]


async def test_a_death_is_one_line_of_the_log_unless_other_sinks_are_given(tmp_path, caplog):
    app = dying(Onward(f"sqlite:///{tmp_path}/onward.db"))
    handle = await app.jobs["die"].aenqueue()
    with caplog.at_level(logging.WARNING):
        await drain(app)
    [line] = [record for record in caplog.records if record.name == "onward.alerts"]
    assert line.levelno == logging.ERROR
    text = line.getMessage()
    assert text.startswith("job_dead: die died: unrecoverable · ")
    for part in (handle.id, "no such mailbox", "correct `to`", "onward dead show ", "Manual intervention"):
        assert part in text
    assert "\n" not in text
    await app.aclose()


async def test_a_function_is_a_sink_also_an_async_one():
    told: list[Alert] = []

    async def later(alert: Alert) -> None:
        await asyncio.sleep(0)
        told.append(alert)

    app = Onward(alerts=[told.append, later])

    @app.alert_sink
    def third(alert: Alert) -> None:
        told.append(alert)

    for sink in app.policies.registry.sinks:
        await asyncio.to_thread(sink.send, alert())
    assert told == [alert()] * 3


@pytest.mark.parametrize(
    ("alerts", "told"),
    [
        ([7], "7 is no sink"),
        ("log", "alerts is 'log'"),
        (LogSink(), "alerts is LogSink"),
        ([LogSink], "is no sink"),
        ([LogSink(), LogSink()], "two sinks are named 'log'"),
        ([CallableSink(print, name="log"), LogSink()], "two sinks are named 'log'"),
    ],
)
async def test_what_is_no_sink_is_refused(alerts, told):
    with pytest.raises(InvalidSetting, match=told):
        Onward(alerts=alerts)


async def test_a_function_that_can_not_be_given_an_alert_is_no_sink():
    app: Any = Onward("sqlite:///never.db")
    with pytest.raises(InvalidSetting, match="is called with the alert alone, but takes"):
        app.alert_sink(lambda: None)


async def test_a_sink_is_left_alone_for_longer_each_time_and_given_up_at_last():
    waits = [back_off(tries) for tries in range(1, 21)]
    seconds = [wait.total_seconds() for wait in waits[:-1]]
    assert seconds[:7] == [10, 20, 40, 80, 160, 320, 600]
    assert set(seconds[7:]) == {600}
    assert waits[-1] is None


def test_when_the_leader_is_killed_another_worker_tells(postgres_url):
    with clean_schema(postgres_url) as store, web_server() as hook:
        client, schema = Client(store=store), store.prefix.rstrip(".")
        environment = {"ONWARD_URL": postgres_url, "ALERTING_SCHEMA": schema, "ALERTING_HOOK": hook.url()}
        options = ("worker", "tests.failures.alerts.alerting_app:app", "--lease", "2s")

        def leader() -> int | None:
            found = rows(client, "SELECT worker_id FROM {prefix}leaders WHERE name = 'alerter'")
            return int(found[0][0].split(":")[1]) if found else None

        with (
            Program(ROOT, *options, **environment) as first,
            Program(ROOT, *options, **environment) as second,
        ):
            until_seen(lambda: leader() in {first.pid, second.pid})
            doomed, other = (first, second) if leader() == first.pid else (second, first)
            with doomed:
                pass
            doomed_job = client.enqueue(NewJob(job_type="die", payload={"why": "no such mailbox"}))
            until_seen(lambda: hook.received)
            assert leader() == other.pid
        [request_] = hook.received
        assert json.loads(request_.body)["job_id"] == doomed_job.id
