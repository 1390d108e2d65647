"""How many a second, as people write it: a number, or text such as "10/s", "90/m" or "500/h"."""

from __future__ import annotations

import math
import re
from datetime import timedelta
from typing import Any

from onward.errors import InvalidSetting

__all__ = ["Rate", "interval"]

Rate = float | str

_SECONDS = {"s": 1, "m": 60, "h": 3600}
_TEXT = re.compile(r"(\d{1,9}(?:\.\d{1,9})?)(?:/(s|sec|second|m|min|minute|h|hour))?", re.ASCII)
_LONGEST = timedelta(days=1)


def interval(name: str, rate: Any) -> timedelta:
    """Give the time from one to the next; raises InvalidSetting, naming the argument."""
    if isinstance(rate, str) and (found := _TEXT.fullmatch(rate)):
        number, seconds = float(found[1]), _SECONDS[(found[2] or "s")[0]]
    else:
        number, seconds = rate, 1
    if (
        isinstance(number, int | float)
        and not isinstance(number, bool)
        and math.isfinite(number)
        and number > 0
    ):
        every = timedelta(seconds=min(seconds / number, 2 * _LONGEST.total_seconds()))
        if every <= _LONGEST:
            return every
    raise InvalidSetting(
        f"{name} is {rate!r:.80}; give a number a second, or a text such as '10/s' or '90/m'"
    )
