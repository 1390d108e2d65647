"""Durations as callers write them: a `timedelta`, seconds, or text such as "90s", "5 minutes", "1h30m"."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Annotated, Any

from onward.core.inputs.wire_form import Form
from onward.errors import InvalidSetting, OnwardError

Duration = Annotated[timedelta | float | str, Form(float | str)]
"""A duration as callers give it; outside of Python, seconds or text."""

_SECONDS = 60
_MINUTES = 60 * 60
_HOURS = 48 * 60 * 60
_UNITS = {"ms": "milliseconds", "s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_LENGTHS = {"d": timedelta(days=1), "h": timedelta(hours=1), "m": timedelta(minutes=1)}
_UNIT = r"ms|s(?:ec(?:ond)?s?)?|m(?:in(?:ute)?s?)?|h(?:ours?)?|d(?:ays?)?|w(?:eeks?)?"
_TERM = re.compile(rf"(\d+(?:\.\d+)?) ?({_UNIT})")
_TEXT = re.compile(rf"{_TERM.pattern}(?: ?{_TERM.pattern})*", re.ASCII)


def duration(name: str, value: Any, *, error: type[OnwardError] = InvalidSetting) -> timedelta:
    """Return a duration as a timedelta; raise `error`, which names the argument, if it can't be read."""
    try:
        match value:
            case timedelta():
                return value
            case bool():
                pass
            case int() | float():
                return timedelta(seconds=value)
            case str() if _TEXT.fullmatch(value):
                return sum((_length(*term) for term in _TERM.findall(value)), timedelta())
    except (OverflowError, ValueError):
        pass
    negative = isinstance(value, str) and value[:1] == "-" and _TEXT.fullmatch(value[1:])
    raise error(
        f"{name} is {value!r:.80}{', which is negative' if negative else ''}; "
        "give a timedelta, seconds, or a text such as '90s', '10m' or '7d'"
    )


def written(value: Any) -> str:
    """Return a duration as people write it, such as "90s", "1h30m" or "-1s"; the repr of any other value."""
    if not isinstance(value, timedelta):
        return f"{value!r:.80}"
    rest, parts = abs(value), ""
    for unit, length in _LENGTHS.items():
        count, rest = divmod(rest, length)
        parts += f"{count}{unit}" if count else ""
    seconds = rest.total_seconds()
    parts += f"{seconds:.6f}".rstrip("0").rstrip(".") + "s" if seconds or not parts else ""
    return f"-{parts}" if value < timedelta() else parts


def lasting(length: timedelta) -> str:
    """Return a length of time in a short form: 184 ms, 5s, 7m 30s, 7h 41m, 3d."""
    seconds = length.total_seconds()
    rounded = round(seconds)
    if seconds < 1:
        return f"{round(seconds * 1000)} ms"
    if rounded < _SECONDS:
        return f"{round(seconds, 1):g}s"
    if rounded < _MINUTES:
        return f"{rounded // 60}m" + (f" {rounded % 60}s" if rounded % 60 else "")
    if rounded < _HOURS:
        return f"{rounded // 3600}h" + (f" {rounded % 3600 // 60}m" if rounded % 3600 // 60 else "")
    return f"{rounded // 86400}d"


def _length(number: str, unit: str) -> timedelta:
    return timedelta(**{_UNITS["ms" if unit == "ms" else unit[0]]: float(number)})
