"""Lengths of time as people write them: `timedelta`, seconds, or text such as "90s", "10m", "1h30m", "7d"."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

from onward.errors import InvalidSetting, OnwardError

__all__ = ["Duration", "duration"]

Duration = timedelta | float | str

_UNITS = {"ms": "milliseconds", "s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_TERM = re.compile(r"(\d+(?:\.\d+)?)(ms|[smhdw])")
_TEXT = re.compile(rf"(?:{_TERM.pattern})+", re.ASCII)


def duration(name: str, value: Any, *, error: type[OnwardError] = InvalidSetting) -> timedelta:
    """Take a length of time; raises an error that names the argument."""
    try:
        match value:
            case timedelta():
                return value
            case bool():
                pass
            case int() | float():
                return timedelta(seconds=value)
            case str() if _TEXT.fullmatch(value):
                terms = [timedelta(**{_UNITS[unit]: float(number)}) for number, unit in _TERM.findall(value)]
                return sum(terms, timedelta())
    except (OverflowError, ValueError):
        pass
    raise error(f"{name} is {value!r:.80}; give a timedelta, seconds, or a text such as '90s', '10m' or '7d'")
