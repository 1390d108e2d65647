"""A provider that answers 429 for a minute: how many calls reach it, and what that costs its jobs.

The minute is not waited for. Workers run until nothing is left to do for now; then every time in the
database is moved into the past, as far as to the next one of them, and workers run again.
"""

from __future__ import annotations

import asyncio
import time
from datetime import timedelta

import pytest

from onward import Client, JobState, Onward
from onward.core.jobs.job import ENDED
from tests.extent import FULL
from tests.failures.breakers.breaker_provider import Provider, fetch
from tests.failures.breakers.database import execute
from tests.worker.waiting import SOON, drain

pytestmark = pytest.mark.anyio

MINUTE = timedelta(minutes=1)
SPREAD = timedelta(seconds=7)
"""So much later all jobs are due that were held together."""

TIMES = {"live": ("run_at",), "breakers": ("counted_from", "opened_at", "until", "probe_until")}


def move_back(client: Client, by: timedelta) -> None:
    """Move the database into the past."""
    store = client.store
    micros = by // timedelta(microseconds=1)
    span = str(micros) if store.database == "sqlite" else f"interval '{micros} microseconds'"
    for table, columns in TIMES.items():
        moved = ", ".join(f"{column} = {column} - {span}" for column in columns)
        where = "WHERE state = 'scheduled'" if table == "live" else ""
        execute(client, f"UPDATE {store.prefix}{table} SET {moved} {where}")


def next_time(client: Client) -> timedelta:
    """Tell how long nothing happens."""
    look = client.worker.ready_queues()
    times = [] if look.next_due is None else [look.next_due]
    times += [held.until for held in client.breakers.list() if held.state == "open" and held.until]
    return max(timedelta(), min(times, default=look.now + MINUTE) - look.now) + SPREAD


async def live_through(app: Onward, length: timedelta, workers: int = 1) -> None:
    """Let workers live through a length of time."""
    left, started = length, time.monotonic()
    while True:
        async with asyncio.timeout(SOON):
            await asyncio.gather(*(drain(app) for _ in range(workers)))
        left -= timedelta(seconds=time.monotonic() - started)
        step = next_time(app.client)
        if step > left:
            break
        move_back(app.client, step)
        left, started = left - step, time.monotonic()
    # The rest of it, in which nothing happens.
    move_back(app.client, left)


@pytest.mark.parametrize(
    ("workers", "retry_after"),
    [(2, None), (2, "5"), (2, "10"), (2, "60"), (4, None)] if FULL else [(2, "10"), (4, None)],
)
async def test_at_most_five_calls_reach_a_provider_that_answers_429_for_a_minute_and_those_it_asks_for(
    app: Onward, provider: Provider, workers: int, retry_after: str | None
):  # S4-41
    provider.retry_after = retry_after

    @app.job(provider="crm")
    async def call() -> None:
        await asyncio.to_thread(fetch, provider.url)

    jobs = await app.aenqueue_many(call.build() for _ in range(50))
    await live_through(app, MINUTE, workers)
    # Each worker may have one call under way when the third answer opens the breaker; one more tries, or one
    # each time a Retry-After has passed.
    probes = 1 if retry_after is None else 60 // int(retry_after)
    assert 3 <= len(provider.calls) <= 2 + workers + probes
    found = app.client.jobs.get_many([job.id for job in jobs]).values()
    assert {(job.state in ENDED, job.attempt) for job in found} == {(False, 0)}, "no attempt is lost"
    assert sum(job.waits for job in found) == len(provider.calls)
    # The minute is over: all of them get through, each in its first attempt.
    provider.status = 200
    move_back(app.client, 3 * SPREAD)
    while app.client.jobs.count().total(JobState.SUCCEEDED) < 50:
        await live_through(app, MINUTE, workers)
    assert {job.attempt for job in app.client.jobs.get_many([job.id for job in jobs]).values()} == {1}
    assert app.client.breakers.get("crm").clean
