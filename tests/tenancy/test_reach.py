"""While a handler runs, the application's own methods reach no further than its `ctx.client` does."""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from onward import Category, Context, JobNotFound, JobState, NewJob, NotAllowed, Onward
from onward.origin_threads import follow_origins
from onward.results import Job
from tests.tenancy import reach_process_jobs as process_jobs

pytestmark = pytest.mark.anyio

BEYOND: dict[str, Callable[[Onward, str], object]] = {
    "schedule": lambda app, _: app.schedule("s", NewJob(job_type="other", org_id="bolt"), every="1h"),
    "run a schedule": lambda app, _: app.client.schedules.run_now("theirs", reason="r"),
    "signal": lambda app, _: app.signal("paid", org_id="bolt"),
    "for_org": lambda app, _: app.client.for_org("bolt").jobs.list(),
    "context": lambda app, _: in_context(app, org_id="bolt"),
    "enqueue": lambda app, _: app.client.enqueue(NewJob(job_type="other", org_id="bolt")),
    "batch": lambda app, _: app.enqueue_batch([NewJob(job_type="other", org_id="bolt")]),
    "parent": lambda app, theirs: app.client.enqueue(NewJob(job_type="other", parent_id=theirs)),
    "pause an org": lambda app, _: app.client.orgs.pause("bolt", reason="r"),
    "pause a queue": lambda app, _: app.client.queues.pause("q:elsewhere", reason="r"),
    "gate": lambda app, _: app.client.gate.close(reason="r"),
    "worker": lambda app, _: app.client.worker.promote(),
    "migrate": lambda app, _: app.client.migrate(),
}
ABSENT: dict[str, Callable[[Onward, str], object]] = {
    "get": lambda app, theirs: app.client.jobs.get(theirs),
    "cancel": lambda app, theirs: app.client.jobs.cancel(theirs, reason="r"),
}
CHANGES: dict[str, Callable[[Onward, str], object]] = {
    "cancel": lambda app, own: app.client.jobs.cancel(own, reason="r"),
    "pause": lambda app, _: app.client.orgs.pause("acme", reason="r"),
    "gate": lambda app, _: app.client.gate.open(),
    "keys.forget": lambda app, _: app.client.keys.forget("own", reason="r"),
    "signal": lambda app, _: app.signal("paid"),
    "schedule": lambda app, _: app.schedule("s", NewJob(job_type="t"), every="1h"),
    "worker": lambda app, _: app.client.worker.promote(),
}


def in_context(app: Onward, **fields: Any) -> object:
    with app.context(**fields):
        return app.client.jobs.list()


def put_elsewhere(app: Onward, org_id: str, **fields: Any) -> str:
    """Enqueue a job where no worker of these tests looks for it."""
    return app.client.enqueue(NewJob(job_type="idle", queue="q:elsewhere", org_id=org_id, **fields)).id


async def run_all(app: Onward) -> dict[str, Job]:
    """Run what waits in the queue of the tests; gives all jobs by their type."""
    await app.worker(drain=True, concurrency=2, queues={"q:default": 1}).run()
    jobs = (await app.aclient.jobs.list()).items
    await app.aclose()
    return {job.job_type: job for job in jobs}


@pytest.mark.parametrize("what", BEYOND)
async def test_the_methods_of_the_application_reach_no_other_org_from_a_handler(app, what):  # R30 S4-50
    theirs = put_elsewhere(app, "bolt")
    app.schedule("theirs", NewJob(job_type="other", org_id="bolt"), every="1h")

    @app.job
    def tries() -> None:
        with pytest.raises(NotAllowed):
            BEYOND[what](app, theirs)

    tries.using(org_id="acme").enqueue()
    jobs = await run_all(app)
    assert jobs["tries"].state == JobState.SUCCEEDED, jobs["tries"].error
    assert set(jobs) == {"tries", "idle"}


@pytest.mark.parametrize("what", ABSENT)
async def test_a_job_of_another_org_does_not_exist_for_a_handler(app, what):  # R30 S4-50
    theirs = put_elsewhere(app, "bolt")

    @app.job
    async def tries() -> list[str | None]:
        with pytest.raises(JobNotFound):
            await asyncio.to_thread(ABSENT[what], app, theirs)
        with pytest.raises(JobNotFound):
            await app.aclient.jobs.cancel(theirs, reason="r")
        return [job.org_id for job in (await app.aclient.jobs.list()).items]

    tries.using(org_id="acme").enqueue()
    jobs = await run_all(app)
    assert jobs["tries"].result == ["acme"]
    assert jobs["idle"].state == JobState.QUEUED


async def test_a_key_that_a_handler_forgets_is_that_of_its_own_org(app):  # R30
    put_elsewhere(app, "bolt", key="k")
    put_elsewhere(app, "acme", key="k")

    @app.job
    def forgets() -> None:
        app.client.keys.forget("k", reason="r")

    forgets.using(org_id="acme").enqueue()
    await run_all(app)
    assert app.client.for_org("acme").keys.get("k") is None
    assert app.client.for_org("bolt").keys.get("k") is not None


@pytest.mark.parametrize("org_id", [None, "acme"], ids=["no org", "an org"])
@pytest.mark.parametrize("what", CHANGES)
async def test_a_handler_without_the_capability_changes_nothing_by_the_application(app, what, org_id):
    # R30 S4-11 S4-12
    app.category(Category(name="looks", capabilities=frozenset({"audit"})))
    own = put_elsewhere(app, org_id, key="own")

    @app.job(category="looks")
    def tries(ctx: Context) -> None:
        with pytest.raises(NotAllowed, match="may not: domain"):
            CHANGES[what](app, own)
        assert app.client.jobs.get(own).state == JobState.QUEUED
        ctx.step("one", lambda: 1)
        ctx.audit("tried")

    tries.using(org_id=org_id).enqueue()
    jobs = await run_all(app)
    assert jobs["tries"].state == JobState.SUCCEEDED, jobs["tries"].error
    assert jobs["idle"].state == JobState.QUEUED


