"""How many may go now, at a rate: kept as one number, the time by which all that went is paid for (GCRA).

All is in microseconds. Within any span of time no more go than one each `every`, and `burst` more.
"""

from __future__ import annotations


def tokens(paid_at: int | None, now: int, every: int, burst: int) -> int:
    """Count those that may go now; None for a rate under which nothing has gone yet."""
    return max(0, burst * every - _owed(paid_at, now, every, burst)) // every


def take(paid_at: int | None, now: int, every: int, burst: int, count: int) -> int:
    """Let so many go, of those that may; gives the time by which they are paid for."""
    return now + _owed(paid_at, now, every, burst) + count * every


def wait(paid_at: int | None, now: int, every: int, burst: int) -> int:
    """Tell how long it is until the next one may go."""
    return max(0, _owed(paid_at, now, every, burst) - (burst - 1) * every)


def _owed(paid_at: int | None, now: int, every: int, burst: int) -> int:
    owed = 0 if paid_at is None else max(0, paid_at - now)
    # More than a burst is never owed at this rate: it is of a slower one before, or the clock was put back.
    return 0 if owed > 2 * burst * every else owed
