"""Those who wait for a provider: they keep nobody from running, and give back what they no longer want."""

from __future__ import annotations

import asyncio
import threading
import time
from datetime import timedelta

import pytest
from msgspec.structs import replace

from onward import Onward, Released, Succeeded
from onward.core.failures.breaker import Answer
from onward.worker.attempts.attempt import Running
from onward.worker.attempts.breaker_gate import Breakers
from onward.worker.timings import Timings
from tests.failures.breakers.breaker_provider import fetch
from tests.failures.breakers.database import execute
from tests.worker.waiting import SOON, until

pytestmark = pytest.mark.anyio


def breakers_of(app: Onward) -> Breakers:
    found = Breakers.of(app.handlers, app.policies, app.aclient, lambda: "w")
    assert found is not None
    return found


async def test_hundreds_that_wait_for_a_slow_provider_keep_no_others_from_running(app, provider):
    gate = threading.Event()
    provider.status, provider.slow = 200, lambda: gate.wait(SOON)

    @app.job(provider="crm")
    async def call() -> None:
        await asyncio.to_thread(fetch, provider.url)

    @app.job
    async def other() -> None: ...

    await app.aenqueue_many(call.build() for _ in range(300))
    async with app.worker(concurrency=2, timings=Timings(provider=0.3)) as worker:
        await until(lambda: provider.calls)
        await app.aenqueue_many(other.build() for _ in range(10))
        await until(lambda: worker.tally.succeeded == 10)
        assert worker.tally.released < 100, "they wait in the queue"
        gate.set()
        await until(lambda: worker.tally.succeeded == 310)


async def test_jobs_of_a_key_that_the_claim_can_not_pass_over_come_back_one_after_the_other(app):
    @app.job(provider=lambda job: f"crm:{job.org_id}")
    async def call() -> None: ...

    await call.using(org_id="acme").aenqueue()
    app.client.worker.register("w")
    [job] = app.client.worker.claim("q:default", worker_id="w")
    breakers = breakers_of(app)
    line = breakers.line("crm:acme")
    line.allowed = 0
    line.crowd(time.monotonic())
    delays = []
    for _ in range(400):
        held = await breakers.enter(Running(job, app.handlers["call"]))
        assert isinstance(held, Released)
        assert isinstance(held.delay, timedelta)
        delays.append(held.delay.total_seconds())
    assert delays[0] < 7
    assert 20 < delays[-1] < 40
    line.grow()
    assert (line.turned_away, line.is_closed(time.monotonic())) == (0, False)


async def test_what_the_claim_can_not_pass_over_is_never_given_back_for_long(app):
    @app.job(provider=lambda job: "crm:acme")
    async def keyed() -> None: ...

    @app.job(provider="crm")
    async def named() -> None: ...

    breakers, app_jobs = breakers_of(app), {}
    for job_type in (keyed, named):
        await job_type.aenqueue()
    app.client.worker.register("w")
    app_jobs = {job.job_type: job for job in app.client.worker.claim("q:default", 2, worker_id="w")}
    for left in (timedelta(hours=1), None):
        breakers.line("crm:acme").hold(left)
        breakers.line("crm").hold(left)
        waits: dict[str, list[float]] = {}
        for name, job in app_jobs.items():
            for _ in range(50):
                held = await breakers.enter(Running(job, app.handlers[name]))
                assert isinstance(held, Released)
                assert isinstance(held.delay, timedelta)
                waits.setdefault(name, []).append(held.delay.total_seconds())
        assert max(waits["named"]) < 1
        assert 10 <= min(waits["keyed"]) < max(waits["keyed"]) <= 15


async def test_a_probe_for_which_nobody_waits_any_more_is_given_back(app):
    @app.job(provider="crm")
    async def call() -> None: ...

    await app.aclient.worker.breakers.answered("crm", None, Answer(pushed_back=True))
    breakers = breakers_of(app)
    line = breakers.line("crm")
    line.doubt()
    await breakers.request_probe(line)
    await breakers.close()
    assert (await app.aclient.worker.breakers.ask("crm", "other")).entry == "probe"


async def test_of_two_leases_of_one_job_in_one_process_each_gives_back_its_place(app):
    @app.job(provider="crm")
    async def call() -> None: ...

    await call.aenqueue()
    app.client.worker.register("w")
    [job] = app.client.worker.claim("q:default", worker_id="w")
    breakers = breakers_of(app)
    line = breakers.line("crm")
    line.allowed = 2
    runs = [replace(job, lease=lease) for lease in (1, 2)]
    for run in runs:
        assert await breakers.enter(Running(run, app.handlers["call"])) is None
    for run in runs:
        breakers.leave(run, Succeeded())
    assert line.running == 0


async def test_lines_of_which_nothing_is_known_any_more_are_forgotten(app):
    app.breaker("crm")
    breakers = breakers_of(app)
    for name in ("old", "new", "held"):
        breakers.line(name).doubt()
    for number in range(1000):
        breakers.line(f"unused{number}")
    breakers.line("old").doubted_at = time.monotonic() - 60
    breakers.line("held").doubted_at = time.monotonic() - 60
    breakers.update({"held": None})
    assert set(breakers.lines) == {"new", "held"}


async def test_a_breaker_that_can_not_be_asked_is_told_of_once(app, provider, caplog):
    app.client.worker.breakers.answered("crm", None, Answer(pushed_back=True))

    @app.job(provider="crm")
    async def call() -> None: ...

    rename = f"ALTER TABLE {app.client.store.prefix}breakers RENAME COLUMN probe TO"
    async with app.worker() as worker:
        execute(app.client, f"{rename} gone")
        await call.aenqueue()
        await until(lambda: worker.parts.breakers is not None and worker.parts.breakers.probes >= 4)
        assert caplog.text.count("can't be asked") == 1
        execute(app.client, f"{rename.replace(' probe ', ' gone ')} probe")
        await until(lambda: worker.tally.succeeded == 1)
