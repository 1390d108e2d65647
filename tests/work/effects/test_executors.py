"""Effects of handlers on the loop, in threads and in processes of their own, and of workers that die."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from onward import Client, Context, InvalidSetting, JobState, NewJob, Onward, Retry
from onward.stores.sqlite.sqlite_store import SqliteStore
from onward.worker.attempts.attempt import Running
from onward.worker.children.process_pool import ProcessPool
from tests.work.effects.effect_jobs import pay, pay_in_a_process
from tests.work.effects.effect_provider import Provider, charge
from tests.work.effects.effect_runs import Runs

ROOT = Path(__file__).resolve().parents[3]


def place_of(client: Client) -> tuple[str, str]:
    """Give the URL and the schema of a client's store."""
    store: Any = client.store
    if isinstance(store, SqliteStore):
        return f"sqlite:///{store.file.path}", "onward"
    return store.url, store.prefix.rstrip(".")


def run_twice(app: Onward) -> None:
    assert app.tick().retried == 1


def test_an_async_handler_awaits_what_is_async_and_calls_what_is_plain(app, provider):
    @app.job
    async def order(ctx: Context) -> list[object]:
        async def pay(key: str) -> int:
            return await asyncio.to_thread(charge, provider.url, key)

        paid = [
            await ctx.astep("total", lambda: 100),
            await ctx.astep("tax", lambda: asyncio.sleep(0, 19)),
            await ctx.aonce("charge", pay),
            await ctx.aonce("again", lambda key: charge(provider.url, key)),
        ]
        if ctx.job.attempt == 1:
            raise Retry("later", after=0)
        return paid

    handle = order.enqueue()
    run_twice(app)
    assert handle.result() == [100, 19, 1, 2]
    assert len(provider.calls) == 2


def test_a_handler_in_a_thread_does_its_effects_once(app, provider):
    @app.job
    def order(ctx: Context) -> int:
        paid: int = ctx.once("charge", lambda key: charge(provider.url, key))
        if ctx.job.attempt == 1:
            raise Retry("later", after=0)
        return paid

    handle = order.enqueue()
    run_twice(app)
    assert handle.result() == 1
    assert len(provider.calls) == 1


@pytest.mark.anyio
async def test_a_handler_in_a_process_of_its_own_does_its_effects_once(client, provider):
    client.worker.register("w", lease=timedelta(days=1))
    client.enqueue(NewJob(job_type=pay_in_a_process.name, payload={"url": provider.url}))
    [job] = client.worker.claim("q:default", worker_id="w")
    url, schema = place_of(client)
    pool = ProcessPool(1, url=url, schema=schema)
    try:
        for _ in range(2):
            assert await pool.run(
                pay_in_a_process.handler, Running(job, pay_in_a_process.handler), timeout=60
            ) == [100, 1]
    finally:
        await pool.close()
    assert len(provider.calls) == 1
    assert [effect.name for effect in client.effects.list(job.id)] == ["charge", "total"]


def worker_process(client: Client, **environment: str) -> int:
    """Run what is due in a worker of its own; gives its exit code."""
    url, schema = place_of(client)
    ran = subprocess.run(
        [sys.executable, "-m", "tests.work.effects.effect_jobs"],
        cwd=ROOT,
        env={**os.environ, "EFFECTS_URL": url, "EFFECTS_SCHEMA": schema, **environment},
        timeout=60,
        check=False,
    )
    return ran.returncode


def test_a_worker_that_dies_between_doing_and_recording_has_the_provider_count_one(
    client, provider: Provider
):
    # S0-66
    client.migrate()
    job_id = client.enqueue(NewJob(job_type=pay.name, payload={"url": provider.url})).id
    assert worker_process(client, EFFECTS_DIE="1") == 9
    [begun, _] = client.effects.list(job_id)
    assert (begun.state, provider.calls) == ("begun", [begun.key])
    # No lease is waited for: the clock is moved.
    later = client.jobs.get(job_id).created_at + timedelta(hours=1)
    assert client.at(later).worker.rescue().held == {job_id}
    client.at(later + timedelta(hours=1)).worker.promote()
    assert worker_process(client) == 0
    job = client.jobs.get(job_id)
    assert (job.state, job.attempt, job.result) == (JobState.SUCCEEDED, 2, [100, 1])
    assert provider.calls == [begun.key] * 2
    assert len(provider.effects) == 1


@pytest.mark.anyio
async def test_a_cancellation_does_not_cut_off_the_record_of_what_has_happened(app):
    ctx = await asyncio.to_thread(Runs(app).start)
    tasks: list[asyncio.Task[object]] = []

    async def send() -> str:
        # It comes as soon as something is awaited: that is the write of the record.
        tasks[0].cancel()
        return "sent"

    tasks.append(asyncio.create_task(ctx.aonce("send", send)))
    with pytest.raises(asyncio.CancelledError):
        await tasks[0]
    [effect] = await app.aclient.effects.list(ctx.job.id)
    assert (effect.state, effect.result) == ("done", "sent")
    await app.aclose()


@pytest.mark.anyio
async def test_one_that_is_cancelled_while_it_is_done_is_not_recorded_as_done(app):
    ctx = await asyncio.to_thread(Runs(app).start)
    doing = asyncio.Event()

    async def send() -> None:
        doing.set()
        await asyncio.Event().wait()

    task = asyncio.create_task(ctx.aonce("send", send))
    await doing.wait()
    with pytest.raises(InvalidSetting, match="in progress already"):
        await ctx.aonce("send", send)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (await app.aclient.worker.effects.read(ctx.job.id, "send")).state == "begun"
    assert await ctx.aonce("send", lambda: "sent") == "sent"
    await app.aclose()
