"""How fast jobs end here, and so how many are worth claiming ahead."""

from __future__ import annotations

__all__ = ["Pace"]

_WINDOW = 0.02
_FIRST_WINDOW = 0.002
_AHEAD_SECONDS = 0.1
_HELD_SECONDS = 2.0
_MOST_AHEAD = 2000


class Pace:
    """A moving rate; every time is the caller's monotonic clock.

    Claimed ahead is a tenth of a second's work: enough to hide a claim's round trip, and too little to make
    an urgent job wait behind it, or to strand much with a worker that dies.
    """

    def __init__(self, now: float) -> None:
        self._since = now
        self._count = 0
        self._rate = 0.0

    def ended(self, now: float, count: int = 1) -> None:
        """Count jobs that ended."""
        self._count += count
        elapsed = now - self._since
        if elapsed >= (_WINDOW if self._rate else _FIRST_WINDOW):
            # The first guess comes soon and counts in full: until then jobs are claimed by the slot.
            self._rate = (self._rate + self._count / elapsed) / 2 if self._rate else self._count / elapsed
            self._since, self._count = now, 0

    def rate(self, now: float) -> float:
        """Give jobs a second; without any end it falls as time goes by."""
        elapsed = now - self._since
        return min(self._rate, (self._count + 1) / elapsed) if elapsed > _WINDOW else self._rate

    def ahead(self, now: float) -> int:
        """Tell how many jobs to hold beyond those that run."""
        return min(_MOST_AHEAD, int(self.rate(now) * _AHEAD_SECONDS))

    def most(self, now: float) -> int:
        """Tell how many jobs beyond those that run are too many to keep from other workers."""
        return int(self.rate(now) * _HELD_SECONDS)
