"""Procrastinate: psycopg pool, four jobs at once (one job per statement; more made it slower here)."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Coroutine
from typing import Any

from procrastinate import App, PsycopgConnector

from bench.speaking import Tally, Timer, clock, serve

CONCURRENCY = int(os.environ.get("PEER_CONCURRENCY", "4"))

logging.getLogger("procrastinate").setLevel(logging.ERROR)
app = App(connector=PsycopgConnector(conninfo=os.environ["PEER_URL"], min_size=4, max_size=20))
tally = Tally()


async def noop(n: int) -> None:  # noqa: ARG001
    tally.ran()


async def sent(at: int) -> None:
    tally.started(at)


noop_task = app.task(name="noop")(noop)
sent_task = app.task(name="sent")(sent)


def opened(work: Callable[[], Coroutine[Any, Any, Any]]) -> None:
    async def run() -> None:
        async with app.open_async():
            await work()

    asyncio.run(run())


class Procrastinate:
    def setup(self) -> None:
        opened(app.schema_manager.apply_schema_async)

    def one(self, jobs: int, timer: Timer) -> None:
        async def enqueue() -> None:
            with timer:
                for number in range(jobs):
                    await noop_task.defer_async(n=number)

        opened(enqueue)

    def many(self, jobs: int, timer: Timer) -> None:
        async def enqueue() -> None:
            with timer:
                await noop_task.batch_defer_async(*[{"n": number} for number in range(jobs)])

        opened(enqueue)

    def trickle(self, jobs: int, pause: Callable[[], None]) -> None:
        async def enqueue() -> None:
            for _ in range(jobs):
                pause()
                await sent_task.defer_async(at=clock())

        opened(enqueue)

    def work(self, counted: Tally, *, drain: bool) -> None:
        global tally  # noqa: PLW0603
        tally = counted
        options = {"concurrency": CONCURRENCY, "wait": not drain, "install_signal_handlers": False}
        opened(lambda: app.run_worker_async(**options))


if __name__ == "__main__":
    serve(Procrastinate())
