"""Checks of the arguments that callers pass.

Every error names the argument, its value, and what to pass instead.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from onward.core.inputs.duration import duration, written
from onward.errors import InvalidSetting, OnwardError

_LONGEST = timedelta(days=36_525)
# A database's float of seconds is exact to the microsecond only until 2242. The end lies before that, and
# after now plus the longest delay of 100 years.
_FIRST, _END = datetime(1970, 1, 1, tzinfo=UTC), datetime(2150, 1, 1, tzinfo=UTC)


def whole_number(
    name: str, value: Any, lowest: int, highest: int, *, error: type[OnwardError] = InvalidSetting
) -> int:
    """Return `value` if it is a whole number from `lowest` to `highest`; raise `error` otherwise."""
    if type(value) is not int or not lowest <= value <= highest:
        raise error(f"{name} is {value!r:.80}; give a whole number from {lowest} to {highest}")
    return value


def span(
    name: str, value: Any, *, least: timedelta = timedelta(), error: type[OnwardError] = InvalidSetting
) -> timedelta:
    """Return `value` if it is a timedelta from `least` to 100 years; raise `error` otherwise."""
    if not isinstance(value, timedelta):
        raise error(f"{name} is {value!r:.80}; give a timedelta, such as timedelta(seconds=90)")
    if not least <= value <= _LONGEST:
        raise error(f"{name} is {written(value)}; give from {written(least)} to 100 years")
    return value


def not_negative(name: str, value: Any, *, error: type[OnwardError] = InvalidSetting) -> timedelta:
    """Return a duration as a timedelta; raise `error` if it is negative or can't be read."""
    return span(name, duration(name, value, error=error), error=error)


def positive(name: str, value: Any) -> timedelta:
    """Return a duration as a timedelta; raise InvalidSetting if it is zero, negative or can't be read."""
    span = duration(name, value)
    if span <= timedelta():
        raise InvalidSetting(f"{name} is {written(span)}; give a positive duration")
    return span


def zoned(name: str, value: Any, *, error: type[OnwardError] = InvalidSetting) -> datetime:
    """Return `value` if it is a datetime with a time zone, from 1970 to 2149; raise `error` otherwise.

    Without a time zone, the instant would be ambiguous.
    """
    if not isinstance(value, datetime) or value.tzinfo is None:
        raise error(f"{name} is {value!r:.80}; give a datetime with a time zone, such as datetime.now(UTC)")
    if not _FIRST <= value < _END:
        raise error(f"{name} is {value!r:.80}; give a time from the year {_FIRST.year} to {_END.year - 1}")
    return value


def check_kind(name: str, value: object, kind: Any, advice: str) -> None:
    """Raise InvalidSetting if the value is not an instance of `kind`."""
    if not isinstance(value, kind):
        raise InvalidSetting(f"{name} is {value!r:.80}; {advice}")


def check_takes_one(name: str, function: Callable[..., object], what: str) -> None:
    """Raise InvalidSetting if the function can't be called with exactly one argument."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        # Some functions written in C have no readable signature.
        return
    try:
        signature.bind(None)
    except TypeError:
        raise InvalidSetting(
            f"{name} is called with {what} alone, but takes {signature}; give a function of one argument"
        ) from None
