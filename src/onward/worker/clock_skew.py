"""Compares this machine's clock with the database's.

The database's clock decides when jobs are due and when leases end.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime

from onward.logs import get_logger

log = get_logger("onward.worker")

_TOLERATED = 60.0
_SILENCE = 3600.0


class Skew:
    """Logs a warning when the two clocks are more than a minute apart, at most once an hour."""

    def __init__(self) -> None:
        self._logged_at: float | None = None

    def compare(self, by_the_database: datetime) -> None:
        """Compare the clocks; the network's delay is far below the tolerated difference."""
        ahead = (datetime.now(UTC) - by_the_database).total_seconds()
        if abs(ahead) <= _TOLERATED:
            return
        now = time.monotonic()
        if self._logged_at is None or now - self._logged_at > _SILENCE:
            self._logged_at = now
            log.warning(
                "this machine's clock is %.0f s %s the database's, which decides when jobs are due and when "
                "leases end; set it right: times in these logs are off by as much",
                abs(ahead),
                "ahead of" if ahead > 0 else "behind",
            )
