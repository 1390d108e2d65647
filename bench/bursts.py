"""A worker that started on an empty table, and then very many jobs at once: first speed beside last."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from bench.children import ONWARD, Child, working
from bench.drains import fill_noops
from bench.measuring import Measure, fresh_store
from bench.sizes import Sizes
from onward.clients.sync.client import Client


def postgres(url: str, sizes: Sizes) -> Iterator[Measure]:
    with (
        fresh_store(url) as store,
        working(ONWARD(url, schema=store.prefix.rstrip("."))) as worker,
    ):
        client = Client(store=store)
        worker.tell("go")
        # Claims that find one job each: whoever keeps a plan, makes it of these.
        for number in range(1, 21):
            fill_noops(client, 1)
            worker.until(number)
        fill_noops(client, sizes.burst)
        reports = followed(worker, 20 + sizes.burst)
        worker.stop()
    fifth = sizes.burst // 5
    early = speed(reports, 20, 20 + fifth)
    late = speed(reports, 20 + sizes.burst - fifth, 20 + sizes.burst)
    name = f"postgres: first fifth of {sizes.burst:,} jobs at once, by the last"
    yield Measure(name, "jobs/s", early, late, ">= 0.8")


def followed(worker: Child, jobs: int) -> list[dict[str, Any]]:
    reports = [worker.last]
    while reports[-1]["jobs"] < jobs:
        reports.append(worker.hear("jobs"))
    return reports


def speed(reports: list[dict[str, Any]], start: int, end: int) -> float:
    """Give jobs a second between two counts, of the reports that lie about them."""
    before = next(report for report in reports if report["jobs"] > start)
    after = next(report for report in reports if report["jobs"] >= end)
    if after["at"] <= before["at"]:
        return 0.0
    return float((after["jobs"] - before["jobs"]) / (after["at"] - before["at"]) * 1e6)
