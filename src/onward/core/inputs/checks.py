"""Checks of what callers hand in; each names the argument, its value, and what to give instead."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from onward.errors import InvalidSetting, OnwardError

_LONGEST = timedelta(days=36_525)
# After 2242 a database's float of seconds is not exact to the microsecond; a delay of 100 years stays before.
_FIRST, _END = datetime(1970, 1, 1, tzinfo=UTC), datetime(2150, 1, 1, tzinfo=UTC)


def whole(
    name: str, value: Any, lowest: int, highest: int, *, error: type[OnwardError] = InvalidSetting
) -> int:
    """Take a whole number within bounds."""
    if type(value) is not int or not lowest <= value <= highest:
        raise error(f"{name} is {value!r:.80}; give a whole number from {lowest} to {highest}")
    return value


def span(
    name: str, value: Any, *, least: timedelta = timedelta(), error: type[OnwardError] = InvalidSetting
) -> timedelta:
    """Take a length of time."""
    if not isinstance(value, timedelta) or not least <= value <= _LONGEST:
        raise error(f"{name} is {value!r:.80}; give a timedelta from {least} to 100 years")
    return value


def zoned(name: str, value: Any, *, error: type[OnwardError] = InvalidSetting) -> datetime:
    """Take an instant, which without a time zone would be anyone's guess."""
    if not isinstance(value, datetime) or value.tzinfo is None:
        raise error(f"{name} is {value!r:.80}; give a datetime with a time zone, such as datetime.now(UTC)")
    if not _FIRST <= value < _END:
        raise error(f"{name} is {value!r:.80}; give a time from the year {_FIRST.year} to {_END.year - 1}")
    return value


def check_kind(name: str, value: object, kind: Any, advice: str) -> None:
    """Refuse a value of another class than the one that is asked for."""
    if not isinstance(value, kind):
        raise InvalidSetting(f"{name} is {value!r:.80}; {advice}")


def check_takes_one(name: str, function: Callable[..., object], what: str) -> None:
    """Refuse a function that can't be called with one argument."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        # Some of those in C tell nothing of themselves.
        return
    try:
        signature.bind(None)
    except TypeError:
        raise InvalidSetting(
            f"{name} is called with {what} alone, but takes {signature}; give a function of one argument"
        ) from None
