"""Conversion of a zone's local times to instants, also around clock changes.

An expression that names hours ("at 02:30", "every ten minutes from 9 to 17") follows local time. A time that
the clocks skip runs once, at the first instant after the gap. A time that they show twice runs once, at the
first of the two. An expression whose hour field is every hour follows elapsed time. Each instant at which the
clocks show a matching time is an occurrence, in both passes of a fold; a gap, in which no time passes, has
none.
"""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from functools import lru_cache
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

from onward.core.schedules.cron import Cron
from onward.errors import InvalidSetting

_SECOND = timedelta(seconds=1)
_DAY = timedelta(days=1)
# These are zones of the machine, not of a place, or they count leap seconds.
_NOT_A_PLACE = ("localtime", "posixrules", "posix/", "right/")
_OFFSET = re.compile(r"(?:UTC|GMT|Z)? ?([+-])(\d{1,2})(?::?(\d\d))?", re.IGNORECASE)
_MOST_HOURS = {"+": 14, "-": 12}


@dataclass(frozen=True, slots=True)
class Zone:
    """A time zone by its name in the IANA database, and when cron expressions fire there."""

    name: str
    info: tzinfo

    @classmethod
    def of(cls, tz: Any) -> Zone:
        """Return a zone by its name; raise InvalidSetting with the nearest names if there is none."""
        name = "UTC" if tz is None or tz is UTC else getattr(tz, "key", tz)
        return _load(name if isinstance(name, str) else repr(name))

    def next_after(self, cron: Cron, instant: datetime) -> datetime:
        """Return the first occurrence of an expression after an instant, both in UTC."""
        if self.info is UTC:
            return cron.after(instant.replace(tzinfo=None)).replace(tzinfo=UTC)
        return self._next_real(cron, instant) if cron.every_hour else self._next_named(cron, instant)

    def _next_named(self, cron: Cron, instant: datetime) -> datetime:
        shown = instant.astimezone(self.info)
        local = shown.replace(tzinfo=None, fold=0)
        if shown.fold:
            # The repeated hour has run in its first pass: continue where the clocks show new times.
            first = local.replace(tzinfo=self.info).astimezone(UTC)
            change = self._change(first, instant)
            local = _naive(change) + self._offset(first) - _SECOND
        return self._instant(cron.after(local))

    def _instant(self, local: datetime) -> datetime:
        """Return the instant at which the clocks first show a local time, or at which they skip it."""
        instant = local.replace(tzinfo=self.info).astimezone(UTC)
        if instant.astimezone(self.info).replace(tzinfo=None) == local:
            return instant
        return self._change(local.replace(tzinfo=self.info, fold=1).astimezone(UTC), instant)

    def _next_real(self, cron: Cron, instant: datetime) -> datetime:
        offset = self._offset(instant)
        local = _naive(instant) + offset
        while True:
            found = (cron.after(local) - offset).replace(tzinfo=UTC)
            sure = min(found, instant + 2 * _DAY)
            if self._offset(sure) != offset:
                instant = self._change(instant, sure)
                offset = self._offset(instant)
                # The instant of the change may itself be an occurrence.
                local = _naive(instant) + offset - _SECOND
            elif sure == found:
                return found
            else:
                # No clock change exceeds a day, so no time matches until two days before `found`.
                instant = found - 2 * _DAY
                offset = self._offset(instant)
                local = _naive(instant) + offset

    def _change(self, begin: datetime, end: datetime) -> datetime:
        """Return the instant of the clock change between two instants, which are at most a few days apart."""
        before = self._offset(begin)
        begin = begin.replace(microsecond=0)
        low, high = 0, (end - begin) // _SECOND
        while high - low > 1:
            middle = (low + high) // 2
            if self._offset(begin + middle * _SECOND) == before:
                low = middle
            else:
                high = middle
        return begin + high * _SECOND

    def _offset(self, instant: datetime) -> timedelta:
        return instant.astimezone(self.info).utcoffset() or timedelta()


def _naive(instant: datetime) -> datetime:
    return instant.replace(tzinfo=None)


@lru_cache(maxsize=1000)
def _load(name: str) -> Zone:
    if name == "UTC":
        # UTC works also on a machine without a time zone database.
        return Zone("UTC", UTC)
    if not name.startswith(_NOT_A_PLACE):
        try:
            return Zone(name, ZoneInfo(name))
        except (ZoneInfoNotFoundError, ValueError, OSError):
            pass
    raise InvalidSetting(f"tz is {name!r:.80}; {_nearest(name)}")


def _nearest(name: str) -> str:
    if offset := _OFFSET.fullmatch(name):
        return _instead_of(*offset.groups(default="00"))
    known = {zone.lower(): zone for zone in available_timezones()}
    if not known:
        return "this machine has no time zones: pip install tzdata"
    near = difflib.get_close_matches(name.lower(), known, n=3, cutoff=0.6)
    near += [zone for zone in known if zone.rpartition("/")[2] == name.lower().replace(" ", "_")]
    advice = ", ".join(dict.fromkeys(known[zone] for zone in near))
    return f"did you mean {advice}?" if advice else "give a name such as 'Europe/Lisbon' or 'UTC'"


def _instead_of(sign: str, hours: str, minutes: str) -> str:
    """Return what to pass instead of an offset, which has no summer time: a city, or a fixed zone."""
    advice = "an offset is no zone; give that of a city, such as 'Europe/Lisbon'"
    if int(minutes) or not 0 < int(hours) <= _MOST_HOURS[sign]:
        return advice
    # POSIX inverts the sign in the names of these zones.
    return (
        f"{advice}, or 'Etc/GMT{'-' if sign == '+' else '+'}{int(hours)}' for UTC{sign}{int(hours)} all year"
    )
