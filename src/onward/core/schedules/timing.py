"""When a schedule runs: its occurrences, which missed ones still run, and the jitter.

An occurrence is an instant in UTC that every scheduler computes alike, so that a unique constraint
on it suffices for each to run once. All functions are pure: none reads a clock or draws random numbers.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from itertools import islice, pairwise, takewhile
from typing import Annotated, Any, Literal, Self

from msgspec import Meta

from onward.core.inputs.duration import Duration, duration, written
from onward.core.schedules.cron import Cron
from onward.core.schedules.local_time import Zone
from onward.errors import InvalidSetting

Missed = Literal["skip", "last", "all"] | Annotated[int, Meta(ge=1, le=10_000)]
"""Which missed occurrences still run: none, the newest, all of them, or the newest n."""

# Clocks may differ by up to this much, and a run that is later is reported.
TOLERANCE = timedelta(seconds=60)

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SHORTEST = timedelta(seconds=1)
_LONGEST = timedelta(days=366)
_MOST_MISSED = 10_000
_LOOKED_AT = 25


@dataclass(frozen=True, slots=True)
class Timing:
    """When a schedule runs: by `cron` in the zone `tz`, or at the interval `every`, counted from `anchor`."""

    cron: str | None = None
    every: timedelta | None = None
    tz: str = "UTC"
    anchor: datetime = _EPOCH

    @classmethod
    def of(
        cls,
        *,
        cron: str | None = None,
        every: Duration | None = None,
        tz: str | tzinfo | None = None,
        anchor: datetime | None = None,
    ) -> Self:
        """Check and return a timing; raise InvalidSetting if it can't be read or would never fire."""
        if (cron is None) == (every is None):
            raise InvalidSetting("a schedule has either cron= or every=; give one of them")
        if cron is not None:
            if anchor is not None:
                raise InvalidSetting("anchor is where every= counts from; leave it out with cron=")
            return cls(cron=Cron.of(cron).text, tz=Zone.of(tz).name)
        if Zone.of(tz).name != "UTC":
            raise InvalidSetting("tz is for cron=; every= is the same in all zones: leave tz out")
        length = duration("every", every)
        if not _SHORTEST <= length <= _LONGEST:
            raise InvalidSetting(f"every is {written(length)}; give from 1 second to {_LONGEST.days} days")
        return cls(every=length, anchor=_EPOCH if anchor is None else _in_utc("anchor", anchor))

    def next_after(self, instant: datetime) -> datetime:
        """Return the first occurrence after an instant, in UTC."""
        instant = _in_utc("instant", instant)
        if self.every is not None:
            return self.anchor + ((instant - self.anchor) // self.every + 1) * self.every
        return Zone.of(self.tz).next_after(Cron.of(self.cron), instant)

    def next_times(self, instant: datetime, n: int = 5) -> tuple[datetime, ...]:
        """Return the next n occurrences after an instant."""
        return tuple(islice(self._after(instant), n))

    def occurrences(self, after: datetime, until: datetime, most: int) -> tuple[datetime, ...]:
        """Return the oldest occurrences after `after` and up to `until`, in order and at most `most`."""
        return tuple(islice(takewhile(lambda occurrence: occurrence <= until, self._after(after)), most))

    def newest(self, after: datetime, until: datetime, most: int) -> tuple[datetime, ...]:
        """Return the newest occurrences after `after` and up to `until`, in order and at most `most`.

        Searches back from `until`, so that it costs as little after an outage of a year.
        """
        if most < 1:
            return ()
        span = _SHORTEST * most
        while True:
            begin = max(after, until - span)
            found = deque(takewhile(lambda occurrence: occurrence <= until, self._after(begin)), maxlen=most)
            if len(found) == most or begin == after:
                return tuple(found)
            span *= 2

    def shortest_gap(self) -> timedelta:
        """Return the shortest time between two occurrences; for cron, a sample of them is compared."""
        if self.every is not None:
            return self.every
        # In UTC, because a clock that is set forward moves occurrences together.
        occurrences = Timing(cron=self.cron).next_times(_EPOCH, _LOOKED_AT)
        return min(later - earlier for earlier, later in pairwise(occurrences))

    def in_words(self) -> str:
        """Return the timing in English: "At 02:00 every day, Europe/Lisbon", "Every 2 minutes"."""
        if self.every is not None:
            return f"Every {_length_in_words(self.every)}"
        return f"{Cron.of(self.cron).in_words()}, {self.tz}"

    def _after(self, instant: datetime) -> Iterator[datetime]:
        while True:
            instant = self.next_after(instant)
            yield instant


def missed(
    policy: Missed, occurrences: Sequence[datetime], now: datetime, tolerance: timedelta = TOLERANCE
) -> tuple[datetime, ...]:
    """Return the due occurrences to run, in order: the newest n, and the newest in any case if on time.

    "skip" is n = 0, "last" is n = 1. An occurrence counts as late once the next one is due, however short the
    interval is.
    """
    if policy == "all":
        return tuple(occurrences)
    on_time = bool(occurrences) and now - occurrences[-1] <= tolerance
    n = max(_number(policy), int(on_time))
    return tuple(occurrences[-n:]) if n else ()


def due(
    timing: Timing,
    policy: Missed,
    *,
    after: datetime,
    now: datetime,
    most: int,
    tolerance: timedelta = TOLERANCE,
) -> tuple[datetime, ...]:
    """Return the occurrences to run after `after`, the last that was handled, and up to `now`.

    With "all" these are at most the `most` oldest: call again from the last of them.
    """
    if policy == "all":
        return timing.occurrences(after, now, most)
    newest = timing.newest(after, now, min(max(_number(policy), 1), most))
    return missed(policy, newest, now, tolerance)


def check_missed(policy: Any) -> Missed:
    """Return a valid policy for missed runs; raise InvalidSetting otherwise."""
    if policy in ("skip", "last", "all") or (type(policy) is int and 1 <= policy <= _MOST_MISSED):
        return policy  # type: ignore[no-any-return]
    raise InvalidSetting(
        f"missed is {policy!r:.80}; give 'skip', 'last', 'all', or how many of the newest at most"
    )


def jitter(name: str, occurrence: datetime, span: timedelta) -> timedelta:
    """Return the delay of a run after its occurrence, from 0 to below `span`; equal on all schedulers."""
    digest = hashlib.sha256(f"{name}\n{occurrence.astimezone(UTC).isoformat()}".encode()).digest()
    micros = span // timedelta(microseconds=1)
    return timedelta(microseconds=micros * int.from_bytes(digest[:8], "big") >> 64)


def _number(policy: Missed) -> int:
    match policy:
        case "skip":
            return 0
        case "last":
            return 1
        case int():
            return policy
    raise InvalidSetting(f"missed is {policy!r:.80}; give 'skip', 'last', 'all' or a number")


def _in_utc(name: str, instant: datetime) -> datetime:
    if not isinstance(instant, datetime) or instant.tzinfo is None:
        raise InvalidSetting(f"{name} is {instant!r:.80}; give a datetime with a zone")
    return instant.astimezone(UTC)


def _length_in_words(length: timedelta) -> str:
    minutes, seconds = divmod(length.total_seconds() - length.days * 86_400, 60)
    hours, minutes = divmod(int(minutes), 60)
    parts = [(length.days, "day"), (hours, "hour"), (minutes, "minute"), (round(seconds, 6), "second")]
    words = [f"{number:g} {unit}{'' if number == 1 else 's'}" for number, unit in parts if number]
    return words[0].removeprefix("1 ") if len(words) == 1 else " ".join(words)
