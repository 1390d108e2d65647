"""Occurrences of cron expressions in 30 zones, against a search that walks the minutes of UTC."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from functools import cache
from itertools import islice
from zoneinfo import ZoneInfo

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from onward.core.schedules.timing import Timing

_MINUTE = timedelta(minutes=1)
_DAY = timedelta(days=1)

# With gaps and folds of 20 minutes to a day, at midnight, at a minute past it, twice a year and once ever.
ZONES = """
    Africa/Cairo Africa/Casablanca Africa/Johannesburg America/Asuncion America/Caracas America/Havana
    America/New_York America/Nuuk America/Santiago America/Sao_Paulo America/Scoresbysund America/St_Johns
    Antarctica/Casey Antarctica/Troll Asia/Beirut Asia/Gaza Asia/Kathmandu Asia/Kolkata Asia/Pyongyang
    Asia/Tehran Atlantic/Azores Australia/Lord_Howe Europe/Berlin Europe/Dublin Europe/Lisbon Europe/Volgograd
    Pacific/Apia Pacific/Chatham Pacific/Kwajalein UTC
""".split()  # noqa: SIM905 - a list of 30 would be as many lines


@dataclass(frozen=True)
class Expression:
    """An expression, and what it means, said apart from it."""

    second: tuple[str, frozenset[int]] | None
    minute: tuple[str, frozenset[int]]
    hour: tuple[str, frozenset[int]]
    days: tuple[str, Callable[[date], bool]]

    @property
    def text(self) -> str:
        begin = "" if self.second is None else f"{self.second[0]} "
        day, month, weekday = self.days[0].split()
        return f"{begin}{self.minute[0]} {self.hour[0]} {day} {month} {weekday}"

    @property
    def seconds(self) -> list[int]:
        return [0] if self.second is None else sorted(self.second[1])

    def matches(self, local: datetime) -> bool:
        """Whether this minute of local time is meant."""
        return local.minute in self.minute[1] and local.hour in self.hour[1] and self.days[1](local.date())


def search(expression: Expression, zone: ZoneInfo, after: datetime) -> Iterator[datetime]:
    """Walk the minutes of UTC, and apply the rule for gaps and folds word by word."""
    minute = after.replace(second=0, microsecond=0)
    while True:
        local = minute.astimezone(zone)
        if local.hour == 0 and not any(expression.days[1](local.date() + n * _DAY) for n in range(-2, 4)):
            minute += _DAY
            continue
        for occurrence in _occurrences_of_minute(expression, zone, minute):
            if occurrence > after:
                yield occurrence
        minute += _MINUTE


def _occurrences_of_minute(expression: Expression, zone: ZoneInfo, minute: datetime) -> list[datetime]:
    local = minute.astimezone(zone)
    naive, before = (
        local.replace(tzinfo=None, fold=0),
        (minute - _MINUTE).astimezone(zone).replace(tzinfo=None),
    )
    real = len(expression.hour[1]) == 24
    found = set()
    if expression.matches(naive) and (real or local.fold == 0):
        found = {minute + timedelta(seconds=second) for second in expression.seconds}
    if not real:
        skipped = range(1, (naive - before) // _MINUTE)
        if any(expression.matches(before + n * _MINUTE) for n in skipped):
            found.add(minute)
    return sorted(found)


@cache
def changes(name: str) -> list[datetime]:
    """Give the instants at which a zone's clocks are changed."""
    zone, found = ZoneInfo(name), []
    day, end = datetime(1975, 1, 1, tzinfo=UTC), datetime(2045, 1, 1, tzinfo=UTC)
    while day < end:
        low, high = day, day + _DAY
        before = low.astimezone(zone).utcoffset()
        if high.astimezone(zone).utcoffset() != before:
            while high - low > _MINUTE:
                middle = low + (high - low) // 2
                if middle.astimezone(zone).utcoffset() == before:
                    low = middle
                else:
                    high = middle
            found.append(high.replace(second=0, microsecond=0))
        day += _DAY
    return found


