"""Cron expressions: the local times that an expression matches, without regard to time zones.

An expression has five fields (minute, hour, day of month, month, day of week), or six with the second first,
or is an alias such as `@daily`. As in Debian's cron, a day must match both day fields if one of them begins
with `*`, else at least one of them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import Any

from cronsim import CronSim, CronSimError
from cronsim.cronsim import Field

from onward.errors import InvalidSetting

_ALIASES = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}
_LONGEST = 200
_FIELDS = {
    "second": "0 to 59",
    "minute": "0 to 59",
    "hour": "0 to 23",
    "day of month": "1 to 31, L (the last) or LW (the last weekday)",
    "month": "1 to 12, or JAN to DEC",
    "day of week": "0 to 7 (0 and 7 are Sunday), SUN to SAT, 1#2 (the second Monday) or 5L (the last Friday)",
}
_BACKWARDS = re.compile(r"\w+-\w+(/\d+)?")
_EVERY_HOUR = frozenset(range(24))
# Any expression that can fire does so within the 50 years that cronsim looks ahead: a leap day on a given
# weekday comes after 40 years at most.
_ANY_TIME = datetime(2000, 1, 1)  # noqa: DTZ001 - local time of no zone


@dataclass(frozen=True, slots=True)
class Cron:
    """A checked expression: `text` is for display, `fields` is the form that cronsim reads."""

    text: str
    fields: str
    every_hour: bool

    @classmethod
    def of(cls, text: Any) -> Cron:
        """Read an expression; raise InvalidSetting, which names the wrong field and its valid values."""
        return _read(_one_line(text))

    def after(self, local: datetime) -> datetime:
        """Return the first matching local time after `local`; neither has a time zone."""
        return next(CronSim(self.fields, local))

    def in_words(self) -> str:
        """Return the expression in English: "At 02:00 every day"."""
        return CronSim(self.fields, _ANY_TIME).explain()


@lru_cache(maxsize=1000)
def _read(shown: str) -> Cron:
    fields = _ALIASES.get(shown, shown)
    if fields.startswith("@"):
        raise InvalidSetting(f"cron is {shown!r:.80}; {_instead_of(shown)}")
    parts = fields.upper().split(" ")
    if len(parts) not in (5, 6):
        raise InvalidSetting(
            f"cron is {shown!r:.80}, {len(parts)} fields; give five (minute hour day month weekday), "
            "such as '0 2 * * *', or six with the second first"
        )
    hours = [_values(shown, name, part) for name, part in zip(_names(parts), parts, strict=True)][-4]
    if not _fires(fields):
        raise InvalidSetting(
            f"cron is {shown!r:.80}, which never fires: no date has such a day, month and weekday; "
            "for the end of a month give L as its day"
        )
    return Cron(shown, fields, every_hour=hours == _EVERY_HOUR)


def _fires(fields: str) -> bool:
    try:
        return next(CronSim(fields, _ANY_TIME), None) is not None
    except CronSimError:
        # Each field is valid by itself, so no month has such a day.
        return False


def _one_line(text: Any) -> str:
    if not isinstance(text, str) or not text.strip():
        raise InvalidSetting(f"cron is {text!r:.80}; give an expression such as '0 2 * * *' or '@daily'")
    if len(text) > _LONGEST or not text.isascii():
        raise InvalidSetting(f"cron is {text!r:.80}; give at most {_LONGEST} characters, all of ASCII")
    shown = " ".join(text.split())
    return shown.lower() if shown.startswith("@") else shown


def _names(parts: list[str]) -> list[str]:
    return list(_FIELDS)[-len(parts) :]


def _values(shown: str, name: str, part: str) -> frozenset[Any]:
    """Return the values of one field; read by itself, so that the error can name the field."""
    try:
        return frozenset(Field(list(_FIELDS).index(name)).parse(part))
    except (CronSimError, AssertionError):
        turned = "; a range goes from the lower to the higher" if _BACKWARDS.fullmatch(part) else ""
        turned = "; for any value write * instead of ?" if "?" in part else turned
        raise InvalidSetting(
            f"cron is {shown!r:.80}, whose {name} is {part!r:.40}; give {_FIELDS[name]}, "
            f"a list (1,5), a range (1-5), a step (*/5) or *{turned}"
        ) from None


def _instead_of(alias: str) -> str:
    if alias == "@reboot":
        return "for something to run when a worker starts, see @app.on_start"
    if alias.startswith("@every"):
        return "for a steady interval give every='5m' instead of cron="
    return f"give one of {', '.join(_ALIASES)}, or five fields such as '0 2 * * *'"
