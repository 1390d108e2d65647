"""Rate limiting by GCRA: its state is one number, the time by which all past starts are paid for.

All times are in microseconds. Any span of time has at most one start per `every`, plus `burst`.
"""

from __future__ import annotations


def tokens(paid_at: int | None, now: int, every: int, burst: int) -> int:
    """Return how many starts are allowed now; `paid_at` is None before the first start."""
    return max(0, burst * every - _owed(paid_at, now, every, burst)) // every


def take(paid_at: int | None, now: int, every: int, burst: int, count: int) -> int:
    """Record `count` allowed starts; return the time by which they are paid for."""
    return now + _owed(paid_at, now, every, burst) + count * every


def wait(paid_at: int | None, now: int, every: int, burst: int) -> int:
    """Return the time until the next start is allowed."""
    return max(0, _owed(paid_at, now, every, burst) - (burst - 1) * every)


def _owed(paid_at: int | None, now: int, every: int, burst: int) -> int:
    owed = 0 if paid_at is None else max(0, paid_at - now)
    # This rate never owes more than a burst: a larger debt is from a slower rate before, or a clock set back.
    return 0 if owed > 2 * burst * every else owed
