"""What a worker holds in memory: at rest, and after many jobs beside after some."""

from __future__ import annotations

from collections.abc import Iterator

from bench.children import ONWARD, Child, working
from bench.drains import fill_noops
from bench.measuring import Measure, fresh_store
from bench.sizes import Sizes
from onward.clients.sync.client import Client

PART = 10_000


def postgres(url: str, sizes: Sizes) -> Iterator[Measure]:
    with (
        fresh_store(url) as store,
        working(ONWARD(url, schema=store.prefix.rstrip("."))) as worker,
    ):
        client = Client(store=store)
        worker.tell("go")
        fill_noops(client, 1)
        worker.until(1)
        rest = held(worker)
        some = 0.0
        for done in range(PART, sizes.remembered + 1, PART):
            fill_noops(client, PART)
            worker.until(done)
            some = some or held(worker)
        many = held(worker)
        worker.stop()
    yield Measure("postgres: memory of a worker at rest", "MB", rest, 0, "<= 60 MB")
    yield Measure(f"postgres: memory after {sizes.remembered:,} jobs, by 10,000", "MB", many, some, "<= 1.1")


def held(worker: Child) -> float:
    worker.tell("memory")
    return float(worker.hear("memory")["memory"])
