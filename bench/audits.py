"""What the audit costs: a drain of no-op jobs at each of its levels, beside one that writes none of it."""

from __future__ import annotations

from collections.abc import Iterator

from bench.children import ONWARD, drain
from bench.drains import filled, unfinished
from bench.measuring import Measure
from bench.sizes import Sizes
from onward.core.policy.settings import AUDIT_LEVELS

__all__ = ["postgres"]


def postgres(url: str, sizes: Sizes) -> Iterator[Measure]:
    jobs = sizes.drained
    micros: dict[str, float] = {}
    for level in AUDIT_LEVELS:
        with filled(url, jobs, level) as store:
            command = ONWARD(store.url, schema=store.prefix.rstrip("."), audit=level)
            micros[level] = 1e6 / drain(command, jobs, unfinished(store)).rate
    for level, target in (("ends", ""), ("full", "<= 1.6")):
        name = f"postgres: drain, a job with audit={level}, by one without"
        yield Measure(name, "µs", micros[level], micros["off"], target)
