"""Resources: opened once in a worker, injected into handlers, closed when the worker stops."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import AsyncIterator, Iterator

import pytest

from onward import Context, InvalidSetting, Onward
from onward.errors import InvalidArguments
from tests.worker.waiting import drain, until

pytestmark = pytest.mark.anyio


class Pool:
    """Something that is opened and closed."""

    def __init__(self, steps: list[str], name: str = "pool") -> None:
        self.steps, self.name = steps, name
        steps.append(f"open {name}")

    def close(self) -> None:
        self.steps.append(f"close {self.name}")


async def test_a_resource_is_opened_once_for_many_jobs_and_closed_at_the_stop(app):
    steps: list[str] = []

    @app.resource
    async def pool() -> AsyncIterator[Pool]:
        opened = Pool(steps)
        await asyncio.sleep(0)
        yield opened
        await asyncio.sleep(0)
        opened.close()

    @app.job
    async def fetch(ctx: Context, name: str, *, pool: Pool = pool.injected) -> str:
        await asyncio.sleep(0)
        pool.steps.append(name)
        return pool.name

    handles = [await fetch.aenqueue(name) for name in ("a", "b", "c")]
    assert handles[0].refresh().payload == {"name": "a"}
    tally = await drain(app)
    assert tally.succeeded == 3
    assert (steps[0], sorted(steps[1:4]), steps[4:]) == ("open pool", ["a", "b", "c"], ["close pool"])
    assert await handles[0].aresult() == "pool"


async def test_the_last_opened_resource_is_closed_first_and_an_unused_one_is_never_opened(app):
    steps: list[str] = []

    @app.resource
    def first() -> Iterator[Pool]:
        pool = Pool(steps, "first")
        yield pool
        pool.close()

    @app.resource
    async def second() -> AsyncIterator[Pool]:
        pool = Pool(steps, "second")
        yield pool
        pool.close()

    @app.resource
    def unused() -> Iterator[Pool]:
        yield Pool(steps, "unused")

    @app.job
    async def fetch(one: Pool = first.injected, other: Pool = second.injected) -> None: ...

    @app.job
    async def rare(pool: Pool = unused.injected) -> None: ...

    for _ in range(2):
        await fetch.aenqueue()
        await drain(app)
    assert steps == ["open first", "open second", "close second", "close first"] * 2


async def test_a_thread_handler_gets_a_plain_resource_which_may_be_a_value_or_a_coroutines_result(app):
    threads: list[int] = []

    @app.resource
    def settings() -> dict[str, int]:
        threads.append(threading.get_ident())
        return {"answer": 42}

    @app.resource
    async def doubled() -> int:
        return 84

    @app.job
    def read(settings: dict[str, int] = settings.injected) -> int:
        return settings["answer"]

    @app.job
    async def read_both(settings: dict[str, int] = settings.injected, more: int = doubled.injected) -> int:
        return settings["answer"] + more

    one, both = await read.aenqueue(), await read_both.aenqueue()
    await drain(app)
    assert (await one.aresult(), await both.aresult()) == (42, 126)
    assert len(threads) == 1
    assert threads[0] != threading.get_ident()


async def test_a_resource_that_fails_to_open_fails_the_attempt_and_the_next_opens_it_anew(app):
    steps: list[str] = []

    @app.resource
    async def pool() -> AsyncIterator[Pool]:
        if not steps:
            steps.append("refused")
            raise ConnectionError("refused")
        yield Pool(steps)

    @app.job
    async def fetch(pool: Pool = pool.injected) -> None: ...

    first = await fetch.aenqueue()
    await drain(app)
    job = await first.arefresh()
    assert (job.state.value, job.error.message) == ("scheduled", "refused")
    second = await fetch.aenqueue()
    await drain(app)
    assert (await second.arefresh()).state.value == "succeeded"
    assert steps == ["refused", "open pool"]


@pytest.mark.parametrize("yields", [0, 2])
@pytest.mark.parametrize("is_async", [True, False])
async def test_a_resource_that_does_not_yield_once_says_so(app, caplog, yields, is_async):
    async def wrong_later() -> AsyncIterator[int]:
        for number in range(yields):
            yield number

    def wrong() -> Iterator[int]:
        yield from range(yields)

    broken = app.resource(wrong_later if is_async else wrong)

    @app.job(max_attempts=1)
    async def fetch(number: int = broken.injected) -> None: ...

    handle = await fetch.aenqueue()
    with caplog.at_level(logging.ERROR, logger="onward.worker"):
        await drain(app)
    job = await handle.arefresh()
    if yields == 0:
        assert "ended before its yield" in job.error.message
    else:
        assert job.state.value == "succeeded"
        [told] = caplog.records
        assert "yielded twice" in str(told.exc_info[1])


async def test_a_job_that_times_out_while_a_resource_opens_leaves_it_to_the_others(app):
    steps: list[str] = []
    let_open = asyncio.Event()

    @app.resource
    async def pool() -> AsyncIterator[Pool]:
        steps.append("opening")
        await let_open.wait()
        yield Pool(steps)

    @app.job(timeout="50ms", max_attempts=1)
    async def impatient(pool: Pool = pool.injected) -> None: ...

    @app.job
    async def patient(pool: Pool = pool.injected) -> None: ...

    late, fine = await impatient.aenqueue(), await patient.aenqueue()
    async with app.worker():
        assert (await late.ajoin("20s")).error.rule == "job_timeout"
        let_open.set()
        assert (await fine.ajoin("20s")).state.value == "succeeded"
    assert steps == ["opening", "open pool"]


async def test_what_a_resource_enqueues_is_no_child_of_the_job_that_needed_it(app):
    @app.job
    async def note() -> None: ...

    @app.resource
    async def notes() -> AsyncIterator[str]:
        yield (await note.aenqueue()).id

    @app.job
    async def fetch(note_id: str = notes.injected) -> str:
        return note_id

    handle = await fetch.aenqueue()
    await drain(app)
    assert app.client.jobs.get(await handle.aresult()).parent_id is None


async def test_a_resource_is_no_argument(app):
    @app.resource
    def pool() -> list[str]:
        return ["opened"]

    @app.job
    async def fetch(name: str, *, pool: list[str] = pool.injected) -> str:
        return name + pool[0]

    with pytest.raises(InvalidArguments, match=r'no argument "pool"[\s\S]*signature: fetch\(name: str\)$'):
        fetch.enqueue("a", pool=[])
    assert await fetch("a", pool=["passed"]) == "apassed"
    with pytest.raises(TypeError):
        await fetch("a")


def test_a_resource_that_a_handler_can_not_use_is_refused():
    app = Onward("sqlite:///never-opened.db")

    @app.resource
    async def pool() -> AsyncIterator[Pool]:
        yield Pool([])

    @app.resource
    def settings() -> int:
        return 1

    def plain(pool: Pool = pool.injected) -> None: ...

    def in_process(settings: int = settings.injected) -> None: ...

    with pytest.raises(InvalidSetting, match="event loop"):
        app.job(plain)
    in_process.__qualname__ = "in_process"
    with pytest.raises(InvalidSetting, match="not in its process"):
        app.job(executor="process")(in_process)
    with pytest.raises(InvalidSetting, match="has parameters"):
        app.resource(lambda one: one)  # type: ignore[arg-type, misc]
    with pytest.raises(InvalidSetting, match="above a def"):
        app.resource(3)  # type: ignore[call-overload]
    with pytest.raises(AttributeError, match="opened by a worker only"):
        pool.injected.close()


async def test_stop_hooks_run_last_first_after_the_jobs_and_before_resources_close(app, caplog):
    steps: list[str] = []

    @app.resource
    async def pool() -> AsyncIterator[Pool]:
        opened = Pool(steps)
        yield opened
        opened.close()

    @app.on_stop
    async def first() -> None:
        steps.append("first")

    @app.on_stop
    def second() -> None:
        steps.append("second")
        raise RuntimeError("no such property")

    @app.job
    async def work(pool: Pool = pool.injected) -> None:
        steps.append("began")
        await asyncio.sleep(0.05)
        steps.append("ended")

    await work.aenqueue()
    with caplog.at_level(logging.ERROR, logger="onward.worker"):
        async with app.worker():
            await until(lambda: "began" in steps)
    assert steps == ["open pool", "began", "ended", "second", "first", "close pool"]
    [told] = caplog.records
    assert "on_stop hook" in told.getMessage()


async def test_a_worker_that_drains_runs_no_stop_hooks(app):
    called: list[str] = []
    app.on_stop(lambda: called.append("hook"))
    await drain(app)
    assert called == []
    with pytest.raises(InvalidSetting, match=r"on_stop\(\)"):
        app.on_stop(lambda one: None)
