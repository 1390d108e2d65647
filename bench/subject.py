"""Onward as it is measured: an application with no-op jobs, called like the peers, and a worker that drains.

`python -m bench.subject drain` works off what is ready and prints JSON with jobs, seconds and cpu.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Callable
from importlib import import_module
from typing import cast

from bench.speaking import Spread, Tally, Timer, clock, cpu, say, serve
from onward import Limit, Onward
from onward.cli.process import tune
from onward.core.policy.settings import AuditLevel

URL = os.environ["ONWARD_URL"]
app = Onward(
    URL,
    schema=os.environ.get("ONWARD_BENCH_SCHEMA", "onward"),
    audit=cast("AuditLevel", os.environ.get("ONWARD_BENCH_AUDIT", "full")),
)
if os.environ.get("ONWARD_BENCH_FAIR"):
    app.queue("q:default", fair=True)
if os.environ.get("ONWARD_BENCH_LIMITED"):
    app.policies.registry.limits["ample"] = Limit(100_000, name="ample")
tally = Tally()
# As the peers do at their top: to load a program is not to work.
import_module("onward.worker.worker")
import_module(
    "onward.stores.postgres.pipelined" if URL.startswith("postgres") else "onward.stores.sqlite.sqlite_store"
)

CONCURRENCY = int(os.environ.get("ONWARD_BENCH_CONCURRENCY", "10"))
CALLERS = 100
# As `onward worker` does.
tune()


@app.job
async def noop(n: int) -> None:  # noqa: ARG001
    tally.ran()


@app.job
async def compute(us: int) -> None:
    end = clock() + us
    while clock() < end:
        pass
    tally.ran()


@app.job
async def sent(at: int) -> None:
    tally.started(at)


@app.job
async def rest(ms: int) -> None:
    await asyncio.sleep(ms / 1000)
    tally.ran()


class Subject:
    """The verbs of every subject."""

    def setup(self) -> None:
        app.client.migrate()

    def one(self, jobs: int, timer: Timer) -> None:
        app.client.jobs.count()
        with timer:
            for number in range(jobs):
                noop.enqueue(n=number)

    def many(self, jobs: int, timer: Timer) -> None:
        app.client.jobs.count()
        with timer:
            app.enqueue_many(noop.build(n=number) for number in range(jobs))

    def trickle(self, jobs: int, pause: Callable[[], None]) -> None:
        for _ in range(jobs):
            pause()
            sent.enqueue(at=clock())

    def work(self, counted: Tally, *, drain: bool) -> None:
        global tally  # noqa: PLW0603
        tally = counted
        asyncio.run(app.worker(drain=drain, concurrency=CONCURRENCY).run())


def keyed(jobs: int) -> None:
    """Enqueue a bulk in which every job has an idempotency key."""
    app.client.jobs.count()
    timer, start = Timer(), clock()
    with timer:
        app.enqueue_many(noop.using(key=f"k{start}:{number}").build(n=number) for number in range(jobs))
    say(jobs=jobs, seconds=timer.seconds)


def callers(jobs: int) -> None:
    """Enqueue from a hundred coroutines of one process, each one job after the other."""

    async def call(numbers: range) -> None:
        for number in numbers:
            await noop.aenqueue(n=number)

    async def run() -> None:
        timer = Timer()
        await app.aclient.jobs.count()
        with timer:
            await asyncio.gather(*(call(range(start, jobs, CALLERS)) for start in range(CALLERS)))
        say(jobs=jobs, seconds=timer.seconds)
        await app.aclose()

    asyncio.run(run())


def load(rate: int, seconds: int) -> None:
    """Enqueue at an even rate, about 300 times a second as many as are due."""
    begin, done = clock(), 0
    while (passed := clock() - begin) < seconds * 1_000_000:
        due = int(rate * passed / 1e6) - done
        if due:
            send(due)
            done += due
        time.sleep(max(0.0, 0.003 - (clock() - begin - passed) / 1e6))
    say(jobs=done, seconds=(clock() - begin) / 1e6)


def feed() -> None:
    """Enqueue as many at once as each line of the input says."""
    app.client.jobs.count()
    say(ready=True)
    for line in sys.stdin:
        send(int(line))


def send(jobs: int) -> None:
    now = clock()
    app.enqueue_many([sent.build(at=now) for _ in range(jobs)])


def rests(jobs: int, ms: int) -> None:
    timer = Timer()
    with timer:
        app.enqueue_many([rest.build(ms=ms)] * jobs)
    say(jobs=jobs, seconds=timer.seconds)


def urgent(slow: int, jobs: int) -> None:
    """Enqueue jobs of 200 ms, and then urgent ones, one after the other, behind them."""
    app.enqueue_many([rest.build(ms=200)] * slow)
    first, pauses = clock(), Spread()
    for _ in range(jobs):
        for _ in range(3):
            pauses.pause()
        sent.using(priority=1).enqueue(at=clock())
    say(jobs=slow + jobs, seconds=(clock() - first) / 1e6)


def drain() -> None:
    before, start = cpu(), time.perf_counter()
    done = asyncio.run(app.worker(drain=True, concurrency=CONCURRENCY).run())
    say(jobs=done.processed, seconds=time.perf_counter() - start, cpu=cpu() - before)


def main() -> None:
    match sys.argv[1:]:
        case ["keyed", jobs]:
            keyed(int(jobs))
        case ["callers", jobs]:
            callers(int(jobs))
        case ["load", rate, seconds]:
            load(int(rate), int(seconds))
        case ["feed"]:
            feed()
        case ["rests", jobs, ms]:
            rests(int(jobs), int(ms))
        case ["urgent", slow, jobs]:
            urgent(int(slow), int(jobs))
        case ["drain"]:
            drain()
        case _:
            serve(Subject())
    app.close()


if __name__ == "__main__":
    main()