def _field(low: int, high: int) -> st.SearchStrategy[tuple[str, frozenset[int]]]:
    whole = range(low, high + 1)
    numbers = st.integers(low, high)
    return st.one_of(
        st.just(("*", frozenset(whole))),
        numbers.map(lambda n: (str(n), frozenset({n}))),
        st.lists(numbers, min_size=2, max_size=4).map(lambda ns: (",".join(map(str, ns)), frozenset(ns))),
        st.integers(2, 13).map(lambda n: (f"*/{n}", frozenset(whole[::n]))),
        st.tuples(numbers, numbers, st.integers(1, 5)).map(
            lambda t: (
                f"{min(t[:2])}-{max(t[:2])}/{t[2]}",
                frozenset(range(min(t[:2]), max(t[:2]) + 1, t[2]))
                if t[0] != t[1]
                else frozenset(range(t[0], high + 1, t[2])),
            )
        ),
    )


def _last(day: date) -> bool:
    return (day + _DAY).month != day.month


_DAYS = (
    ("* * *", lambda day: True),
    ("29 2 *", lambda day: (day.month, day.day) == (2, 29)),
    ("1 1 *", lambda day: (day.month, day.day) == (1, 1)),
    ("31 DEC *", lambda day: (day.month, day.day) == (12, 31)),
    ("L * *", _last),
    ("* * SUN", lambda day: day.isoweekday() == 7),
    ("* * 7", lambda day: day.isoweekday() == 7),
    (
        "* 3,10,11 0L",
        lambda day: day.month in (3, 10, 11) and day.weekday() == 6 and (day + 7 * _DAY).day < 8,
    ),
    ("* * MON#2", lambda day: day.weekday() == 0 and 8 <= day.day <= 14),
    ("13 * 5", lambda day: day.day == 13 or day.weekday() == 4),
    ("*/2 * 1-5", lambda day: day.day % 2 == 1 and day.weekday() < 5),
    ("30 4-12/4 *", lambda day: day.day == 30 and day.month in (4, 8, 12)),
)

expressions = st.builds(
    Expression,
    st.none() | _field(0, 59),
    _field(0, 59),
    _field(0, 23) | st.sampled_from([(str(n), frozenset({n})) for n in range(4)]),
    st.just(_DAYS[0]) | st.sampled_from(_DAYS),
)


@st.composite
def places(draw: st.DrawFn) -> tuple[str, datetime]:
    """Draw a zone and an instant, mostly near a change of clocks, a leap day or the end of a year."""
    name = draw(st.sampled_from(ZONES))
    years = st.integers(1976, 2044)
    about = [
        years.map(lambda year: datetime(year, 1, 1, tzinfo=UTC)),
        years.map(lambda year: datetime(year - year % 4, 2, 29, tzinfo=UTC)),
    ]
    if changes(name):
        about += [st.sampled_from(changes(name))] * 4
    away = draw(st.timedeltas(timedelta(hours=-30), timedelta(hours=3)))
    return name, draw(st.one_of(about)) + away


def _fixed(minute: int, hour: int, *, second: int | None = None) -> Expression:
    first = None if second is None else (str(second), frozenset({second}))
    return Expression(
        first, (str(minute), frozenset({minute})), (str(hour), frozenset({hour})), ("* * *", lambda _: True)
    )


def _hourly(minute: int, days: int = 0) -> Expression:
    every_hour = ("*", frozenset(range(24)))
    return Expression(None, (str(minute), frozenset({minute})), every_hour, _DAYS[days])


