"""Jobs that wait, as workers run them: in coroutines, threads and processes, and through crashes."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from onward import Context, JobState, Onward, Retry
from onward.connections import begin_async
from onward.core.work.lifecycle import Transition
from onward.results import Job
from onward.stores.sqlite.sqlite_store import SqliteStore
from tests.work.waits.waiting_jobs import approve, approve_in_a_process

ROOT = Path(__file__).resolve().parents[3]


def place_of(app: Onward) -> tuple[str, str]:
    """Give the URL and the schema of an application's store."""
    store: Any = app.client.store
    if isinstance(store, SqliteStore):
        return f"sqlite:///{store.file.path}", "onward"
    return store.url, store.prefix.rstrip(".")


def test_an_async_handler_leaves_its_slot_and_goes_on_from_what_it_remembers(app):
    began: list[int] = []

    @app.job
    async def order(ctx: Context) -> list[Any]:
        began.append(await ctx.astep("began", lambda: len(began)))
        try:
            return [began, await ctx.await_for("approved", "order:42"), ctx.job.attempt]
        except Exception:  # noqa: BLE001 - what a handler may do: a wait is no error
            return ["swallowed"]

    handle = order.enqueue()
    assert app.tick().processed == 1
    assert handle.refresh().state == JobState.SCHEDULED
    assert app.signal("approved", key="order:42", payload={"by": "ada"}).woken == 1
    app.tick()
    assert handle.result() == [[0, 0], {"by": "ada"}, 1]


def test_a_sync_handler_waits_by_the_same_names(app):
    @app.job
    def order(ctx: Context) -> Any:
        ctx.sleep_until(ctx.job.created_at)
        ctx.sleep_for("1ms")
        return ctx.wait_for("approved")

    handle = order.enqueue()
    app.signal("approved", payload="yes")
    # It comes back a moment after it has gone to sleep.
    for _ in range(100):
        app.tick()
        if handle.refresh().state == JobState.SUCCEEDED:
            break
    assert handle.result() == "yes"


def test_a_wait_in_a_task_group_parks_the_job(app):
    @app.job
    async def order(ctx: Context) -> list[Any]:
        async with asyncio.TaskGroup() as group:
            both = [group.create_task(ctx.await_for("approved", key)) for key in ("a", "b")]
        return [task.result() for task in both]

    handle = order.enqueue()
    for key in ("a", "b"):
        app.tick()
        assert handle.refresh().state == JobState.SCHEDULED
        app.signal("approved", key=key, payload=key)
    for _ in range(3):
        app.tick()
    assert handle.result() == ["a", "b"]


def test_a_time_out_that_nobody_catches_ends_the_job_at_once(app):
    @app.job
    def order(ctx: Context) -> Any:
        return ctx.wait_for("approved", timeout="1ms")

    handle = order.enqueue()
    for _ in range(100):
        app.tick()
        if handle.refresh().state != JobState.SCHEDULED:
            break
    job = handle.refresh()
    assert (job.state, job.error.reason, job.attempt) == (JobState.DEAD, "wait_timed_out", 1)


def test_a_handler_in_a_process_of_its_own_parks_and_comes_back(app):
    url, schema = place_of(app)
    approve_in_a_process.clients.url, approve_in_a_process.clients.schema = url, schema
    app.handlers["approve_in_a_process"] = approve_in_a_process.handler
    job_id = app.client.enqueue(approve_in_a_process.build("order:42")).id
    for event in ("approved", "shipped"):
        app.tick()
        assert app.client.jobs.get(job_id).state == JobState.SCHEDULED
        [waits] = app.client.signals.awaited()
        assert (waits.event, waits.until is None) == (event, event == "approved")
        app.signal(event, key="order:42", payload=event)
    app.tick()
    assert app.client.jobs.get(job_id).result == ["approved", "shipped"]
    approve_in_a_process.clients.close()


class Seen:
    """What a worker has written of the one job that waits."""

    def __init__(self) -> None:
        self.parked = asyncio.Event()
        self.ended = asyncio.Event()

    def __call__(self, _job: Job, to: Transition) -> None:
        (self.parked if to.outcome == "parked" else self.ended).set()


@pytest.mark.anyio
async def test_a_running_worker_takes_up_a_job_that_is_signalled(app):
    app.job(wait_for_approval)
    seen = Seen()
    async with asyncio.timeout(20), app.worker(on_end=seen):
        await app.jobs["wait_for_approval"].aenqueue()
        await seen.parked.wait()
        await app.asignal("approved", key="order:42")
        await seen.ended.wait()
    await app.aclose()


@pytest.mark.anyio
async def test_a_worker_calls_back_what_was_signalled_in_a_transaction(app):
    app.job(wait_for_approval)
    seen, store = Seen(), app.aclient.store
    async with asyncio.timeout(20), app.worker(on_end=seen):
        await app.jobs["wait_for_approval"].aenqueue()
        await seen.parked.wait()
        connection = await store.connect()
        async with begin_async(connection, store.database, store.prefix):
            assert (await app.asignal("approved", key="order:42", tx=connection)).woken == 0
        await connection.close()
        await seen.ended.wait()
    await app.aclose()


async def wait_for_approval(ctx: Context) -> None:
    """Wait for one order."""
    await ctx.await_for("approved", "order:42")


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_worker_that_dies_beside_a_wait_loses_neither_the_job_nor_its_signal(app, when):
    url, schema = place_of(app)
    job_id = app.client.enqueue(approve.build("order:42")).id

    def work(die: str = "") -> int:
        environment = {**os.environ, "WAITS_URL": url, "WAITS_SCHEMA": schema, "WAITS_DIE": die}
        command = [sys.executable, "-m", "tests.work.waits.waiting_jobs"]
        return subprocess.run(command, cwd=ROOT, env=environment, check=False, timeout=60).returncode

    if when == "after":
        # It has parked, and is killed after it came back.
        assert work() == 0
        assert app.signal("approved", key="order:42", payload="yes").woken == 1
    assert work(when) == 9
    if when == "before":
        assert app.signal("approved", key="order:42", payload="yes").woken == 0
    worker = str(app.client.jobs.get(job_id).worker_id)
    app.client.worker.rescue_worker(worker).require()
    app.client.at(app.client.jobs.get(job_id).run_at).worker.promote()
    assert work() == 0
    job = app.client.jobs.get(job_id)
    assert (job.state, job.result) == (JobState.SUCCEEDED, "yes")


def test_a_retry_after_a_wait_does_not_wait_again(app):
    @app.job
    async def order(ctx: Context) -> Any:
        said = await ctx.await_for("approved")
        if ctx.job.attempt == 1:
            raise Retry("no luck", after=0)
        return said

    handle = order.enqueue()
    parked = app.tick()
    assert (parked.processed, parked.retried) == (1, 0)
    app.signal("approved", payload="yes", keep="1h")
    assert app.tick().retried == 1
    assert handle.result() == "yes"
