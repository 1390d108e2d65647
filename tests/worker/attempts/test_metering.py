"""What handlers meter is written with the ends of their runs, once; who has spent all is held."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

from onward import Context, JobState, Onward, Retry, Snooze
from onward.worker.worker import Worker
from tests.worker.attempts import metering_jobs
from tests.worker.finishing.test_lost_answers import LosesAnswers
from tests.worker.waiting import SOON, drain, until

pytestmark = pytest.mark.anyio


def used(app: Onward, job_id: str) -> dict[tuple[int, str], tuple[float, int]]:
    """What each run has used."""
    events = app.client.usage.events(job_id)
    return {(event.attempt, event.unit): (event.amount, event.cost_micros) for event in events}


async def run_processes(app: Onward, **options: Any) -> None:
    async with asyncio.timeout(SOON):
        await Worker(metering_jobs.app.handlers, app.clients, drain=True, **options).run()


async def test_a_failed_run_and_the_one_after_it_are_both_counted(app):  # R24, S1-11
    @app.job
    async def on_the_loop(ctx: Context) -> None:
        ctx.meter("tokens", 10, cost_micros=500)
        ctx.meter("tokens", 2.5, cost_micros=50)
        if ctx.job.attempt == 1:
            raise Retry("again", after=0)
        ctx.meter("mail")

    @app.job
    def in_a_thread(ctx: Context) -> None:
        meter = threading.Thread(target=ctx.meter, args=("tokens", 10), kwargs={"cost_micros": 500})
        meter.start()
        meter.join()
        ctx.meter("tokens", 2.5, cost_micros=50)
        if ctx.job.attempt == 1:
            raise Retry("again", after=0)
        ctx.meter("mail")

    for job_type in (on_the_loop, in_a_thread):
        job = await job_type.aenqueue()
        await drain(app)
        expected = {(1, "tokens"): (12.5, 550), (2, "tokens"): (12.5, 550), (2, "mail"): (1.0, 0)}
        assert used(app, job.id) == expected
        assert app.client.jobs.get(job.id).cost_micros == 1100
        assert [run.cost_micros for run in app.client.jobs.attempts(job.id)] == [550, 550]


async def test_a_handler_that_meters_nonsense_fails_at_once_and_keeps_what_it_metered_before(app):
    @app.job(max_attempts=1)
    async def work(ctx: Context, wrong: int) -> None:
        ctx.meter("mail", cost_micros=5)
        ctx.meter("mail", -1)

    job = await work.aenqueue(1)
    await drain(app)
    assert app.client.jobs.get(job.id).error.error_class == "InvalidSetting"
    assert used(app, job.id) == {(1, "mail"): (1.0, 5)}


async def test_a_process_tells_what_it_uses_also_when_it_fails(app):  # R24
    count = metering_jobs.count.build
    done, failed = await app.aclient.enqueue_many([count(), count(fail=True)])
    await run_processes(app, concurrency=1)
    for job in (done, failed):
        assert used(app, job.id) == {(1, "cpu"): (2.0, 22), (1, "pages"): (1.0, 0)}
        assert app.client.jobs.get(job.id).cost_micros == 22


async def test_what_a_process_used_before_it_was_ended_is_counted(app, tmp_path):
    sign = tmp_path / "metered"
    hang = metering_jobs.hang.build(str(sign))
    over = metering_jobs.overdo.using(max_attempts=1).build()
    hung, refused = await app.aclient.enqueue_many([hang, over])
    running = asyncio.create_task(run_processes(app))
    await until(sign.exists)
    await app.aclient.jobs.cancel(hung.id, reason="enough")
    await running
    assert app.client.jobs.get(hung.id).state == JobState.CANCELLED
    assert used(app, hung.id) == {(1, "cpu"): (3.0, 7)}
    assert app.client.jobs.get(refused.id).error.error_class == "InvalidSetting"
    assert used(app, refused.id) == {}


async def test_what_a_thread_left_behind_in_a_process_uses_is_not_the_next_jobs(app):
    leave = await app.aclient.enqueue(metering_jobs.leave_a_thread.using(priority=1).build())
    wake = await app.aclient.enqueue(metering_jobs.wake_the_thread.using(priority=5).build())
    await run_processes(app, concurrency=1)
    assert used(app, leave.id) == {}
    assert used(app, wake.id) == {(1, "in time"): (1.0, 1)}


async def test_every_run_is_an_event_where_an_application_asks_for_it(app):  # S2-33
    @app.job
    async def work(ctx: Context) -> None:
        if ctx.job.attempt == 1:
            ctx.meter("seconds", 100)
            raise Retry("again", after=0)

    counting = Onward(app.clients.url, schema=app.clients.schema, meter_runs=True)
    job = await work.aenqueue()
    async with asyncio.timeout(SOON):
        await Worker(app.handlers, counting.clients, drain=True).run()
    found = used(app, job.id)
    assert set(found) == {(1, "runs"), (1, "seconds"), (2, "runs"), (2, "seconds")}
    assert found[1, "runs"] == found[2, "runs"] == (1.0, 0)
    assert 100 < found[1, "seconds"][0] < 100 + SOON
    assert 0 < found[2, "seconds"][0] < SOON


async def test_a_run_that_meters_nothing_leaves_no_usage(app):
    @app.job
    async def work() -> None:
        pass

    job = await work.aenqueue()
    await drain(app)
    assert used(app, job.id) == {}


@pytest.mark.parametrize("outcome", ["succeeds", "goes back"])
async def test_the_usage_of_an_end_whose_answer_was_lost_is_counted_once(app, outcome):  # R7, F14
    @app.job
    async def work(ctx: Context) -> None:
        ctx.meter("mail", cost_micros=5)
        if outcome == "goes back" and ctx.job.lease == 1:
            raise Snooze(0)

    app.client.usage.set_budget("acme", limit_micros=1000, period="total")
    job = await work.using(org_id="acme").aenqueue()
    clients = LosesAnswers(app, "write")
    async with asyncio.timeout(SOON):
        await Worker(app.handlers, clients, drain=True).run()
    assert clients.lost == 1
    runs = 2 if outcome == "goes back" else 1
    assert app.client.jobs.get(job.id).cost_micros == 5 * runs
    assert len(app.client.usage.events(job.id)) == runs
    assert app.client.usage.budgets()[0].spent_micros == 5 * runs


async def test_a_worker_that_lost_its_lease_can_write_no_usage(app):  # R7
    begun, go_on = asyncio.Event(), asyncio.Event()

    @app.job
    async def work(ctx: Context) -> None:
        ctx.meter("mail", cost_micros=5)
        if not begun.is_set():
            begun.set()
            await go_on.wait()

    job = await work.aenqueue()
    worker = app.worker(drain=True)
    async with asyncio.timeout(SOON):
        running = asyncio.create_task(worker.run())
        await begun.wait()
        await asyncio.to_thread(app.client.worker.rescue_worker, str(worker.worker_id))
        go_on.set()
        await running
    await drain(app)
    assert app.client.jobs.get(job.id).cost_micros == 5
    assert len(app.client.usage.events(job.id)) == 1
    assert worker.tally.refused == 1


def charging(app: Onward) -> Callable[..., Any]:
    @app.job
    async def charge(ctx: Context) -> None:
        ctx.meter("mail", cost_micros=10)

    return charge.using


async def test_a_spent_budget_holds_one_org_until_it_is_raised(app):  # R24
    charge = charging(app)
    app.client.usage.set_budget("poor", limit_micros=10, period="day")
    async with app.worker() as worker:
        first = await charge(org_id="poor").aenqueue()
        await first.ajoin(timeout=SOON)
        await until(lambda: app.client.worker.instructions(worker.worker_id).paused("budget") == {"poor"})
        # The worker has heard it, too, once it has asked twice.
        await until(lambda: worker.parts.exclusions.controls.held_orgs == {"poor"})
        held = await charge(org_id="poor").aenqueue()
        for org in ("rich", None):
            other = await charge(org_id=org).aenqueue()
            assert (await other.ajoin(timeout=SOON)).state == JobState.SUCCEEDED
        assert app.client.jobs.get(held.id).state == JobState.QUEUED
        app.client.usage.set_budget("poor", limit_micros=1000, period="day")
        assert (await held.ajoin(timeout=SOON)).state == JobState.SUCCEEDED


def test_a_tick_passes_over_who_has_spent_its_budget(app):
    charge = charging(app)
    app.client.usage.set_budget("poor", limit_micros=10, period="total")
    charge(org_id="poor").enqueue()
    assert app.tick().processed == 1
    held = charge(org_id="poor").enqueue()
    other = charge(org_id="rich").enqueue()
    tick = app.tick()
    assert (tick.processed, tick.remaining) == (1, 1)
    assert other.refresh().state == JobState.SUCCEEDED
    assert held.refresh().state == JobState.QUEUED
    app.client.usage.remove_budget("poor")
    assert app.tick().processed == 1


async def test_a_worker_that_spends_a_budget_claims_no_more_and_gives_back_what_it_holds(app):  # R24
    @app.job
    async def dear(ctx: Context) -> None:
        ctx.meter("tokens", cost_micros=1000)
        # So that a job is written before the next one begins.
        await asyncio.sleep(0.02)

    app.client.usage.set_budget("spender", limit_micros=3000, period="total", reason="enough")
    app.enqueue_many([dear.using(org_id="spender").build() for _ in range(300)])
    await app.worker(drain=True, concurrency=1).run()
    [budget] = app.client.usage.budgets()
    assert 3000 <= budget.spent_micros <= 20_000
    counts = app.client.jobs.count()
    assert counts.total(JobState.RUNNING) == 0
    assert counts.total(JobState.QUEUED) == 300 - budget.spent_micros // 1000
    assert counts.total(JobState.SUCCEEDED) == budget.spent_micros // 1000
