"""What a worker makes of jobs: how they run, end and fail."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest
from msgspec.structs import replace

from onward import (
    Cancelled,
    Client,
    Context,
    Failed,
    JobState,
    NewJob,
    RateLimited,
    Retry,
    Skip,
    Snooze,
    Unrecoverable,
)
from onward.core.work.error_record import ErrorRecord
from onward.core.work.lifecycle import Released
from onward.worker.attempts.outcomes import unknown, unknown_for
from tests.worker.waiting import SOON, drain, until

pytestmark = pytest.mark.anyio


async def test_it_runs_async_and_sync_handlers_and_keeps_their_results(app):  # S0-54, S1-1
    threads = []

    @app.job
    async def double(n: int) -> int:
        threads.append(threading.current_thread())
        return 2 * n

    @app.job
    def triple(ctx: Context, n: int) -> int:
        threads.append(threading.current_thread())
        assert ctx.job.attempt == 1
        return 3 * n

    jobs = [await double.aenqueue(n=7), await triple.aenqueue(n=7)]
    tally = await drain(app)
    assert [await job.aresult() for job in jobs] == [14, 21]
    assert (tally.processed, tally.succeeded) == (2, 2)
    assert [thread is threading.main_thread() for thread in threads] in ([True, False], [False, True])
    found = app.client.jobs.get(jobs[0].id)
    assert [event.event for event in app.client.jobs.events(found.id)] == [
        "job.enqueued",
        "job.started",
        "job.succeeded",
    ]


async def test_hundreds_of_jobs_are_each_run_once(app):
    seen: list[int] = []

    @app.job
    async def count(n: int) -> None:
        seen.append(n)

    await app.aenqueue_many(count.build(n=n) for n in range(1200))
    tally = await drain(app, concurrency=7)
    assert sorted(seen) == list(range(1200))
    assert tally.succeeded == 1200
    assert app.client.jobs.count().total(JobState.SUCCEEDED) == 1200


async def test_the_ways_in_which_a_handler_may_end(app):  # S0-50
    ends: dict[str, Callable[[], BaseException]] = {
        "skip": lambda: Skip("nothing to do"),
        "snooze": lambda: Snooze("1h"),
        "limited": lambda: RateLimited(after=3600),
        "retry": lambda: Retry("busy", after="1h"),
        "fatal": lambda: Unrecoverable("no key", hint="renew it", link="https://example.com"),
        "cancelled": lambda: Cancelled("changed my mind"),
        "error": lambda: RuntimeError("boom"),
        "exit": lambda: SystemExit(3),
        "nonsense": lambda: Snooze("a while"),
    }

    @app.job
    async def end(way: str) -> None:
        error = ends[way]()
        raise error

    @app.job(name="end_in_thread")
    def end_in_thread(way: str) -> None:
        error = ends[way]()
        raise error

    for job_type in (end, end_in_thread):
        jobs = {way: await job_type.aenqueue(way=way) for way in ends}
        tally = await drain(app)
        assert (tally.succeeded, tally.retried, tally.dead, tally.cancelled) == (1, 6, 1, 1)
        found = {way: app.client.jobs.get(job.id) for way, job in jobs.items()}
        assert found["skip"].skipped
        # Neither to wait for a time nor for a provider costs an attempt.
        assert (found["snooze"].state, found["snooze"].attempt) == (JobState.SCHEDULED, 0)
        assert (found["limited"].state, found["limited"].attempt, found["limited"].waits) == (
            "scheduled",
            0,
            1,
        )
        assert (found["retry"].state, found["retry"].attempt) == (JobState.SCHEDULED, 1)
        assert found["retry"].run_at - datetime.now(UTC) > timedelta(minutes=55)
        assert found["fatal"].state == JobState.DEAD
        assert found["fatal"].error.hint == "renew it"
        assert found["cancelled"].error == ErrorRecord(reason="changed my mind")
        assert found["error"].retrying
        assert (found["error"].error.error_class, found["error"].error.message) == ("RuntimeError", "boom")
        assert "raise error" in found["error"].error.traceback
        assert found["exit"].error.error_class == "SystemExit"
        assert "a while" in found["nonsense"].error.message


async def test_a_failed_attempt_is_followed_by_another(app):  # S0-3
    @app.job
    async def flaky(ctx: Context) -> str:
        if ctx.job.attempt < 3:
            raise Retry(after=0)
        return f"attempt {ctx.job.attempt}"

    job = await flaky.aenqueue()
    await drain(app)
    assert await job.aresult() == "attempt 3"
    assert [attempt.outcome for attempt in app.client.jobs.attempts(job.id)] == [
        "failed",
        "failed",
        "succeeded",
    ]


async def test_a_payload_that_does_not_fit_the_signature_is_dead_at_once(app):
    @app.job
    async def greet(name: str) -> None:
        raise AssertionError

    # By another program: a client of the application would refuse it.
    other = Client(store=app.client.store)
    enqueued = other.enqueue(NewJob(job_type="greet", payload={"nam": "Ada"}))
    assert (await drain(app)).dead == 1
    error = app.client.jobs.get(enqueued.id).error
    assert error.reason == "invalid_arguments"
    assert 'Did you mean "name"?' in error.message


async def test_an_unknown_job_type_is_given_back_for_a_while_and_then_dead(app):
    # R13, S0-55: during a rolling deploy another worker may know it.
    enqueued = app.client.enqueue(NewJob(job_type="of_tomorrow"))
    assert (await drain(app)).released == 1
    job = app.client.jobs.get(enqueued.id)
    assert (job.state, job.attempt) == (JobState.SCHEDULED, 0)
    assert job.error.error_class == "UnknownJobType"

    longest = timedelta(minutes=10)
    assert unknown_for(
        replace(job, lease=job.lease + 1, started_at=job.created_at + longest)
    ) >= longest - timedelta(seconds=30)
    assert isinstance(unknown(job, longest - timedelta(seconds=1), longest, []), Released)
    buried = unknown(job, longest, longest, [])
    assert isinstance(buried, Failed)
    assert (buried.retryable, buried.error.reason) == (False, "unknown_job_type")


async def test_what_is_paused_waits_and_then_runs(app):  # S1-16
    ran: list[object] = []

    @app.job
    async def work(n: int) -> None:
        ran.append(n)

    client = app.client
    client.queues.pause("q:exports", reason="tests")
    client.orgs.pause("acme", reason="tests")
    client.job_types.pause("other", reason="tests")

    @app.job
    async def other() -> None:
        ran.append("other")

    async with app.worker() as worker:
        await work.using(queue="q:exports").aenqueue(n=1)
        await work.using(org_id="acme").aenqueue(n=2)
        await other.aenqueue()
        await work.aenqueue(n=3)
        await until(lambda: ran == [3])
        client.acting_as("user:ada").gate.close(reason="an incident")
        await until(lambda: worker.parts.exclusions.controls.gate is not None)
        await work.aenqueue(n=4)
        client.queues.resume("q:exports")
        client.orgs.resume("acme")
        client.job_types.resume("other")
        await until(lambda: not worker.parts.exclusions.controls.pauses)
        assert ran == [3]
        client.gate.open()
        await until(lambda: len(ran) == 5)


async def test_a_queue_runs_no_more_at_once_than_it_may(app):
    at_once = []
    running = 0

    @app.job
    async def work() -> None:
        nonlocal running
        running += 1
        at_once.append(running)
        await asyncio.sleep(0.002)
        running -= 1

    await app.aenqueue_many([work.using(queue="q:exports").build() for _ in range(12)])
    await drain(app, queues={"q:exports": 2, "q:default": None}, concurrency=8)
    assert max(at_once) == 2
    assert len(at_once) == 12


async def test_only_the_named_queues_are_served(app):
    @app.job
    async def work() -> None: ...

    here = await work.using(queue="mine").aenqueue()
    there = await work.aenqueue()
    await drain(app, queues={"mine": None})
    assert app.client.jobs.get(here.id).state == JobState.SUCCEEDED
    assert app.client.jobs.get(there.id).state == JobState.QUEUED


async def test_it_ends_by_itself_after_so_many_jobs(app):
    @app.job
    async def work() -> None: ...

    await app.aenqueue_many([work.build() for _ in range(20)])
    async with asyncio.timeout(SOON):
        tally = await app.worker(max_jobs=7).run()
    assert tally.succeeded == 7
    assert app.client.jobs.count().total(JobState.QUEUED) == 13


async def test_what_a_job_sets_in_context_variables_is_its_own(app):
    variable = contextvars.ContextVar("variable", default="unset")
    seen = []

    @app.job
    async def first() -> None:
        variable.set("by the first")
        await asyncio.sleep(0)
        seen.append(variable.get())

    @app.job
    async def second() -> None:
        seen.append(variable.get())

    await first.aenqueue()
    await second.using(priority=9).aenqueue()
    await drain(app, concurrency=1)
    assert seen == ["by the first", "unset"]


async def test_due_jobs_run_without_anyone_asking(app):
    ran = asyncio.Event()

    @app.job
    async def later() -> None:
        ran.set()

    async with app.worker():
        await later.using(delay="200ms").aenqueue()
        await asyncio.wait_for(ran.wait(), SOON)


async def test_an_urgent_job_does_not_wait_behind_those_that_were_claimed_ahead(app):
    order: list[object] = []

    @app.job
    async def slow(n: int) -> None:
        order.append(n)
        await asyncio.sleep(0.02)

    @app.job
    async def urgent() -> None:
        order.append("urgent")

    await app.aenqueue_many(slow.build(n=n) for n in range(60))
    async with app.worker(concurrency=2) as worker:
        await until(lambda: len(order) >= 10)
        await urgent.using(priority=1).aenqueue()
        begun = len(order)
        await until(lambda: worker.tally.processed == 61)
    assert order.index("urgent") - begun < 15


async def test_an_urgent_job_does_not_wait_until_a_large_backlog_is_worked_off(app):
    # Claims of very many go on where the last one ended, but not for long.
    order: list[object] = []

    @app.job
    async def urgent() -> None:
        order.append("urgent")

    @app.job
    async def plain(n: int) -> None:
        order.append(n)
        if n == 1000:
            await urgent.using(priority=1).aenqueue()

    await app.aenqueue_many(plain.build(n=n) for n in range(20_000))
    await app.worker(drain=True).run()
    assert len(set(order)) == len(order) == 20_001
    assert order.index("urgent") < 15_000


async def test_a_job_of_another_queue_does_not_wait_until_the_backlog_of_one_is_worked_off(app):
    begun = 0
    came = asyncio.Event()

    @app.job
    async def slow() -> None:
        nonlocal begun
        begun += 1
        await asyncio.sleep(0.02)

    @app.job(category="critical")
    async def urgent() -> None:
        came.set()

    await app.aenqueue_many(slow.build() for _ in range(400))
    async with app.worker(concurrency=2):
        await until(lambda: begun >= 10)
        await urgent.aenqueue()
        await asyncio.wait_for(came.wait(), SOON)
    assert begun < 300
