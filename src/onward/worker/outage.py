"""Handles the loss of the database.

The worker logs one line when the database goes and one when it is back; its pauses grow in between.
"""

from __future__ import annotations

import random
import threading
import time

from onward.logs import get_logger

log = get_logger("onward.worker")

_FIRST_PAUSE = 0.05
# A server that restarts is found within half a second. After a minute without it, retries get rarer.
_SHORT, _LONG, _LONG_AFTER = 0.4, 5.0, 60.0
_SETTLING = 2.0


class Outage:
    """What all loops and threads of a worker know about the loss of their database.

    Each reports its own failures and successes. The outage is over when each that failed has succeeded again.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._failures: dict[str, int] = {}
        self._since = self._over_at = float("-inf")
        self._logged = False

    def pause(self, source: str, error: Exception) -> float:
        """Record a failure; return the seconds to wait before the next try."""
        now = time.monotonic()
        with self._lock:
            if not self._failures:
                self._since = now
            failures = self._failures[source] = self._failures.get(source, 0) + 1
            # A single failure just after the return comes from an old connection of the same outage.
            is_news = not self._logged and (failures > 1 or now - self._over_at > _SETTLING)
            self._logged = self._logged or is_news
        if is_news:
            text = " ".join(str(error).split())
            log.warning("database trouble, trying again until it is over: %s: %s", type(error).__name__, text)
        longest = _LONG if now - self._since > _LONG_AFTER else _SHORT
        return min(longest, _FIRST_PAUSE * 2.0 ** min(failures - 1, 10)) * random.uniform(0.5, 1.0)  # noqa: S311

    def over(self, source: str) -> None:
        """Record a success."""
        if not self._failures:
            return
        with self._lock:
            if self._failures.pop(source, None) is None or self._failures:
                return
            logged, self._logged = self._logged, False
            self._over_at = time.monotonic()
        if logged:
            log.warning("database is back after %.1f s", self._over_at - self._since)

    @property
    def lasts(self) -> bool:
        """Whether a loop or thread has failed and not succeeded since."""
        return bool(self._failures)
