"""Bounds: how many jobs run at once, how fast they start, and how many of them start at once.

Limits and queues have the same bounds.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from onward.core.inputs.checks import whole_number
from onward.core.inputs.rate import Rate, interval
from onward.core.inputs.wire_form import Form
from onward.errors import InvalidSetting

_MOST = 1_000_000
_MICROSECOND = timedelta(microseconds=1)
# The default burst is what the rate earns in this time, in which jobs are admitted and claimed.
_BURST_MICROS = 100_000
_NONE = "none"

Concurrency = Annotated[int, Meta(ge=1, le=_MOST)]
"""How many jobs run at once."""

Burst = Annotated[int, Meta(ge=1, le=_MOST)]
"""How many jobs start at once after a rest."""

Bound = Concurrency | Literal["none"]
RateBound = Annotated[Rate | Literal["none"], Form(Rate)]
"""The bounds that an operator sets; "none" lifts the bound that the application declares."""


class Bounds(msgspec.Struct, frozen=True, kw_only=True):
    """How many jobs run at once, how fast they start, and how many of them start at once."""

    concurrency: int | None = None
    rate: Rate | None = None
    burst: int | None = None

    @property
    def every(self) -> int | None:
        """The microseconds from one start to the next; None if there is no rate."""
        return None if self.rate is None else interval("rate", self.rate) // _MICROSECOND

    @property
    def at_once(self) -> int:
        """How many jobs may start at once after a rest: the burst, or what the rate earns in 100 ms."""
        return self.burst or max(1, _BURST_MICROS // (self.every or _BURST_MICROS))


def checked_bounds(concurrency: Any, rate: Any, burst: Any, *, lift: bool = False) -> dict[str, Any]:
    """Return the bounds that are set; raise InvalidSetting for an invalid one.

    With `lift`, "none" stands for a bound that is lifted, and is returned as None.
    """
    bounds: dict[str, Any] = {}
    if concurrency is not None:
        lifted = lift and concurrency == _NONE
        bounds["concurrency"] = None if lifted else whole_number("concurrency", concurrency, 1, _MOST)
    if rate is not None:
        lifted = lift and rate == _NONE
        bounds["rate"] = None if lifted else rate
        if not lifted:
            interval("rate", rate)
    if burst is not None:
        bounds["burst"] = whole_number("burst", burst, 1, _MOST)
    return bounds


def require_rate(rate: Any, burst: Any) -> None:
    """Raise InvalidSetting for a burst without a rate."""
    if burst is not None and rate is None:
        raise InvalidSetting("burst is how many jobs a rate starts at once; give rate= too")
