"""Each failed attempt is one log record with its exception, wherever the worker runs."""

from __future__ import annotations

import asyncio
import logging
import traceback
from collections.abc import AsyncGenerator, Generator, Iterator
from datetime import timedelta

import pytest

from onward import Context, JobState, Outcome, RateLimited, RetryPolicy, Skip, Unrecoverable
from onward.results import Job
from onward.worker.worker import Worker
from tests.worker.attempts import logged_jobs
from tests.worker.waiting import SOON, drain, until

pytestmark = pytest.mark.anyio


class Heard(logging.Handler):
    """A handler on the root logger, as error reporters install one."""

    def __init__(self) -> None:
        super().__init__()
        self.all: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.all.append(record)

    def about(self, job_id: str) -> list[logging.LogRecord]:
        return [record for record in self.all if getattr(record, "job_id", None) == job_id]


@pytest.fixture
def heard() -> Iterator[Heard]:
    handler = Heard()
    logging.getLogger().addHandler(handler)
    yield handler
    logging.getLogger().removeHandler(handler)


def functions_of(record: logging.LogRecord) -> list[str]:
    return [frame.name for frame in traceback.extract_tb(record.exc_info[1].__traceback__)]


@pytest.mark.parametrize("executor", ["async", "thread"])
async def test_an_attempt_that_fails_is_a_warning_and_the_last_one_an_error(app, heard, executor):
    def fail(order: int) -> None:
        raise KeyError(f"order {order}")

    @app.job(max_attempts=2, retry=RetryPolicy(kind="fixed", base=timedelta()))
    async def on_the_loop(order: int) -> None:
        fail(order)

    @app.job(max_attempts=2, retry=RetryPolicy(kind="fixed", base=timedelta()))
    def in_a_thread(order: int) -> None:
        fail(order)

    job_type = on_the_loop if executor == "async" else in_a_thread
    job = await job_type.aenqueue(5)
    await drain(app)
    first, last = heard.about(job.id)
    assert (first.levelname, last.levelname) == ("WARNING", "ERROR")
    assert (first.outcome, last.outcome) == ("failed", "dead")
    for attempt, record in enumerate((first, last), 1):
        assert record.name == "onward.job"
        assert (record.job_type, record.attempt) == (job_type.name, attempt)
        assert record.getMessage().startswith(
            f"{job_type.name} {job.id} attempt {attempt}/2 KeyError: 'order 5' → "
        )
        assert record.exc_info[0] is KeyError
        assert functions_of(record) == [job_type.handler.function.__name__, "fail"]
        assert 'raise KeyError(f"order {order}")' in record.exc_text


async def test_a_failure_in_a_child_process_shows_the_traceback_of_the_child(app, heard):
    job = await app.aclient.enqueue(logged_jobs.fails_in_a_process.build(5))
    async with asyncio.timeout(2 * SOON):
        await Worker(logged_jobs.app.handlers, app.clients, drain=True).run()
    [record] = heard.about(job.id)
    assert record.levelname == "ERROR"
    assert record.exc_info is not None
    assert "logged_jobs.py" in record.exc_text
    assert record.exc_text.endswith("KeyError: 'order 5'\n")
    assert "attempt_runner" not in record.exc_text


@pytest.mark.parametrize("kind", ["async", "thread"])
async def test_so_it_is_within_functions_around_the_attempt(app, heard, kind):
    @app.around
    async def outer(job: Job) -> AsyncGenerator[None, Outcome]:
        yield

    @app.around
    def inner(job: Job) -> Generator[None, Outcome, None]:
        yield
        if job.payload["order"] == 6:
            raise LookupError("inner")
        if job.payload["order"] == 7:
            raise Skip("never mind")

    def fail(order: int) -> None:
        raise KeyError(f"order {order}")

    @app.job(max_attempts=1)
    async def on_the_loop(order: int) -> None:
        fail(order)

    @app.job(max_attempts=1)
    def in_a_thread(order: int) -> None:
        fail(order)

    job_type = on_the_loop if kind == "async" else in_a_thread
    jobs = [await job_type.aenqueue(order) for order in (5, 6, 7)]
    await drain(app)
    [own], [replaced], none = (heard.about(job.id) for job in jobs)
    assert own.exc_info[0] is KeyError
    assert functions_of(own) == [job_type.handler.function.__name__, "fail"]
    assert replaced.exc_info[0] is LookupError
    assert none == []


async def test_a_handler_that_can_not_be_imported_is_seen_with_its_exception(app, heard):
    job = await app.job("lazy_nowhere:work", max_attempts=1).aenqueue()
    await drain(app)
    [record] = heard.about(job.id)
    assert "lazy_nowhere" in str(record.exc_info[1])


