"""An application defines job types, enqueues their jobs and runs them."""

import asyncio
import functools
import inspect
import sqlite3
import subprocess
import sys
from datetime import timedelta

import psycopg
import pytest

from onward import Context, InvalidJob, InvalidSetting, JobState, NewJob, Onward
from onward.errors import StoreClosed
from onward.worker.options import WorkerOptions, WorkerSettings
from tests.stores.postgres.postgres_schema import clean_schema


def at_the_top(n: int) -> int:
    return n


@pytest.fixture
def unopened() -> Onward:
    return Onward("sqlite:///never-opened.db")


def test_a_job_type_is_known_by_its_name(unopened):  # S0-19
    @unopened.job
    def plain(n: int) -> None:
        raise NotImplementedError

    @unopened.job(name="mail.send", category="notification", priority=2)
    async def send(to: str, ctx: Context) -> None:
        raise NotImplementedError

    assert list(unopened.handlers) == ["plain", "mail.send"]
    assert (plain.name, send.name) == ("plain", "mail.send")
    handler = unopened.handlers["mail.send"]
    assert handler is send.handler
    assert (handler.executor, handler.context, handler.template.priority) == ("async", "ctx", 2)
    assert unopened.handlers["plain"].executor == "thread"
    assert handler.reference.startswith("tests.test_app:")
    assert handler.arguments({"to": "a"}) == {"to": "a"}


def test_two_job_types_of_one_name_are_refused(unopened):  # S0-19
    unopened.job(at_the_top)
    with pytest.raises(
        InvalidSetting, match=r"'at_the_top' is defined already, by tests.test_app:at_the_top"
    ):
        unopened.job(at_the_top)
    assert unopened.job(name="other")(at_the_top).name == "other"


def test_a_decorator_with_options_serves_many_job_types(unopened):
    mail = unopened.job(category="notification", max_attempts=2)

    @mail
    def one() -> None:
        raise NotImplementedError

    @mail(max_attempts=3)
    def two() -> None:
        raise NotImplementedError

    assert [handler.template.category for handler in unopened.handlers.values()] == ["notification"] * 2
    assert [handler.template.max_attempts for handler in unopened.handlers.values()] == [2, 3]


def test_a_process_may_run_what_it_can_import(unopened):
    handler = unopened.job(executor="process", memory=2**28)(at_the_top).handler
    assert (handler.executor, handler.memory) == ("process", 2**28)


def nested():
    def inner() -> None:
        raise NotImplementedError

    return inner


async def coroutine() -> None:
    raise NotImplementedError


def yielding():
    yield 1


async def yielding_async():
    yield 1


@pytest.mark.parametrize(
    ("function", "options", "message"),
    [
        (coroutine, {"executor": "process"}, "an async def can't run by executor='process'"),
        (coroutine, {"executor": "thread"}, "an async def can't run by executor='thread'"),
        (at_the_top, {"executor": "async"}, "executor='async' needs an async def"),
        (at_the_top, {"executor": "gpu"}, "executor is 'gpu'; give one of async, thread, process"),
        (nested(), {"executor": "process"}, r"can't import nested.<locals>.inner"),
        (lambda: 1, {"executor": "process", "name": "one"}, r"can't import <lambda>"),
        (at_the_top, {"memory": 1024}, "give executor='process'"),
        (at_the_top, {"memory": -1}, "memory is -1"),
        (at_the_top, {"priority": 1001}, "priority is 1001"),
        (at_the_top, {"category": "notifications"}, "did you mean 'notification'"),
        (at_the_top, {"timeout": "soon"}, "timeout is 'soon'"),
        (at_the_top, {"tiemout": 1}, r'job\(\) has no option "tiemout". Did you mean "timeout"\?'),
        (at_the_top, {"name": ""}, "job_type is empty"),
        (yielding, {}, "its function yields"),
        (yielding_async, {}, "its function yields"),
        (functools.partial(at_the_top, 1), {}, "is no function; put @app.job above"),
        (Onward, {}, "is no function"),
    ],
)
def test_what_could_never_run_is_refused_at_definition(unopened, function, options, message):
    with pytest.raises((InvalidSetting, InvalidJob), match=message):
        unopened.job(**options)(function)
    assert unopened.handlers == {}


def test_every_option_of_a_worker_has_its_type():
    parameters = inspect.signature(WorkerSettings).parameters.values()
    taken = {parameter.name for parameter in parameters if parameter.kind is parameter.KEYWORD_ONLY}
    assert taken == WorkerOptions.__annotations__.keys()


@pytest.mark.parametrize("name", ["lease", "grace", "max_time"])
def test_a_span_of_a_worker_is_a_length_of_time_or_refused(unopened, name):
    unopened.worker(**{name: "90s"})
    with pytest.raises(InvalidSetting, match=f"{name} is 'soon'; give a timedelta, seconds, or a text"):
        unopened.worker(**{name: "soon"})


def test_the_import_brings_no_worker_command_line_or_driver():
    program = "import onward, sys; print(*sys.modules)"
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    modules = {name.partition(".")[0] for name in ran.stdout.split()}
    assert modules.isdisjoint({"asyncpg", "click", "django", "psycopg", "sqlalchemy"})
    assert not [name for name in ran.stdout.split() if name.startswith(("onward.worker", "onward.cli"))]


