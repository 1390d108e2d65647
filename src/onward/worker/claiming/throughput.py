"""How fast jobs end here while there are any, and so how many are worth claiming ahead."""

from __future__ import annotations

from collections.abc import Mapping

from onward.sql.catalogue import Database

AT_ONCE: Mapping[Database, int] = {"postgres": 500, "sqlite": 1000}
"""How many jobs one statement claims or ends at most; SQLite has one that writes, which syncs after each."""

_WINDOW = 0.02
_FIRST_WINDOW = 0.002
_FEW = 10
_FIRST_RATE = 1000.0
_AHEAD_SECONDS = 0.1
_HELD_SECONDS = 2.0
_MOST_AHEAD = 2000


class Pace:
    """A moving rate; every time is the caller's monotonic clock.

    Claimed ahead is a tenth of a second's work: enough to hide a claim's round trip, and too little to make
    an urgent job wait behind it, or to strand much with a worker that dies. Time at rest does not count: a
    worker that waits for its next claim is not slow.
    """

    def __init__(self, now: float, slots: int) -> None:
        self._slots = slots
        self._since = self._rested_at = self._ended_at = now
        self._resting = True
        self._count = 0
        self._rate = 0.0

    def began(self, now: float) -> None:
        """Note that there is something to run."""
        if self._resting:
            rest = now - self._rested_at
            self._since += rest
            self._ended_at += rest
            self._resting = False

    def rested(self, now: float) -> None:
        """Note that nothing runs or waits any more."""
        if not self._resting:
            self._rested_at, self._resting = now, True
            if self._count >= _FEW:
                self._guess(now)

    def ended(self, now: float, count: int = 1) -> None:
        """Count jobs that ended."""
        if now - self._ended_at > _WINDOW:
            # Slow ones end. What the rate fell to it stays, and quick ones before them say nothing about it:
            # else as many as ever would be claimed after each of them.
            self._rate = self.rate(now)
            self._count = min(self._count, self._slots)
        self._count += count
        self._ended_at = now
        if now - self._since >= (_WINDOW if self._rate else _FIRST_WINDOW):
            self._guess(now)

    def _guess(self, now: float) -> None:
        rate = self._count / max(now - self._since, 1e-6)
        # The first few may be unlike the others: a guess from them is trusted for a small claim.
        self._rate = (self._rate + rate) / 2 if self._rate else min(rate, _FIRST_RATE)
        self._since, self._count = now, 0

    def rate(self, now: float) -> float:
        """Give jobs a second; while something runs and nothing ends it falls as time goes by."""
        still = (self._rested_at if self._resting else now) - self._ended_at
        return min(self._rate, self._slots / still) if still > _WINDOW else self._rate

    def ahead(self, now: float) -> int:
        """Tell how many jobs to hold beyond those that run."""
        return min(_MOST_AHEAD, int(self.rate(now) * _AHEAD_SECONDS))

    def most(self, now: float) -> int:
        """Tell how many jobs beyond those that run are too many to keep from other workers."""
        return int(self.rate(now) * _HELD_SECONDS)
