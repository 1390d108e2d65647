"""A hundred callers of one process enqueue at once, beside one caller."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

from bench.children import ONWARD, Command, ask
from bench.measuring import Measure, fresh_store
from bench.sizes import Sizes

SINGLES = 1000
TOGETHER = 10_000


def postgres(url: str, _sizes: Sizes) -> Iterator[Measure]:
    with fresh_store(url) as store:
        yield beside("postgres", ONWARD(url, schema=store.prefix.rstrip(".")))


def sqlite(_url: str, _sizes: Sizes) -> Iterator[Measure]:
    with tempfile.TemporaryDirectory() as folder:
        command = ONWARD(f"sqlite:///{Path(folder) / 'onward.db'}")
        ask(command, "setup")
        yield beside("sqlite", command)


def beside(database: str, command: Command) -> Measure:
    one = SINGLES / ask(command, "one", SINGLES)["seconds"]
    hundred = TOGETHER / ask(command, "callers", TOGETHER)["seconds"]
    return Measure(f"{database}: enqueue by 100 callers, by one caller", "jobs/s", hundred, one, "")