def test_many_jobs_are_stored_at_once(app):
    work = app.job(at_the_top)
    handles = app.enqueue_many(work.using(key=f"k{n // 2}").build(n) for n in range(4))
    assert [handle.created for handle in handles] == [True, False, True, False]
    assert app.client.jobs.count().total(JobState.QUEUED) == 2
    assert handles[0].refresh().payload == {"n": 0}


@pytest.mark.anyio
async def test_many_jobs_can_be_awaited(app):
    work = app.job(at_the_top)
    handles = await app.aenqueue_many([work.build(1), work.build(2)])
    assert [(await handle.arefresh()).payload["n"] for handle in handles] == [1, 2]
    await app.aclose()


def test_the_client_can_be_bound_to_a_transaction(tmp_path):
    app = Onward(f"sqlite:///{tmp_path}/app.db")
    app.client.migrate()
    with sqlite3.connect(tmp_path / "app.db") as connection:
        connection.execute("BEGIN")
        app.within(connection).enqueue(NewJob(job_type="work"))
        connection.rollback()
    connection.close()
    assert app.client.jobs.list().items == []
    app.close()


@pytest.mark.anyio
async def test_the_async_client_can_be_bound_to_a_transaction(postgres_url):
    with clean_schema(postgres_url) as store:
        app = Onward(store.url, schema=store.prefix.rstrip("."))
        async with await psycopg.AsyncConnection.connect(postgres_url) as connection:
            await app.awithin(connection).enqueue(NewJob(job_type="work"))
            await connection.rollback()
            [job] = [await app.awithin(connection).enqueue(NewJob(job_type="work"))]
        assert [one.id for one in await app.aclient.jobs.list()] == [job.id]
        await app.aclose()


@pytest.fixture
def working(app):
    """An application with a job type that succeeds, one that is tried again and one that dies."""

    @app.job
    async def double(n: int) -> int:
        return 2 * n

    @app.job
    def child(ctx: Context, n: int) -> None:
        ctx.enqueue(double.build(n))

    @app.job
    def flaky() -> None:
        raise OSError("away")

    @app.job(max_attempts=1)
    def broken() -> None:
        raise ValueError("always")

    app.double, app.child, app.flaky, app.broken = double, child, flaky, broken
    return app


def test_a_tick_runs_what_is_due_and_says_what_remains(working):  # S0-45, S0-52, S2-31
    handle = working.double.enqueue(4)
    working.flaky.enqueue()
    working.broken.enqueue()
    working.double.using(delay="1h").enqueue(1)
    tick = working.tick()
    assert (tick.processed, tick.succeeded, tick.retried, tick.dead, tick.remaining) == (3, 1, 1, 1, 2)
    assert timedelta() < tick.duration < timedelta(seconds=20)
    assert handle.result() == 8


def test_a_tick_runs_no_more_jobs_than_it_may(working):  # S0-45, R16, S0-47, S3-16
    working.enqueue_many(working.double.build(n) for n in range(5))
    assert (working.tick(max_jobs=2).processed, working.tick(max_jobs=2).remaining) == (2, 1)
    with pytest.raises(InvalidSetting, match="max_jobs is 0"):
        working.tick(max_jobs=0)


@pytest.mark.anyio
async def test_where_a_loop_runs_already_a_tick_is_awaited(working):
    await working.double.aenqueue(2)
    with pytest.raises(
        InvalidSetting, match=r"app\.tick\(\) would block the event loop; use await app\.atick"
    ):
        working.tick()
    assert (await working.atick()).succeeded == 1
    await working.aclose()


def test_a_worker_runs_a_job_and_its_child(working):  # S0-33
    handle = working.child.enqueue(21)

    async def drain():
        try:
            return await working.worker(drain=True).run()
        finally:
            await working.aclose()

    assert asyncio.run(drain()).succeeded == 2
    assert handle.result() is None
    children = [job for job in working.client.jobs.list().items if job.parent_id == handle.id]
    assert [job.result for job in children] == [42]


@pytest.mark.anyio
async def test_a_worker_runs_while_its_context_is_open(working):
    async with working.worker():
        handle = await working.double.aenqueue(3)
        assert await handle.aresult(timeout=30) == 6
    await working.aclose()


@pytest.mark.anyio
async def test_a_lifespan_works_while_the_application_serves(working):
    lifespan = working.lifespan(worker=True, concurrency=2)
    async with lifespan(object()):
        handle = await working.double.aenqueue(3)
        assert await handle.aresult(timeout=30) == 6


@pytest.mark.anyio
async def test_a_lifespan_without_a_worker_closes_the_clients(working):
    async with working.lifespan(worker=False)(object()):
        client, shared = working.aclient, working.client
        handle = await working.double.aenqueue(3)
    with pytest.raises(StoreClosed):
        await client.jobs.get(handle.id)
    with pytest.raises(StoreClosed):
        shared.jobs.get(handle.id)
    assert handle.refresh().state == JobState.QUEUED
