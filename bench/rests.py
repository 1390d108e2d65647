"""Jobs that wait 5 ms for something outside, a hundred at once, beside what the event loop alone does."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator

from bench.children import ONWARD, ask, drain
from bench.drains import unfinished
from bench.measuring import Measure, fresh_store
from bench.sizes import Sizes

AT_ONCE = 100
MILLISECONDS = 5
IDEAL = AT_ONCE * 1000 / MILLISECONDS


def postgres(url: str, sizes: Sizes) -> Iterator[Measure]:
    alone = loop_alone(sizes.drained)
    with fresh_store(url) as store:
        command = ONWARD(url, schema=store.prefix.rstrip("."), concurrency=AT_ONCE)
        ask(command, "rests", sizes.drained, MILLISECONDS)
        ours = drain(command, sizes.drained, unfinished(store)).rate
    best = min(IDEAL, alone)
    yield Measure("postgres: 5 ms of I/O, 100 at once, by the loop alone", "jobs/s", ours, best, ">= 0.95")


def loop_alone(jobs: int) -> float:
    """Have a hundred coroutines sleep as often, with nothing else to do."""

    async def rest(times: int) -> None:
        for _ in range(times):
            await asyncio.sleep(MILLISECONDS / 1000)

    async def run() -> float:
        start = time.perf_counter()
        await asyncio.gather(*(rest(jobs // AT_ONCE) for _ in range(AT_ONCE)))
        return jobs / (time.perf_counter() - start)

    return asyncio.run(run())
