"""PgQueuer: asyncpg pool, batches of 2 000 (500 and 1 000 were slower here), no limit of concurrency."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import asyncpg
import uvloop
from pgqueuer.db import AsyncpgPoolDriver
from pgqueuer.qm import QueueManager
from pgqueuer.queries import Queries
from pgqueuer.types import QueueExecutionMode

from bench.speaking import Tally, Timer, clock, serve

BATCH = int(os.environ.get("PEER_BATCH", "2000"))


@asynccontextmanager
async def driver() -> AsyncIterator[Any]:
    async with asyncpg.create_pool(os.environ["PEER_URL"], min_size=2, max_size=10) as pool:
        yield AsyncpgPoolDriver(pool)


class PgQueuer:
    def setup(self) -> None:
        async def install() -> None:
            async with driver() as opened:
                await Queries(opened).install()

        uvloop.run(install())

    def one(self, jobs: int, timer: Timer) -> None:
        async def enqueue() -> None:
            async with driver() as opened:
                queries = Queries(opened)
                with timer:
                    for number in range(jobs):
                        await queries.enqueue("noop", json.dumps({"n": number}).encode())

        uvloop.run(enqueue())

    def many(self, jobs: int, timer: Timer) -> None:
        async def enqueue() -> None:
            async with driver() as opened:
                with timer:
                    payloads = [json.dumps({"n": number}).encode() for number in range(jobs)]
                    await Queries(opened).enqueue(["noop"] * jobs, payloads, [0] * jobs)

        uvloop.run(enqueue())

    def trickle(self, jobs: int, pause: Callable[[], None]) -> None:
        async def enqueue() -> None:
            async with driver() as opened:
                queries = Queries(opened)
                for _ in range(jobs):
                    pause()
                    await queries.enqueue("sent", json.dumps({"sent": clock()}).encode())

        uvloop.run(enqueue())

    def work(self, tally: Tally, *, drain: bool) -> None:
        async def noop(job: Any) -> None:
            json.loads(job.payload)
            tally.ran()

        async def sent(job: Any) -> None:
            tally.started(json.loads(job.payload)["sent"])

        async def run() -> None:
            async with driver() as opened:
                manager = QueueManager(Queries(opened))
                manager.entrypoint("noop")(noop)
                manager.entrypoint("sent")(sent)
                mode = QueueExecutionMode.drain if drain else QueueExecutionMode.continuous
                await manager.run(batch_size=BATCH, mode=mode)
                await asyncio.sleep(3600)

        uvloop.run(run())


if __name__ == "__main__":
    serve(PgQueuer())
