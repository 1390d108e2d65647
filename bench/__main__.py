"""Run the benchmarks: `python -m bench [--json] [--rounds N] [--only TEXT]`.

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

from bench import claims, enqueues
from bench.measuring import Measure
from tests.postgres import start_postgres

MEASURES: list[Callable[[str], Iterator[Measure]]] = [
    enqueues.postgres,
    enqueues.sqlite,
    claims.postgres,
    claims.sqlite,
]


def main() -> int:
    parser = argparse.ArgumentParser(prog="bench", description=__doc__)
    parser.add_argument("--json", action="store_true", help="one JSON document on standard output")
    parser.add_argument(
        "--rounds", type=int, default=3, help="interleaved rounds; the median counts (default 3)"
    )
    parser.add_argument("--only", default="", help="only measures whose name holds this text")
    options = parser.parse_args()
    with server() as url:
        results: dict[str, list[Measure]] = {}
        for number in range(options.rounds):
            for measure in MEASURES:
                if options.only and options.only not in f"{measure.__module__}.{measure.__name__}":
                    continue
                print(f"round {number + 1}: {measure.__module__}.{measure.__name__}", file=sys.stderr)
                for result in measure(url):
                    results.setdefault(result.name, []).append(result)
    summary = [summed(name, measures) for name, measures in results.items()]
    if options.json:
        print(json.dumps({"rounds": options.rounds, "measures": summary}, indent=2))
    else:
        show(summary)
    return 0


@contextmanager
def server() -> Iterator[str]:
    """A PostgreSQL with full durability: the one of ONWARD_BENCH_POSTGRES_URL, or one of our own."""
    if url := os.environ.get("ONWARD_BENCH_POSTGRES_URL"):
        yield url
        return
    with start_postgres(durable=True) as own:
        yield own.url()


def summed(name: str, measures: list[Measure]) -> dict[str, object]:
    return {
        "name": name,
        "unit": measures[0].unit,
        "ours": round(statistics.median(m.ours for m in measures), 2),
        "limit": round(statistics.median(m.limit for m in measures), 2) if measures[0].limit else None,
        "ratio": round(statistics.median(m.ratio for m in measures), 3) if measures[0].limit else None,
        "target": measures[0].target,
    }


def show(summary: list[dict[str, object]]) -> None:
    print(f"{'measure':58} {'ours':>10} {'limit':>10}  {'unit':10} {'ratio':>6}  target")
    for row in summary:
        limit, ratio = ("-" if row[key] is None else row[key] for key in ("limit", "ratio"))
        print(f"{row['name']:58} {row['ours']:>10} {limit:>10}  {row['unit']:10} {ratio:>6}  {row['target']}")


if __name__ == "__main__":
    raise SystemExit(main())
