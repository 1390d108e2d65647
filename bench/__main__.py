"""Run the benchmarks: `make bench [ARGS="--json --rounds N --only drains,latencies.postgres --full"]`.

Each is measured beside its limit in the same round; what counts is the median of the rounds' ratios.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from bench import audits, bursts, callers, claims, drains, enqueues, growth, latencies, memory, reads, rests
from bench.measuring import Measure, met
from bench.servers import used_server
from bench.sizes import FULL, SMALL, Sizes

MEASURES: list[Callable[[str, Sizes], Iterator[Measure]]] = [
    enqueues.postgres,
    enqueues.sqlite,
    callers.postgres,
    callers.sqlite,
    claims.postgres,
    claims.sqlite,
    drains.postgres,
    drains.sqlite,
    drains.fair_postgres,
    drains.fair_sqlite,
    drains.limited_postgres,
    drains.limited_sqlite,
    audits.postgres,
    latencies.postgres,
    latencies.sqlite,
    rests.postgres,
    bursts.postgres,
    growth.postgres,
    memory.postgres,
    reads.postgres,
    reads.sqlite,
]


def main() -> int:
    parser = argparse.ArgumentParser(prog="bench", description=__doc__)
    parser.add_argument("--json", action="store_true", help="one JSON document on standard output")
    parser.add_argument(
        "--rounds", type=int, default=3, help="interleaved rounds; the median counts (default 3)"
    )
    parser.add_argument("--only", default="", help="only these, by commas: drains, latencies.sqlite, …")
    parser.add_argument("--full", action="store_true", help="the sizes that the targets name; takes long")
    options = parser.parse_args()
    chosen = [measure for measure in MEASURES if asked(measure, options.only)]
    if not chosen:
        parser.error(f"nothing is called {options.only!r}; there are {[called(m) for m in MEASURES]}")
    with server() as url:
        results: dict[str, list[Measure]] = {}
        for number in range(options.rounds):
            for measure in chosen:
                print(f"round {number + 1}: {called(measure)}", file=sys.stderr)
                for result in measure(url, FULL if options.full else SMALL):
                    results.setdefault(result.name, []).append(result)
    summary = [summed(name, measures) for name, measures in results.items()]
    if options.json:
        print(json.dumps({"rounds": options.rounds, "measures": summary}, indent=2))
    else:
        show(summary)
    return 0


def called(measure: Callable[..., object]) -> str:
    return f"{measure.__module__.removeprefix('bench.')}.{measure.__name__}"


def asked(measure: Callable[..., object], only: str) -> bool:
    return any(part.strip() in called(measure) for part in only.split(","))


@contextmanager
def server() -> Iterator[str]:
    """A PostgreSQL with full durability: the one of ONWARD_BENCH_POSTGRES_URL, or one of our own."""
    if url := os.environ.get("ONWARD_BENCH_POSTGRES_URL"):
        yield url
        return
    with used_server() as own:
        yield own


def summed(name: str, measures: list[Measure]) -> dict[str, object]:
    ours = statistics.median(m.ours for m in measures)
    limited = bool(measures[0].limit)
    ratio = statistics.median(m.ratio for m in measures) if limited else None
    return {
        "name": name,
        "unit": measures[0].unit,
        "ours": round(ours, 2),
        "limit": round(statistics.median(m.limit for m in measures), 2) if limited else None,
        "ratio": None if ratio is None else round(ratio, 3),
        "target": measures[0].target,
        "met": met(measures[0].target, ours, ratio),
        "rounds": [round(m.ours, 2) for m in measures],
    }


def show(summary: list[dict[str, object]]) -> None:
    width = max(len(str(row["name"])) for row in summary)
    print(f"{'measure':{width}} {'ours':>10} {'limit':>10}  {'unit':7} {'ratio':>6}  target")
    for row in summary:
        limit, ratio = ("-" if row[key] is None else row[key] for key in ("limit", "ratio"))
        said = {True: "met", False: "MISSED", None: ""}[row["met"]]  # type: ignore[index]
        line = f"{row['name']:{width}} {row['ours']:>10} {limit:>10}  {row['unit']:7} {ratio:>6}"
        print(f"{line}  {row['target']:9} {said}".rstrip())


if __name__ == "__main__":
    raise SystemExit(main())
