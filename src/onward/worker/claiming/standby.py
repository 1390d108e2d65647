"""Leaves a queue to another worker that drains it as fast as the database bears.

Two that write to a SQLite file in turns make each other read again what the other has written: together they
are slower than one of them alone.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from onward.stores.sqlite.drains import SqliteDrains
from onward.worker.claiming.throughput import Pace

# The other may hold back jobs that we would run: they wait no longer.
_LONGEST_SECONDS = 1.0
_LOOK_SECONDS = 0.02
# The share of time without a job to run was 0.76 with jobs that do nothing, 0.47 with jobs of 5 µs, where
# two workers are as fast as one, and 0.11 with jobs of 20 µs, where they are a quarter faster.
_MOSTLY = 0.5
# Who waits for another's turn rests too, but not three times in a row.
_TIMES = 3
# Longer than a claim takes, also while the log is folded back; for so long the others wait for who has died.
_SURE_SECONDS = 0.2
# Before it is known what the jobs are like: two that begin together would hold each other up until it is.
_UNSURE_SECONDS = 0.05
_ANEW_SECONDS = 1.0


class Standby:
    """Says when this worker drains a queue, and tells which queues another one does.

    Without `drains`, as on PostgreSQL, where two are faster than one, nobody stands by.
    """

    def __init__(self, drains: SqliteDrains | None, pace: Pace) -> None:
        self._drains, self._pace = drains, pace
        self._since: dict[str, float] = {}
        self._claimed_at, self._rest = float("-inf"), 0.0
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
        # Who still has jobs waited for none of these.
        if self._drains is None or not self._pace.resting:
            return
        rest = self._pace.rest(now)
        passed = now - self._claimed_at
        if passed > _ANEW_SECONDS:
            self._rests.clear()
        else:
            self._rests.append((rest - self._rest) / max(passed, 1e-6))
        self._claimed_at, self._rest = now, rest
        if min(self._rests, default=1.0) > _MOSTLY and not self._drains.another(queue, now):
            self._drains.say(queue, now + (_SURE_SECONDS if len(self._rests) == _TIMES else _UNSURE_SECONDS))

    def close(self) -> None:
        """Let go of what other workers say."""
        if self._drains is not None:
            self._drains.close()
