"""Measures how fast jobs end in this worker, and so how many to claim ahead.

Only time in which the worker has jobs counts.
"""

from __future__ import annotations

from collections.abc import Mapping

from onward.sql.catalogue import Database

AT_ONCE: Mapping[Database, int] = {"postgres": 500, "sqlite": 1000}
"""The most jobs that one statement claims or ends; more on SQLite, whose only writer syncs each time."""

_WINDOW = 0.02
_FIRST_WINDOW = 0.002
_FEW = 10
_FIRST_RATE = 1000.0
_AHEAD_SECONDS = 0.1
_HELD_SECONDS = 2.0
_MOST_AHEAD = 2000


class Pace:
    """A moving rate; every time is from the caller's monotonic clock.

    The worker claims a tenth of a second's work ahead. That hides the round trip of a claim, but is too
    little to delay an urgent job, or to strand many jobs with a worker that dies. Time at rest does not
    count: a worker that waits for its next claim is not slow.
    """

    def __init__(self, now: float, slots: int) -> None:
        self._slots = slots
        self._since = self._rested_at = self._ended_at = now
        self._resting = True
        self._count = 0
        self._rate = 0.0

    def began(self, now: float) -> None:
        """Record that there are jobs to run."""
        if self._resting:
            rest = now - self._rested_at
            self._since += rest
            self._ended_at += rest
            self._resting = False

    def rested(self, now: float) -> None:
        """Record that no job runs or waits any more."""
        if not self._resting:
            self._rested_at, self._resting = now, True
            if self._count >= _FEW:
                self._guess(now)

    def ended(self, now: float, count: int = 1) -> None:
        """Count jobs that ended."""
        if now - self._ended_at > _WINDOW:
            # A slow job ends: keep the rate that it fell to, and count few of the quick jobs before it. Else
            # each slow job would be followed by as large a claim as ever.
            self._rate = self.rate(now)
            self._count = min(self._count, self._slots)
        self._count += count
        self._ended_at = now
        if now - self._since >= (_WINDOW if self._rate else _FIRST_WINDOW):
            self._guess(now)

    def _guess(self, now: float) -> None:
        rate = self._count / max(now - self._since, 1e-6)
        # The first jobs may be unlike the others, so the first rate is bounded and allows a small claim only.
        self._rate = (self._rate + rate) / 2 if self._rate else min(rate, _FIRST_RATE)
        self._since, self._count = now, 0

    def rate(self, now: float) -> float:
        """Return the jobs per second; it falls with time while jobs run and none ends."""
        still = (self._rested_at if self._resting else now) - self._ended_at
        return min(self._rate, self._slots / still) if still > _WINDOW else self._rate

    def ahead(self, now: float) -> int:
        """Return how many jobs to hold beyond those that run."""
        return min(_MOST_AHEAD, int(self.rate(now) * _AHEAD_SECONDS))

    def most(self, now: float) -> int:
        """Return the most waiting jobs beyond those that run; the rest should go to other workers."""
        return int(self.rate(now) * _HELD_SECONDS)