@pytest.mark.parametrize("way", ["embedded", "lifespan", "tick", "atick"])
async def test_a_failure_is_seen_wherever_the_worker_runs(app, heard, way):
    @app.job(max_attempts=1)
    async def fails() -> None:
        raise ValueError("nobody home")

    job = await fails.aenqueue()

    async def died() -> None:
        await until(lambda: app.client.jobs.get(job.id).state is JobState.DEAD)

    match way:
        case "embedded":
            async with app.worker():
                await died()
        case "lifespan":
            async with app.lifespan(worker=True)(None):
                await died()
        case "tick":
            await asyncio.to_thread(app.tick)
        case "atick":
            await app.atick()
    [record] = heard.about(job.id)
    assert record.levelname == "ERROR"
    assert record.exc_info[0] is ValueError


async def test_a_secret_of_the_payload_is_in_no_part_of_the_record(app, heard):
    @app.job(max_attempts=1, secrets="allow", secrets_reason="to see what is logged")
    async def fails(password: str) -> None:
        raise ValueError(f"can't log in with {password}")

    job = await fails.aenqueue("correct-horse-battery")
    await drain(app)
    [record] = heard.about(job.id)
    assert record.exc_info is None
    assert "can't log in with [redacted]" in record.exc_text
    assert "correct-horse-battery" not in repr(vars(record)) + record.getMessage()


async def test_an_attempt_that_runs_too_long_shows_where_it_waited(app, heard):
    @app.job(max_attempts=1, timeout=0.05)
    async def waits() -> None:
        await asyncio.Event().wait()

    job = await waits.aenqueue()
    await drain(app)
    [record] = heard.about(job.id)
    assert record.exc_info[0] is TimeoutError
    assert "waits" in functions_of(record)


async def test_a_busy_provider_is_no_failure_and_only_a_note(app, heard, caplog):
    caplog.set_level(logging.INFO)

    @app.job
    async def asks() -> None:
        raise RateLimited(after="1h")

    job = await asks.aenqueue()
    await drain(app)
    [record] = heard.about(job.id)
    assert (record.levelname, record.outcome) == ("INFO", "rate_limited")


async def test_arguments_that_do_not_fit_are_an_error_with_their_exception(app, heard):
    @app.job
    async def takes(order: int) -> None: ...

    job = await app.aclient.enqueue(takes.build(5))
    app.handlers["takes"] = logged_jobs.takes.handler
    await drain(app)
    [record] = heard.about(job.id)
    assert record.levelname == "ERROR"
    assert record.exc_info is not None


async def test_nothing_is_logged_of_what_did_not_fail(app, heard):
    @app.job
    async def ends(ctx: Context, way: str) -> str:
        return way

    job = await ends.aenqueue("well")
    await drain(app)
    assert heard.about(job.id) == []


async def test_an_exception_that_can_not_be_read_keeps_no_record_from_its_handlers(app, heard):
    class Hostile(Exception):
        @property
        def __notes__(self) -> list[str]:  # type: ignore[override]
            raise SystemExit

        def __str__(self) -> str:
            raise SystemExit

    @app.job(max_attempts=1)
    async def fails() -> None:
        raise Hostile

    job = await fails.aenqueue()
    await drain(app)
    [record] = heard.about(job.id)
    assert "Hostile" in record.getMessage()
    assert logging.Formatter().format(record)


async def test_an_error_after_the_handlers_own_commit_is_logged_with_its_exception(app, heard):
    @app.job
    async def commits(ctx: Context) -> None:
        async with ctx.transaction():
            pass
        raise Unrecoverable("too late")

    await commits.aenqueue()
    await drain(app)
    [record] = [one for one in heard.all if "after that its handler failed" in one.getMessage()]
    assert record.exc_info[0] is Unrecoverable


async def test_lines_of_a_handler_and_of_its_effects_carry_the_job(app, heard, caplog):
    caplog.set_level(logging.INFO)

    @app.job
    async def sends(ctx: Context) -> None:
        ctx.log.info("sending")
        await ctx.aonce("mail", lambda: None)

    job = await sends.aenqueue()
    await drain(app)
    lines = {record.getMessage(): record.job_type for record in heard.about(job.id)}
    assert lines == {"sending": "sends", "effect 'mail' done": "sends"}


async def test_an_error_is_one_line_and_one_without_a_message_is_its_class(app, heard):
    @app.job(max_attempts=1)
    async def fails(message: str) -> None:
        raise AssertionError(*([message] if message else []))

    bare, long = fails.enqueue(message=""), fails.enqueue(message="a\nb")
    await drain(app)
    [record] = heard.about(bare.id)
    assert "AssertionError → attempts exhausted" in record.getMessage()
    [record] = heard.about(long.id)
    assert "AssertionError: a b → " in record.getMessage()
