"""How much is measured: a few minutes by default, the sizes that the targets name with `--full`."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["FULL", "SMALL", "Sizes"]


@dataclass(frozen=True)
class Sizes:
    drained: int
    sampled: int
    loaded_seconds: int
    ended: int
    scheduled: int
    behind: int
    churned: int
    burst: int
    remembered: int
    listed: int
    waiting: int


SMALL = Sizes(
    drained=60_000,
    sampled=200,
    loaded_seconds=4,
    ended=200_000,
    scheduled=100_000,
    behind=100_000,
    churned=60_000,
    burst=50_000,
    remembered=40_000,
    listed=400_000,
    waiting=100_000,
)
FULL = Sizes(
    drained=100_000,
    sampled=500,
    loaded_seconds=10,
    ended=10_000_000,
    scheduled=1_000_000,
    behind=1_000_000,
    churned=1_000_000,
    burst=200_000,
    remembered=1_000_000,
    listed=2_000_000,
    waiting=100_000,
)
