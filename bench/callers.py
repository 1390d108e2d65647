"""A hundred callers of one process enqueue at once, beside one caller; one enqueues while a worker drains."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from bench.children import ONWARD, Command, ask, percentile, working
from bench.drains import filled, filled_file
from bench.measuring import Measure, fresh_store
from bench.sizes import Sizes
from onward.clients.sync.client import Client
from onward.core.jobs.job import NewJob
from onward.stores.sqlite.sqlite_store import SqliteStore

SINGLES = 1000
TOGETHER = 10_000
DRAINS_SECONDS = 2.0
JOB = NewJob(job_type="noop", payload={"n": 0})


def postgres(url: str, sizes: Sizes) -> Iterator[Measure]:
    with fresh_store(url) as store:
        yield beside("postgres", ONWARD(url, schema=store.prefix.rstrip(".")))
    with filled(url, 4 * sizes.drained) as store:
        command = ONWARD(url, schema=store.prefix.rstrip("."))
        yield from while_it_drains("postgres", Client(store=store), command)


def sqlite(_url: str, sizes: Sizes) -> Iterator[Measure]:
    with tempfile.TemporaryDirectory() as folder:
        command = ONWARD(f"sqlite:///{Path(folder) / 'onward.db'}")
        ask(command, "setup")
        yield beside("sqlite", command)
    with filled_file(4 * sizes.drained) as path, Client(store=SqliteStore(path)) as client:
        yield from while_it_drains("sqlite", client, ONWARD(f"sqlite:///{path}"))


def beside(database: str, command: Command) -> Measure:
    one = SINGLES / ask(command, "one", SINGLES)["seconds"]
    hundred = TOGETHER / ask(command, "callers", TOGETHER)["seconds"]
    return Measure(f"{database}: enqueue by 100 callers, by one caller", "jobs/s", hundred, one, "")


def while_it_drains(database: str, client: Client, command: Command) -> Iterator[Measure]:
    """Enqueue one job every 10 ms or so, before a worker drains its jobs and while it does."""
    rests = enqueued_for(client, DRAINS_SECONDS)
    with working(command) as worker:
        worker.tell("go")
        worker.until(1)
        busy = enqueued_for(client, DRAINS_SECONDS)
    for share in (50, 99):
        took, least = percentile(busy, share / 100), percentile(rests, share / 100)
        yield Measure(f"{database}: enqueue one while a worker drains, p{share}", "ms", took, least, "")


def enqueued_for(client: Client, seconds: float) -> list[float]:
    """Enqueue for a while; gives the milliseconds that each took."""
    took, until = [], time.perf_counter() + seconds
    while (began := time.perf_counter()) < until:
        client.enqueue(JOB)
        took.append((time.perf_counter() - began) * 1e3)
        time.sleep(0.01)
    return took
