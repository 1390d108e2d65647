"""Local times of a zone as instants, also where its clocks are changed.

An expression that names hours ("at 02:30", "every ten minutes from 9 to 17") is about clocks on walls: a time
that the clocks skip runs once, at the first instant after the gap; one that they show twice runs once, the
first time. One whose hour is every hour is about the time between runs: each instant at which the clocks show
a matching time is a slot, in both passes of a fold; a gap, in which no time passes, has none.
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
# Of the machine, not of a place, or with leap seconds.
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
        """Find a zone by its name; raises InvalidSetting with the nearest names."""
        name = "UTC" if tz is None or tz is UTC else getattr(tz, "key", tz)
        return _load(name if isinstance(name, str) else repr(name))

    def next_after(self, cron: Cron, instant: datetime) -> datetime:
        """Give the first slot of an expression after an instant, both in UTC."""
        if self.info is UTC:
            return cron.after(instant.replace(tzinfo=None)).replace(tzinfo=UTC)
        return self._next_real(cron, instant) if cron.every_hour else self._next_named(cron, instant)

    def _next_named(self, cron: Cron, instant: datetime) -> datetime:
        shown = instant.astimezone(self.info)
        local = shown.replace(tzinfo=None, fold=0)
        if shown.fold:
            # All of this hour has run in its first pass: go on where the clocks show new times.
            first = local.replace(tzinfo=self.info).astimezone(UTC)
            change = self._change(first, instant)
            local = _naive(change) + self._offset(first) - _SECOND
        return self._instant(cron.after(local))

    def _instant(self, local: datetime) -> datetime:
        """Give when the clocks first show a local time, or when they have skipped it."""
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
                # The instant of the change may itself be a slot.
                local = _naive(instant) + offset - _SECOND
            elif sure == found:
                return found
            else:
                # No clock is set by more than a day, so nothing matches until shortly before.
                instant = found - 2 * _DAY
                offset = self._offset(instant)
                local = _naive(instant) + offset

    def _change(self, begin: datetime, end: datetime) -> datetime:
        """Find the instant between two, a few days apart at most, at which the clocks are changed."""
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
        # Also where the machine has no zones at all.
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
    said = ", ".join(dict.fromkeys(known[zone] for zone in near))
    return f"did you mean {said}?" if said else "give a name such as 'Europe/Lisbon' or 'UTC'"


def _instead_of(sign: str, hours: str, minutes: str) -> str:
    """Say what to give for an offset, which knows of no summer: a place, or a zone that has none either."""
    said = "an offset is no zone; give that of a city, such as 'Europe/Lisbon'"
    if int(minutes) or not 0 < int(hours) <= _MOST_HOURS[sign]:
        return said
    # By POSIX, the sign of these is the other way round.
    return f"{said}, or 'Etc/GMT{'-' if sign == '+' else '+'}{int(hours)}' for UTC{sign}{int(hours)} all year"
