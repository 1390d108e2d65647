"""Read lengths of time and instants as users write them on the command line."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING

import click

from onward.errors import InvalidSetting

if TYPE_CHECKING:
    from onward.core.inputs.duration import Duration


def read_length(name: str, text: str) -> timedelta:
    """Read a length of time: 90s, 10m, 1h30m, 7d, or a number of seconds."""
    from onward.core.inputs.duration import duration

    number = text.replace(".", "", 1)
    value: Duration = float(text) if number.isascii() and number.isdecimal() else text
    try:
        return duration(name, value)
    except InvalidSetting:
        sign = "; it can't be negative" if text.startswith("-") else ""
        raise InvalidSetting(
            f"{name} is {text!r:.80}; give a length of time such as 90s, 10m, 1h30m or 7d{sign}"
        ) from None


def to_length(ctx: click.Context, param: click.Parameter, text: str) -> timedelta:
    """Read the value of an option that is a length of time."""
    del ctx
    return read_length(f"--{param.name}", text)


def read_instant(name: str, text: str) -> datetime:
    """Read an instant such as 2026-01-31T18:00+01:00; without an offset it is local time."""
    try:
        return datetime.fromisoformat(text).astimezone()
    except (ValueError, OverflowError):
        raise InvalidSetting(f"{name} is {text!r:.80}; give a time such as 2026-01-31T18:00+01:00") from None
