"""Rates as callers write them: a number per second, or text such as "10/s", "90/m" or "100/15m"."""

from __future__ import annotations

import math
import re
from datetime import timedelta
from typing import Any

from onward.errors import InvalidSetting

Rate = float | str

_SECONDS = {"s": 1, "m": 60, "h": 3600}
_TEXT = re.compile(
    r"(\d{1,9}(?:\.\d{1,9})?)(?:/([1-9]\d{0,3})?(s|sec|second|m|min|minute|h|hour))?", re.ASCII
)
_MICROS = 1_000_000
_LONGEST = timedelta(days=1)


def interval(name: str, rate: Any) -> timedelta:
    """Return the time between two starts at a rate; raise InvalidSetting, which names the argument."""
    if isinstance(rate, str) and (found := _TEXT.fullmatch(rate)):
        number, seconds = float(found[1]), int(found[2] or 1) * _SECONDS[(found[3] or "s")[0]]
    else:
        number, seconds = rate, 1
    if (
        isinstance(number, int | float)
        and not isinstance(number, bool)
        and math.isfinite(number)
        and number > 0
    ):
        micros = min(seconds * _MICROS / number, 2 * _LONGEST.total_seconds() * _MICROS)
        # Rounded up, so that a period never has more starts than the rate allows.
        every = timedelta(microseconds=math.ceil(micros))
        if every <= _LONGEST:
            return every
    raise InvalidSetting(
        f"{name} is {rate!r:.80}; give a number a second, or a text such as '10/s' or '90/m'"
    )
