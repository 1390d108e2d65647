"""From the enqueue call to the start of the handler: an idle worker, and one at half of its full load.

Full load is what the machine enqueues and runs at once, without end. Half of what it drains is more: while
it drains, nothing is enqueued. Both are measured.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.children import BARE, ONWARD, Command, ask, percentile, working
from bench.drains import drained, filled
from bench.measuring import Measure, fresh_store, settle
from bench.sizes import Sizes
from onward.stores.postgres.sync.postgres_store import PostgresStore

WARMING = 20
# In a second.
TRICKLED = 33
SLOW, URGENT = 200, 20
# As many as a worker holds ahead at most: enough for it, and too few to gather.
UNDER_WAY = 2000


def postgres(url: str, sizes: Sizes) -> Iterator[Measure]:
    with settled_store(url) as store:
        ours, bare = both(store)
        least = waits_at_rest(bare, sizes)
        yield from idle("postgres", waits_at_rest(ours, sizes), least)
    with filled(url, sizes.drained) as store:
        drain = drained(store, sizes.drained).rate
    with fresh_store(url) as store:
        full = sustained(both(store)[0], sizes.loaded_seconds)
    yield Measure("postgres: enqueued and run at once, by a drain", "jobs/s", full, drain, "")
    for name, rate in (("half load", full / 2), ("half of a drain", drain / 2)):
        with settled_store(url) as store:
            waits, least = under_load(*both(store), int(rate), sizes.loaded_seconds)
        for share, target in ((50, ""), (99, "<= 20 ms")):
            value, limit = (percentile(found, share / 100) / 1e3 for found in (waits, least))
            yield Measure(f"postgres: latency at {name}, p{share}", "ms", value, limit, target)
    with fresh_store(url) as store:
        yield urgent("postgres", ONWARD(url, schema=store.prefix.rstrip(".")))


@contextmanager
def settled_store(url: str) -> Iterator[PostgresStore]:
    """Give empty tables, once nothing is left to write of what was measured before."""
    with fresh_store(url) as store:
        settle(url)
        yield store


def sqlite(_url: str, sizes: Sizes) -> Iterator[Measure]:
    with tempfile.TemporaryDirectory() as folder:
        command = ONWARD(f"sqlite:///{Path(folder) / 'onward.db'}")
        ask(command, "setup")
        yield from idle("sqlite", waits_at_rest(command, sizes))
        yield urgent("sqlite", command)


def both(store: PostgresStore) -> tuple[Command, Command]:
    """Give how Onward is called on a store, and the least that any queue does beside it."""
    schema = store.prefix.rstrip(".")
    bare = BARE(f"{store.url}{'&' if '?' in store.url else '?'}options=-csearch_path%3D{schema}")
    ask(bare, "setup")
    return ONWARD(store.url, schema=schema), bare


def waits_at_rest(command: Command, sizes: Sizes) -> list[float]:
    with working(command) as worker:
        worker.tell("go")
        ask(command, "trickle", sizes.sampled + WARMING)
        worker.until(sizes.sampled + WARMING)
        waits: list[float] = worker.stop()["waits"]
    return waits[WARMING:]


def idle(database: str, waits: list[float], least: list[float] | None = None) -> Iterator[Measure]:
    """Give our waits, beside the least that PostgreSQL itself takes."""
    targets = ("<= 2.5 ms", "", "<= 6 ms") if database == "postgres" else ("", "", "")
    for share, target in zip((50, 95, 99), targets, strict=True):
        value, limit = (percentile(found, share / 100) / 1e3 for found in (waits, least or [0]))
        yield Measure(f"{database}: latency idle, p{share}", "ms", value, limit, target)


def sustained(command: Command, seconds: int) -> float:
    """Give how many jobs a second are enqueued and run, if so many come as have ended."""
    with working(command) as worker, command.start("feed") as feeder:
        feeder.hear("ready")
        worker.tell("go")
        feeder.tell(str(UNDER_WAY))
        told, early = UNDER_WAY, worker.hear("jobs")
        begun = early["at"]
        while (report := worker.hear("jobs"))["at"] < begun + (seconds + 1) * 1e6:
            if report["at"] < begun + 1e6:
                early = report
            if more := report["jobs"] + UNDER_WAY - told:
                feeder.tell(str(more))
                told += more
    return float((report["jobs"] - early["jobs"]) / (report["at"] - early["at"]) * 1e6)


def under_load(command: Command, bare: Command, rate: int, seconds: int) -> tuple[list[float], list[float]]:
    """Give the waits of all jobs but the first half second's, and of bare ones that came between."""
    with working(command) as worker, working(bare) as beside:
        worker.tell("go")
        beside.tell("go")
        with bare.start("trickle", seconds * TRICKLED):
            sent = ask(command, "load", rate, seconds)
            worker.until(sent["jobs"])
        waits: list[float] = worker.stop()["waits"]
        least: list[float] = beside.stop()["waits"]
    return waits[rate // 2 :] or waits, least[TRICKLED // 2 :]


def urgent(database: str, command: Command) -> Measure:
    """Let urgent jobs come to a worker that is busy with slow ones of the same queue."""
    with working(command) as worker:
        worker.tell("go")
        ask(command, "urgent", SLOW, URGENT)
        worker.until(SLOW + URGENT)
        worst = max(worker.stop()["waits"]) / 1e3
    return Measure(f"{database}: urgent job among jobs of 200 ms, longest wait", "ms", worst, 0, "<= 300 ms")
