"""From the enqueue call to the start of the handler: an idle worker, and one at half of its full load."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

from bench.children import ONWARD, Command, ask, percentile, working
from bench.drains import drained, filled
from bench.measuring import Measure, fresh_store
from bench.sizes import Sizes

WARMING = 20
SLOW, URGENT = 200, 20


def postgres(url: str, sizes: Sizes) -> Iterator[Measure]:
    with fresh_store(url) as store:
        command = ONWARD(url, schema=store.prefix.rstrip("."))
        yield from idle("postgres", command, sizes)
    with filled(url, sizes.drained) as store:
        full = drained(store, sizes.drained).rate
    with fresh_store(url) as store:
        command = ONWARD(url, schema=store.prefix.rstrip("."))
        waits = under_load(command, int(full / 2), sizes.loaded_seconds)
    p50, p99 = (percentile(waits, share) / 1e3 for share in (0.5, 0.99))
    yield Measure("postgres: latency at half load, p50", "ms", p50, 0, "")
    yield Measure("postgres: latency at half load, p99", "ms", p99, 0, "<= 20 ms")
    with fresh_store(url) as store:
        yield urgent("postgres", ONWARD(url, schema=store.prefix.rstrip(".")))


def sqlite(_url: str, sizes: Sizes) -> Iterator[Measure]:
    with tempfile.TemporaryDirectory() as folder:
        command = ONWARD(f"sqlite:///{Path(folder) / 'onward.db'}")
        ask(command, "setup")
        yield from idle("sqlite", command, sizes)
        yield urgent("sqlite", command)


def idle(database: str, command: Command, sizes: Sizes) -> Iterator[Measure]:
    with working(command) as worker:
        worker.tell("go")
        ask(command, "trickle", sizes.sampled + WARMING)
        worker.until(sizes.sampled + WARMING)
        waits = worker.stop()["waits"][WARMING:]
    targets = ("<= 2.5 ms", "", "<= 6 ms") if database == "postgres" else ("", "", "")
    for share, target in zip((50, 95, 99), targets, strict=True):
        value = percentile(waits, share / 100) / 1e3
        yield Measure(f"{database}: latency idle, p{share}", "ms", value, 0, target)


def under_load(command: Command, rate: int, seconds: int) -> list[float]:
    """Give the waits of all jobs but those of the first half second."""
    with working(command) as worker:
        worker.tell("go")
        sent = ask(command, "load", rate, seconds)
        worker.until(sent["jobs"])
        waits: list[float] = worker.stop()["waits"]
    return waits[rate // 2 :] or waits


def urgent(database: str, command: Command) -> Measure:
    """Let urgent jobs come to a worker that is busy with slow ones of the same queue."""
    with working(command) as worker:
        worker.tell("go")
        ask(command, "urgent", SLOW, URGENT)
        worker.until(SLOW + URGENT)
        worst = max(worker.stop()["waits"]) / 1e3
    return Measure(f"{database}: urgent job among jobs of 200 ms, longest wait", "ms", worst, 0, "<= 300 ms")
