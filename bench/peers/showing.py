"""Medians of the rounds, Onward's ratio to each peer, and the targets beside them."""

from __future__ import annotations

import statistics
from typing import Any

__all__ = ["Round", "show", "summary"]

Round = dict[str, dict[str, float]]

# (measure of ours, its form of theirs, peer, at least so many times theirs)
TARGETS = (
    ("drain, 1 process", "drain, 1 process", "graphile-worker", 1.2),
    ("drain, 1 process", "drain, 1 process", "PgQueuer", 2.0),
    ("drain, 1 process", "drain, 1 process", "Procrastinate", 20.0),
    ("drain, 1 process", "drain, 1 process", "Huey on SQLite", 10.0),
    ("drain, audit off", "drain, 1 process", "graphile-worker", 1.7),
    ("drain, audit off", "drain, 1 process", "PgQueuer", 2.7),
    ("bulk enqueue", "bulk enqueue", "pg-boss", 1.5),
    ("bulk enqueue with keys", "bulk enqueue", "pg-boss", 1.5),
    ("enqueue one by one", "enqueue one by one", "PgQueuer", 1.0),
    ("100 callers", "enqueue one by one", "PgQueuer", 10.0),
)


def summary(rounds: list[Round]) -> dict[str, Any]:
    """Give the medians of all numbers, and the median of the rounds' ratios."""
    names = list(rounds[0])
    medians = {
        name: {
            measure: statistics.median(one[name][measure] for one in rounds) for measure in rounds[0][name]
        }
        for name in names
    }
    ratios = []
    for peer in names:
        ours = own(peer)
        if ours == peer or ours not in names:
            continue
        pairs = [(measure, measure) for measure in medians[peer] if measure in medians[ours]]
        pairs += [(m, t) for m, t, p, _ in TARGETS if p == peer and m != t and m in medians[ours]]
        for measure, theirs in pairs:
            ratio = statistics.median(one[ours][measure] / one[peer][theirs] for one in rounds)
            ratios.append(
                {
                    "measure": measure if measure == theirs else f"{measure} / {theirs}",
                    "peer": peer,
                    "ratio": round(ratio, 3),
                    "target": target(measure, theirs, peer),
                    "met": None if (least := target(measure, theirs, peer)) is None else ratio >= least,
                }
            )
    return {"medians": medians, "ratios": ratios}


def own(peer: str) -> str:
    return "Onward on SQLite" if peer.endswith("on SQLite") else "Onward"


def target(measure: str, theirs: str, peer: str) -> float | None:
    return next((least for m, t, p, least in TARGETS if (m, t, p) == (measure, theirs, peer)), None)


def show(result: dict[str, Any]) -> None:
    for number, found in enumerate(result["rounds"], 1):
        table(f"round {number}", found)
    table(f"medians of {len(result['rounds'])} rounds", result["medians"])
    for name, settings in result["settings"].items():
        print(f"  {name}: {settings}")
    print("\nOnward by peer (median of the rounds' ratios; for CPU and latency less is better)")
    for row in result["ratios"]:
        line = f"  {row['peer']:18} {row['measure']:38} {row['ratio']:>8.2f}"
        if row["target"] is not None:
            line += f"   target >= {row['target']:g}   {'met' if row['met'] else 'MISSED'}"
        print(line)


def table(title: str, found: Round) -> None:
    measures = list(dict.fromkeys(measure for one in found.values() for measure in one))
    print(f"\n{title:32}" + "".join(f"{name:>18}" for name in found))
    for measure in measures:
        unit = "µs/job" if measure.startswith("CPU") else "ms" if measure.startswith("latency") else "/s"
        cells = [number(one.get(measure)) for one in found.values()]
        print(f"{f'{measure} ({unit})':32}" + "".join(f"{cell:>18}" for cell in cells))
    print()


def number(value: float | None) -> str:
    return "-" if value is None else f"{value:,.0f}" if value >= 100 else f"{value:.1f}"
