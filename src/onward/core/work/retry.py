"""The time that a job waits after a failure or a crash.

The delay after failure n is `min(cap, base * factor ** (n - 1 + first_exponent))`. With jitter the wait is
drawn uniformly between half of the delay and the whole delay, so that it never exceeds the cap.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import timedelta
from typing import Literal, cast

from onward.core.inputs.duration import Duration, duration, written
from onward.errors import InvalidSetting

LONGEST_DELAY = timedelta(days=365)
"""The upper bound of every delay, also for a policy without a cap."""

_NONE = timedelta()


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """When a job runs again, and how many attempts it has; `max_attempts` counts the first one too.

    Durations may be texts, such as "5s"; they are kept as timedeltas. A job is dead after `poison_after`
    failures in a row that are of one kind and that no rule classifies. It is dead, too, after
    `max_rate_limit_waits` waits for a provider's rate limit that burnt no attempt.
    """

    kind: Literal["fixed", "exponential"]
    base: Duration
    factor: float = 2
    first_exponent: Literal[0, 1] = 0
    cap: Duration | None = None
    jitter: bool = True
    max_attempts: int = 5
    crash_delay: Duration | None = None
    poison_after: int | None = None
    max_rate_limit_waits: int = 100

    def __post_init__(self) -> None:
        """Raise InvalidSetting, which names the field, for an invalid value."""
        _require(self.kind in ("fixed", "exponential"), "kind", self.kind, "'fixed' or 'exponential'")
        for name in ("base", "cap", "crash_delay"):
            value = getattr(self, name)
            if value is None and name != "base":
                continue
            span = duration(f"retry policy: {name}", value)
            _require(_NONE <= span <= LONGEST_DELAY, name, value, "a duration from 0 to 365 days")
            object.__setattr__(self, name, span)
        _require(math.isfinite(self.factor) and self.factor >= 1, "factor", self.factor, "1 or more")
        _require(self.first_exponent in (0, 1), "first_exponent", self.first_exponent, "0 or 1")
        _require(
            isinstance(self.max_attempts, int) and self.max_attempts >= 1,
            "max_attempts",
            self.max_attempts,
            "a whole number from 1: it counts executions",
        )
        _require(
            type(self.max_rate_limit_waits) is int and self.max_rate_limit_waits >= 0,
            "max_rate_limit_waits",
            self.max_rate_limit_waits,
            "a whole number from 0: it counts waits that burn no attempt",
        )
        _require(
            self.poison_after is None or (type(self.poison_after) is int and self.poison_after >= 1),
            "poison_after",
            self.poison_after,
            "a whole number from 1, or None: it counts failures of one kind in a row",
        )

    def delay(self, failure: int) -> timedelta:
        """Return the delay after the n-th failure, before jitter; an n below 1 counts as 1."""
        base = cast("timedelta", self.base)
        cap = LONGEST_DELAY if self.cap is None else cast("timedelta", self.cap)
        if self.kind == "fixed" or not base:
            return min(cap, base)
        try:
            # Computed in floats, which overflow: a power of whole numbers would grow without bound.
            growth = float(self.factor) ** (max(failure, 1) - 1 + self.first_exponent)
        except OverflowError:
            return cap
        return timedelta(seconds=min(cap.total_seconds(), base.total_seconds() * growth))

    def wait(self, failure: int, dice: float) -> timedelta:
        """Return the wait after the n-th failure; `dice` is drawn uniformly from [0, 1)."""
        delay = self.delay(failure)
        return delay * (0.5 + dice / 2) if self.jitter else delay

    def delay_after_crash(self, crashes: int, failure: int, dice: float) -> timedelta:
        """Return the wait after a crash: none after the first, then the back-off; at least `crash_delay`."""
        least = cast("timedelta", self.crash_delay or _NONE)
        return least if crashes <= 1 else max(least, self.wait(failure, dice))


def _require(holds: bool, name: str, value: object, wanted: str) -> None:
    if not holds:
        raise InvalidSetting(f"retry policy: {name} is {written(value)}; give {wanted}")
