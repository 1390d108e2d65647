"""Handlers that call a provider on loopback: retries within one attempt, which give way when they should."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import timedelta

import pytest

from examples.categories import HUBSPOT
from onward import Context, JobState, RetryPolicy
from onward.core.work.error_record import ErrorRecord
from tests.failures.classification.classification_provider import Provider, fetch, fetch_async, provider
from tests.worker.attempts import failing_jobs
from tests.worker.waiting import drain, until

pytestmark = pytest.mark.anyio

SHORT = RetryPolicy(kind="fixed", base=timedelta(milliseconds=1), jitter=False, max_attempts=6)
LONG = RetryPolicy(kind="fixed", base=timedelta(minutes=10), jitter=False, max_attempts=6)


@pytest.fixture(scope="module")
def server() -> Iterator[Provider]:
    with provider() as server:
        yield server


@pytest.mark.parametrize("kind", ["async", "thread"])
async def test_one_attempt_may_hold_several_calls(app, server, kind):
    # S3-34
    answers = f"{'429|' * 5}200|{kind}|{app.clients.url}"

    if kind == "async":

        @app.job(category=app.category(HUBSPOT).name)
        async def push(ctx: Context, url: str) -> int:
            await ctx.acall_provider(fetch_async, url, retry=SHORT)
            return ctx.job.attempt

    else:

        @app.job(category=app.category(HUBSPOT).name)
        def push(ctx: Context, url: str) -> int:
            ctx.call_provider(fetch, "httpx", url, retry=SHORT)
            return ctx.job.attempt

    job = await push.aenqueue(server.url(answers))
    await drain(app)
    assert await job.aresult() == 1
    assert server.calls[answers] == 6


async def test_calls_that_are_used_up_end_the_attempt_as_a_rate_limit(app, server):
    # S3-32, R12: the preset counts it, and waits for two minutes.
    answers = f"429|{app.clients.url}"

    @app.job(category=app.category(HUBSPOT).name)
    def push(ctx: Context, url: str) -> None:
        ctx.call_provider(fetch, "requests", url, retry=SHORT)

    job = await push.aenqueue(server.url(f"{'429|' * 6}{answers}"))
    await drain(app)
    found = await job.arefresh()
    assert (found.state, found.attempt, found.error.rule) == (JobState.SCHEDULED, 1, "http_429")
    assert server.calls[f"{'429|' * 6}{answers}"] == 6
    [run] = [run for run in await app.aclient.jobs.attempts(job.id) if run.ended_at]
    assert found.run_at - run.ended_at == timedelta(minutes=2)


async def test_an_error_that_is_no_rate_limit_reaches_the_provider_once(app, server):
    # S3-33
    answers = f"500|200|{app.clients.url}"

    @app.job(category=app.category(HUBSPOT).name)
    async def push(ctx: Context, url: str) -> None:
        await ctx.acall_provider(fetch_async, url, retry=SHORT)

    job = await push.aenqueue(server.url(answers))
    await drain(app)
    assert ((await job.arefresh()).error.rule, server.calls[answers]) == ("http_5xx", 1)


@pytest.mark.parametrize("kind", ["async", "thread"])
async def test_a_wait_for_a_provider_gives_way(app, server, kind):
    answers = f"429|429|{kind}|{app.clients.url}"

    if kind == "async":

        @app.job(category=app.category(HUBSPOT).name)
        async def push(ctx: Context, url: str) -> None:
            await ctx.acall_provider(fetch_async, url, retry=LONG)

    else:

        @app.job(category=app.category(HUBSPOT).name)
        def push(ctx: Context, url: str) -> None:
            ctx.call_provider(fetch, "httpx", url, retry=LONG)

    job = await push.aenqueue(server.url(answers))
    async with app.worker() as worker:
        await until(lambda: server.calls[answers] == 1)
        app.client.jobs.cancel(job.id, reason="not needed")
        await until(lambda: worker.tally.cancelled == 1)
    assert (await job.arefresh()).state == JobState.CANCELLED
    assert server.calls[answers] == 1


async def test_what_is_raised_in_a_child_process_is_judged_by_the_same_rules(app, server):
    app.handlers.update(failing_jobs.app.handlers)
    app.policies.registry.categories.update(failing_jobs.app.policies.registry.categories)
    urls = {answer: server.url(answer) for answer in ("401", "429 Retry-After: 120", "503 Retry-After: 30")}
    calls = {answer: failing_jobs.call.build("httpx", url) for answer, url in urls.items()}
    how = {name: failing_jobs.fail.build(name) for name in failing_jobs.ERRORS}
    enqueued = await app.aclient.enqueue_many([*calls.values(), *how.values()])
    await drain(app, concurrency=2, max_jobs=len(enqueued))
    jobs = dict(zip((*calls, *how), [await app.aclient.jobs.get(one.id) for one in enqueued], strict=True))
    shown = {}
    for name, job in jobs.items():
        error = job.error or ErrorRecord()
        shown[name] = (job.state.value, error.rule, error.status, error.hint)
    assert shown == {
        "401": ("dead", "http_401", 401, "the provider refused the key or token; renew it, then replay"),
        "429 Retry-After: 120": ("scheduled", "http_429", 429, None),
        "503 Retry-After: 30": ("scheduled", "http_5xx", 503, None),
        "own rule": ("dead", "card", None, "ask for another card"),
        "own hint": ("dead", "raised_unrecoverable", None, "call them"),
        "rule broken": ("dead", "business_rule", None, "the booking is over"),
        "group": ("dead", "raised_unrecoverable", None, None),
        "limited": ("scheduled", "raised_rate_limited", None, None),
        "plain": ("scheduled", "unclassified", None, None),
        "skip": ("succeeded", None, None, None),
    }
    assert jobs["429 Retry-After: 120"].attempt == 0
    waits = {name: (await app.aclient.jobs.attempts(job.id))[0] for name, job in jobs.items()}
    for name, seconds in (("429 Retry-After: 120", 120), ("503 Retry-After: 30", 30), ("limited", 60)):
        ended = waits[name].ended_at
        assert ended is not None
        assert jobs[name].run_at - ended == timedelta(seconds=seconds)


async def test_a_wait_in_a_loop_that_a_thread_runs_for_itself_gives_way(app, server):
    answers = f"{'429|' * 6}loop|{app.clients.url}"

    @app.job
    def push(ctx: Context, url: str) -> None:
        asyncio.run(ctx.acall_provider(fetch_async, url, retry=LONG))

    job = await push.aenqueue(server.url(answers))
    async with app.worker():
        await until(lambda: server.calls[answers])
        app.client.jobs.cancel(job.id, reason="not any more")
        await until(lambda: app.client.jobs.get(job.id).state is JobState.CANCELLED)
