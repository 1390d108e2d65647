"""Leaves a queue to another worker that drains it as fast as the database bears.

Two that write to a SQLite file in turns make each other read again what the other has written: together they
are slower than one of them alone.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from onward.stores.sqlite_drains import SqliteDrains
from onward.worker.pace import Pace

__all__ = ["Standby"]

# The other may hold back jobs that we would run: they wait no longer.
_LONGEST_SECONDS = 1.0
_LOOK_SECONDS = 0.02
# The share of time without a job to run was 0.76 with jobs that do nothing, 0.47 with jobs of 5 µs, where
# two workers are as fast as one, and 0.11 with jobs of 20 µs, where they are a quarter faster.
_MOSTLY = 0.6
# Who waits for another's turn rests too, but not three times in a row.
_TIMES = 3


class Standby:
    """Says when this worker drains a queue, and tells which queues another one does.

    Without `drains`, as on PostgreSQL, where two are faster than one, nobody stands by.
    """

    def __init__(self, drains: SqliteDrains | None, pace: Pace) -> None:
        self._drains, self._pace = drains, pace
        self._since: dict[str, float] = {}
        self._claimed_at = self._rest = 0.0
        self._rests = deque[float](maxlen=_TIMES)

    @property
    def seconds(self) -> float | None:
        """Tell when to look again, if any queue is left to another."""
        return _LOOK_SECONDS if self._since else None

    def left(self, queues: Iterable[str], now: float) -> set[str]:
        """Tell which of these queues to leave to another worker for now."""
        if self._drains is None:
            return set()
        since = {queue: self._since.get(queue, now) for queue in queues if self._drains.another(queue, now)}
        # Who has waited for long has its turn, and stands by anew.
        self._since = {queue: at for queue, at in since.items() if now - at < _LONGEST_SECONDS}
        return set(self._since)

    def claimed(self, queue: str, now: float) -> None:
        """Note that a claim brought as much as one can: who mostly waits for such claims drains the queue."""
        if self._drains is None:
            return
        rest = self._pace.rest(now)
        self._rests.append((rest - self._rest) / max(now - self._claimed_at, 1e-6))
        self._claimed_at, self._rest = now, rest
        if len(self._rests) == _TIMES and min(self._rests) > _MOSTLY:
            self._drains.say(queue, now)

    def close(self) -> None:
        """Let go of what other workers say."""
        if self._drains is not None:
            self._drains.close()