async def test_a_handler_that_may_only_enqueue_enqueues_batches_and_flows(app):  # R30 S4-12
    app.category(Category(name="plans", capabilities=frozenset({"enqueue"})))
    new = NewJob(job_type="child", queue="q:elsewhere")

    @app.job(category="plans")
    def plans() -> None:
        with app.batch() as batch:
            batch.add(new)
        app.enqueue_flow(new.then(new))
        assert app.client.enqueue(new).created
        with pytest.raises(NotAllowed, match="may not: domain"):
            batch.cancel(reason="r")

    plans.using(org_id="acme").enqueue()
    jobs = await run_all(app)
    assert jobs["plans"].state == JobState.SUCCEEDED, jobs["plans"].error
    assert jobs["child"].org_id == "acme"


async def test_a_client_that_was_made_for_another_org_is_refused_in_a_handler(app):  # R30
    bolt = app.client.for_org("bolt")

    @app.job
    def tries() -> None:
        with pytest.raises(NotAllowed, match="may not act for org 'bolt'"):
            bolt.jobs.list()
        with pytest.raises(NotAllowed, match="may not enqueue for org 'bolt'"):
            bolt.enqueue(NewJob(job_type="other"))

    tries.using(org_id="acme").enqueue()
    assert (await run_all(app))["tries"].state == JobState.SUCCEEDED


def in_a_thread(function: Callable[[], None]) -> None:
    thread = threading.Thread(target=function)
    thread.start()
    thread.join()


def in_a_timer(function: Callable[[], None]) -> None:
    timer = threading.Timer(0, function)
    timer.start()
    timer.join()


def in_a_thread_of_a_thread(function: Callable[[], None]) -> None:
    in_a_thread(lambda: in_a_thread(function))


def in_a_pool(function: Callable[[], None]) -> None:
    with ThreadPoolExecutor(1) as pool:
        pool.submit(function).result()


@pytest.mark.parametrize("by", [in_a_thread, in_a_timer, in_a_thread_of_a_thread, in_a_pool])
async def test_a_thread_that_a_handler_starts_is_confined_as_the_handler_is(app, by):  # R30 S4-50
    theirs = put_elsewhere(app, "bolt")
    refused: list[str] = []

    def tries() -> None:
        for call in (*BEYOND.values(), *ABSENT.values()):
            try:
                call(app, theirs)
            except (NotAllowed, JobNotFound):
                refused.append("refused")
        app.client.enqueue(NewJob(job_type="child", queue="q:elsewhere"))

    @app.job
    def starts() -> None:
        by(tries)

    starts.using(org_id="acme").enqueue()
    jobs = await run_all(app)
    assert len(refused) == len(BEYOND) + len(ABSENT)
    assert (jobs["child"].org_id, jobs["child"].parent_id) == ("acme", jobs["starts"].id)


async def test_a_call_by_run_in_executor_is_confined_as_the_handler_is(app):  # R30
    theirs = put_elsewhere(app, "bolt")

    @app.job
    async def starts() -> None:
        loop = asyncio.get_running_loop()
        with pytest.raises(JobNotFound):
            await loop.run_in_executor(None, app.client.jobs.get, theirs)

    starts.using(org_id="acme").enqueue()
    assert (await run_all(app))["starts"].state == JobState.SUCCEEDED


async def test_a_pool_that_handlers_share_acts_for_the_job_of_each_call(app):  # R30
    seen: list[tuple[str | None, str | None]] = []
    with ThreadPoolExecutor(1) as pool:

        @app.job
        def asks(ctx: Context) -> None:
            seen.append((ctx.job.org_id, pool.submit(lambda: app.client.org_id).result()))

        asks.using(org_id="acme").enqueue()
        asks.using(org_id="bolt").enqueue()
        await run_all(app)
        outside = pool.submit(lambda: app.client.org_id).result()
    assert sorted(seen) == [("acme", "acme"), ("bolt", "bolt")]
    assert outside is None, "the thread of the pool belongs to no job"


async def test_a_thread_that_runs_already_is_confined_by_the_client_of_the_context_alone(app):  # R30
    calls: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
    seen: list[str | None] = []

    def serve() -> None:
        while (call := calls.get()) is not None:
            call()

    server = threading.Thread(target=serve)
    server.start()

    @app.job
    def hands_over(ctx: Context) -> None:
        done = threading.Event()

        def look() -> None:
            seen.extend([app.client.org_id, ctx.client.org_id])
            done.set()

        calls.put(look)
        done.wait()

    hands_over.using(org_id="acme").enqueue()
    await run_all(app)
    calls.put(None)
    server.join()
    assert seen == [None, "acme"]


def test_threads_are_wrapped_once_and_run_as_before_outside_of_a_handler():
    follow_origins()
    start = threading.Thread.start
    follow_origins()
    assert threading.Thread.start is start
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(max, 1, 2).result() == 2


async def test_a_handler_in_a_child_process_is_confined_by_the_application_too(app):  # R30 S4-50
    theirs = put_elsewhere(app, "bolt")
    process_jobs.app.clients.url, process_jobs.app.clients.schema = app.clients.url, app.clients.schema
    await process_jobs.tries.using(org_id="acme").aenqueue(theirs)
    jobs = await run_all(process_jobs.app)
    assert jobs["tries"].result == ["NotAllowed", "JobNotFound", "JobNotFound", "acme"], jobs["tries"].error
    process_jobs.app.close()
