"""The application's functions around an attempt: their order, what they see, and what their errors do."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import AsyncGenerator, Generator
from contextvars import ContextVar

import pytest

from onward import Context, Failed, InvalidSetting, Onward, Outcome, Skip, Succeeded
from onward.results import Job
from tests.worker.attempts import around_jobs
from tests.worker.waiting import SOON, drain, until

pytestmark = pytest.mark.anyio

request: ContextVar[str] = ContextVar("request", default="none")


async def test_functions_around_an_attempt_run_in_the_order_of_their_registration(app):
    order: list[str] = []

    @app.around
    async def outer(job: Job) -> AsyncGenerator[None, Outcome]:
        order.append(f"outer {job.job_type} {job.payload}")
        outcome = yield
        order.append(f"outer {outcome}")

    @app.around
    def inner(job: Job) -> Generator[None, Outcome, None]:
        order.append(f"inner {job.attempt}")
        outcome = yield
        order.append(f"inner {type(outcome).__name__}")

    @app.job
    async def double(number: int) -> int:
        order.append("handler")
        return 2 * number

    await double.aenqueue(4)
    await drain(app)
    assert order == [
        "outer double {'number': 4}", "inner 1", "handler", "inner Succeeded", "outer Succeeded(result=8)",
    ]  # fmt: skip


@pytest.mark.parametrize("kind", ["async", "thread"])
async def test_they_see_each_outcome(app, kind):
    seen: list[Outcome] = []

    @app.around
    def watch(job: Job) -> Generator[None, Outcome, None]:
        seen.append((yield))

    def answer(what: str) -> str:
        if what == "skip":
            raise Skip("nothing to do")
        if what == "fail":
            raise ValueError("broken")
        return what

    async def answer_later(what: str) -> str:
        return answer(what)

    job_type = app.job(name="answer")(answer_later if kind == "async" else answer)
    for what in ("fine", "skip", "fail"):
        await job_type.aenqueue(what)
    await drain(app, concurrency=1, max_jobs=3)
    fine, skipped, failed = seen
    assert fine == Succeeded("fine")
    assert isinstance(skipped, Skip)
    assert isinstance(failed, Failed)
    assert failed.error.error_class == "ValueError"


async def test_a_plain_one_runs_in_the_thread_of_a_handler_and_shares_its_context_variables(app):
    threads: list[int] = []
    values: list[str] = []

    @app.around
    async def first(job: Job) -> AsyncGenerator[None, Outcome]:
        request.set("from the loop")
        yield

    @app.around
    def with_connection(job: Job) -> Generator[None, Outcome, None]:
        threads.append(threading.get_ident())
        values.append(request.get())
        request.set(job.id)
        yield
        threads.append(threading.get_ident())

    @app.job
    def read() -> None:
        threads.append(threading.get_ident())
        values.append(request.get())

    handle = await read.aenqueue()
    await drain(app)
    assert len(set(threads)) == 1
    assert values == ["from the loop", handle.id]
    assert request.get() == "none"


async def test_a_context_variable_reaches_the_handler_and_no_later_job(app):
    values: list[str] = []

    @app.around
    async def named(job: Job) -> AsyncGenerator[None, Outcome]:
        values.append(request.get())
        request.set(job.id)
        yield

    @app.job
    async def read() -> None:
        values.append(request.get())

    first, second = await read.aenqueue(), await read.aenqueue()
    await drain(app, concurrency=1)
    assert values == ["none", first.id, "none", second.id]


async def test_an_error_before_the_attempt_is_the_outcome_and_the_handler_never_runs(app):
    ran: list[str] = []
    seen: list[Outcome] = []

    @app.around
    def watch(job: Job) -> Generator[None, Outcome, None]:
        seen.append((yield))

    @app.around
    async def refuse(job: Job) -> AsyncGenerator[None, Outcome]:
        if job.payload["name"] == "test":
            raise Skip("a test record")
        yield

    @app.job
    async def send(name: str) -> None:
        ran.append(name)

    skipped, sent = await send.aenqueue("test"), await send.aenqueue("ada")
    await drain(app, concurrency=1)
    assert ran == ["ada"]
    assert [(await one.arefresh()).outcome for one in (skipped, sent)] == ["skipped", "succeeded"]
    assert [type(one) for one in seen] == [Skip, Succeeded]


@pytest.mark.parametrize("kind", ["async", "thread"])
async def test_an_error_after_the_attempt_takes_the_place_of_its_outcome(app, kind):
    @app.around
    def commit(job: Job) -> Generator[None, Outcome, None]:
        yield
        raise RuntimeError("the commit failed")

    def work() -> None: ...

    async def work_later() -> None: ...

    handle = await app.job(name="work", max_attempts=1)(work_later if kind == "async" else work).aenqueue()
    await drain(app)
    job = await handle.arefresh()
    assert (job.state.value, job.error.message) == ("dead", "the commit failed")


@pytest.mark.parametrize("yields", [0, 2])
@pytest.mark.parametrize("is_async", [True, False])
@pytest.mark.parametrize("kind", ["async", "thread"])
async def test_one_that_does_not_yield_once_fails_the_attempt_and_says_so(app, yields, is_async, kind):
    async def wrong_later(job: Job) -> AsyncGenerator[None, Outcome]:
        for _ in range(yields):
            yield

    def wrong(job: Job) -> Generator[None, Outcome, None]:
        for _ in range(yields):
            yield

    app.around(wrong_later if is_async else wrong)

    def work() -> None: ...

    async def work_later() -> None: ...

    handle = await app.job(name="work", max_attempts=1)(work_later if kind == "async" else work).aenqueue()
    await drain(app)
    error = (await handle.arefresh()).error
    assert error.error_class == "HookBroken"
    assert ("before its yield" if yields == 0 else "yielded twice") in error.message


@pytest.mark.parametrize("kind", ["async", "thread"])
async def test_a_time_out_is_an_outcome_that_they_see_and_their_blocks_are_left(app, kind):
    seen: list[object] = []

    @app.around
    async def outer(job: Job) -> AsyncGenerator[None, Outcome]:
        try:
            outcome = yield
            await asyncio.sleep(0)
            seen.append(outcome)
        finally:
            seen.append("left")

    @app.around
    def inner(job: Job) -> Generator[None, Outcome, None]:
        seen.append((yield))

    async def hang_later() -> None:
        await asyncio.Event().wait()

    def hang(ctx: Context) -> None:
        ctx.sleep(SOON)

    made = app.job(name="hang", timeout="100ms", max_attempts=1)
    await made(hang_later if kind == "async" else hang).aenqueue()
    await drain(app)
    inside, outside, left = seen
    assert isinstance(inside, Failed)
    assert isinstance(outside, Failed)
    assert {inside.error.rule, outside.error.rule} == {"job_timeout"}
    assert left == "left"


async def test_a_worker_that_gives_up_a_handler_leaves_the_blocks_around_it(app):
    steps: list[str] = []

    @app.around
    async def outer(job: Job) -> AsyncGenerator[None, Outcome]:
        steps.append("entered")
        try:
            yield
        finally:
            steps.append("left")

    @app.job
    async def hang() -> None:
        await asyncio.Event().wait()

    await hang.aenqueue()
    async with app.worker(grace="1ms"):
        await until(lambda: "entered" in steps)
    assert steps == ["entered", "left"]


async def test_they_run_in_the_worker_around_a_handler_in_a_process(app):
    around_jobs.seen.clear()
    served = Onward(app.clients.url, schema=app.clients.schema)
    served.around(around_jobs.watch)
    served.handlers["double"] = around_jobs.double.handler
    [made] = await served.aenqueue_many([around_jobs.double.build(4)])
    await drain(served)
    result = await made.aresult()
    [(pid, outcome)] = around_jobs.seen
    assert (pid, result["doubled"]) == (os.getpid(), 8)
    assert isinstance(outcome, Succeeded)
    assert result["pid"] != os.getpid()
    await served.aclose()


async def test_they_are_not_called_for_the_jobs_of_onward_itself(app):
    seen: list[str] = []

    @app.around
    def watch(job: Job) -> Generator[None, Outcome, None]:
        seen.append(job.job_type)
        yield

    await drain(app)
    run = app.client.schedules.run_now("onward.prune", reason="test")
    await drain(app)
    assert app.client.jobs.get(run.id).state.value == "succeeded"
    assert seen == []


def test_a_function_that_does_not_yield_is_refused(app):
    with pytest.raises(InvalidSetting, match="does not yield"):
        app.around(lambda job: None)

    def without_parameter() -> Generator[None, Outcome, None]:
        yield

    with pytest.raises(InvalidSetting, match="one parameter"):
        app.around(without_parameter)