@settings(max_examples=200, deadline=None)
@given(expressions, places())
@example(_fixed(30, 2), ("Europe/Berlin", datetime(2026, 3, 28, 12, tzinfo=UTC)))
@example(_fixed(30, 2, second=15), ("Europe/Berlin", datetime(2026, 10, 24, 12, tzinfo=UTC)))
@example(_fixed(30, 2), ("Europe/Berlin", datetime(2026, 10, 25, 1, 10, tzinfo=UTC)))
@example(_fixed(0, 3), ("Europe/Berlin", datetime(2026, 10, 25, 1, 10, tzinfo=UTC)))
@example(_hourly(0), ("Australia/Lord_Howe", datetime(2026, 10, 3, 14, 10, tzinfo=UTC)))
@example(_hourly(30), ("Australia/Lord_Howe", datetime(2026, 10, 3, 14, 10, tzinfo=UTC)))
@example(_hourly(30), ("Australia/Lord_Howe", datetime(2026, 4, 4, 13, 10, tzinfo=UTC)))
@example(_hourly(0, 5), ("America/Asuncion", datetime(2010, 10, 1, tzinfo=UTC)))
@example(_hourly(0, 1), ("Asia/Pyongyang", datetime(2013, 3, 1, tzinfo=UTC)))
@example(_hourly(0, 3), ("Pacific/Apia", datetime(2011, 12, 2, tzinfo=UTC)))
@example(_fixed(0, 6), ("Pacific/Apia", datetime(2011, 12, 29, 20, tzinfo=UTC)))
@example(_fixed(0, 0), ("America/St_Johns", datetime(2006, 10, 28, 20, tzinfo=UTC)))
def test_the_next_times_are_those_of_a_search_through_all_minutes(
    expression: Expression, place: tuple[str, datetime]
) -> None:
    name, after = place
    found = Timing.of(cron=expression.text, tz=name).next_times(after, 4)
    assert list(found) == list(islice(search(expression, ZoneInfo(name), after), 4)), expression.text


def test_thirty_zones_take_part() -> None:
    assert len(set(ZONES)) == 30
    assert sum(bool(changes(name)) for name in ZONES) > 25


def _local(cron: str, tz: str, after: str, n: int) -> list[str]:
    times = Timing.of(cron=cron, tz=tz).next_times(datetime.fromisoformat(after), n)
    return [f"{time.astimezone(ZoneInfo(tz)):%d %H:%M:%S %z}" for time in times]


@pytest.mark.parametrize("cron", ["30 2 * * *", "30 30 2 * * *", "0,15,45 2 * * *", "*/10 2 * * *"])
def test_a_time_in_a_gap_runs_once_when_the_gap_ends(cron: str) -> None:
    first, second = _local(cron, "Europe/Berlin", "2026-03-28T12:00Z", 2)
    assert first == "29 03:00:00 +0200"
    assert second.startswith("30 02:")


def test_a_time_in_a_fold_runs_once_the_first_time() -> None:
    assert _local("30 2 * * *", "Europe/Berlin", "2026-10-24T12:00Z", 2) == [
        "25 02:30:00 +0200",
        "26 02:30:00 +0100",
    ]
    assert _local("0 30 2 * * *", "Europe/Berlin", "2026-10-25T01:10Z", 1) == ["26 02:30:00 +0100"]


def test_what_runs_every_hour_keeps_its_pace_through_a_fold_and_a_gap() -> None:
    assert _local("15 * * * *", "Europe/Berlin", "2026-10-24T23:30Z", 4) == [
        "25 02:15:00 +0200",
        "25 02:15:00 +0100",
        "25 03:15:00 +0100",
        "25 04:15:00 +0100",
    ]
    assert _local("15 * * * *", "Europe/Berlin", "2026-03-29T00:00Z", 2) == [
        "29 01:15:00 +0100",
        "29 03:15:00 +0200",
    ]


def test_every_sixth_hour_names_hours_so_a_gap_at_midnight_loses_none() -> None:
    assert _local("0 */6 * * *", "America/Havana", "2026-03-07T23:30Z", 2) == [
        "08 01:00:00 -0400",
        "08 06:00:00 -0400",
    ]


def test_a_day_that_a_place_left_out_runs_once_when_the_next_begins() -> None:
    assert _local("0 9,17 * * *", "Pacific/Apia", "2011-12-29T20:00Z", 3) == [
        "29 17:00:00 -1000",
        "31 00:00:00 +1400",
        "31 09:00:00 +1400",
    ]


@pytest.mark.parametrize(("cron", "tz"), [("0 0 29 2 1#5", "UTC"), ("0 * */28 2 1", "Europe/Lisbon")])
def test_a_time_decades_away_is_found_at_once(cron: str, tz: str) -> None:
    times = Timing.of(cron=cron, tz=tz).next_times(datetime(2026, 1, 1, tzinfo=UTC), 3)
    assert list(times) == sorted(set(times))
