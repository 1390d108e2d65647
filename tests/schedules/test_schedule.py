"""When schedules run: occurrences, what becomes of those that were missed, jitter, words."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta, timezone
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onward.core.schedules.timing import TOLERANCE, Missed, Timing, check_missed, due, jitter, missed
from onward.errors import InvalidSetting

_NOW = datetime(2026, 5, 4, 12, 0, 30, tzinfo=UTC)
_MINUTELY = Timing.of(cron="* * * * *")
_NIGHTLY = Timing.of(cron="0 2 * * *")
_SECOND = timedelta(seconds=1)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, "either cron= or every="),
        ({"cron": "@daily", "every": "1h"}, "either cron= or every="),
        ({"cron": "0 0 30 2 *"}, "never fires"),
        ({"cron": "@daily", "tz": "Europe/Lisbonn"}, "did you mean Europe/Lisbon"),
        ({"cron": "@daily", "tz": "lisbon"}, "did you mean Europe/Lisbon"),
        ({"cron": "@daily", "tz": "Europe"}, "did you mean"),
        ({"cron": "@daily", "tz": "../zone"}, "'Europe/Lisbon' or 'UTC'"),
        ({"cron": "@daily", "tz": "localtime"}, "tz is 'localtime'"),
        ({"cron": "@daily", "tz": ""}, "tz is ''"),
        ({"cron": "@daily", "tz": timezone(timedelta(hours=1))}, "tz is"),
        ({"cron": "@daily", "tz": []}, "tz is"),
        ({"cron": "@daily", "tz": "UTC+1"}, "'Europe/Lisbon', or 'Etc/GMT-1' for UTC\\+1 all year"),
        ({"cron": "@daily", "tz": "gmt-03:00"}, "'Etc/GMT\\+3' for UTC-3"),
        ({"cron": "@daily", "tz": "+05:30"}, "no zone; give that of a city, such as 'Europe/Lisbon'$"),
        ({"cron": "0 2 ? * *"}, "day of month is '\\?'.*write \\* instead of \\?"),
        ({"cron": "@daily", "anchor": _NOW}, "leave it out with cron="),
        ({"every": "999ms"}, "from 1 second"),
        ({"every": "367d"}, "366 days"),
        ({"every": "-5m"}, "every is '-5m'"),
        ({"every": "1h", "tz": "Europe/Lisbon"}, "leave tz out"),
        ({"every": "1h", "anchor": datetime(2026, 1, 1)}, "with a zone"),  # noqa: DTZ001 - it is refused
    ],
)
def test_a_timing_that_makes_no_sense_is_refused(options: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidSetting, match=said):
        Timing.of(**options)


def test_a_timing_is_its_checked_text_so_it_can_be_kept_and_read_again() -> None:
    timing = Timing.of(cron=" 0  2 * * *", tz=ZoneInfo("Europe/Lisbon"))
    assert (timing.cron, timing.tz) == ("0 2 * * *", "Europe/Lisbon")
    assert Timing.of(cron=timing.cron, tz=timing.tz) == timing
    assert Timing.of(cron="@daily", tz=UTC) == Timing.of(cron="@daily") == Timing.of(cron="@daily", tz="UTC")


def test_an_instant_without_a_zone_is_refused() -> None:
    with pytest.raises(InvalidSetting, match="with a zone"):
        _NIGHTLY.next_after(datetime(2026, 1, 1))  # noqa: DTZ001 - it is refused


def test_an_occurrence_is_not_its_own_next() -> None:
    occurrence = _NIGHTLY.next_after(_NOW)
    assert occurrence == datetime(2026, 5, 5, 2, tzinfo=UTC)
    assert occurrence.tzinfo is UTC
    assert _NIGHTLY.next_after(occurrence) == occurrence + timedelta(days=1)
    assert _NIGHTLY.next_after(occurrence - timedelta(microseconds=1)) == occurrence


# S3-43
def test_every_two_minutes_counts_from_the_anchor() -> None:
    assert Timing.of(every="2m").next_times(_NOW, 2) == (
        datetime(2026, 5, 4, 12, 2, tzinfo=UTC),
        datetime(2026, 5, 4, 12, 4, tzinfo=UTC),
    )
    started = Timing.of(every="2m", anchor=_NOW)
    assert started.next_after(_NOW) == _NOW + timedelta(minutes=2)
    assert started.next_after(_NOW - timedelta(seconds=1)) == _NOW
    assert started.next_after(_NOW - timedelta(minutes=5)) == _NOW - timedelta(minutes=4)


@given(
    st.timedeltas(_SECOND, timedelta(days=366)),
    st.datetimes(datetime(2000, 1, 1), datetime(2100, 1, 1), timezones=st.just(UTC)),  # noqa: DTZ001
    st.datetimes(datetime(2000, 1, 1), datetime(2100, 1, 1), timezones=st.just(UTC)),  # noqa: DTZ001
)
def test_an_interval_has_one_occurrence_in_each_of_its_lengths(
    every: timedelta, anchor: datetime, instant: datetime
) -> None:
    occurrence = Timing.of(every=every, anchor=anchor).next_after(instant)
    assert timedelta() < occurrence - instant <= every
    assert not (occurrence - anchor) % every


def test_occurrences_are_the_oldest_and_newest_are_the_newest_of_a_stretch() -> None:
    begin = datetime(2026, 5, 4, 11, tzinfo=UTC)
    assert _MINUTELY.occurrences(begin, _NOW, 2) == (begin.replace(minute=1), begin.replace(minute=2))
    assert _MINUTELY.newest(begin, _NOW, 2) == (begin.replace(minute=59), begin.replace(hour=12))
    assert len(_MINUTELY.occurrences(begin, _NOW, 1000)) == len(_MINUTELY.newest(begin, _NOW, 1000)) == 60
    assert _NIGHTLY.occurrences(begin, _NOW, 5) == _NIGHTLY.newest(begin, _NOW, 5) == ()
    assert _MINUTELY.newest(begin, _NOW, 0) == ()


@pytest.mark.parametrize("cron", ["* * * * * *", "0 0 29 2 *", "*/7 8-9 1 * *", "@hourly"])
@given(st.integers(1, 9), st.timedeltas(_SECOND, timedelta(minutes=40)))
def test_the_newest_are_the_last_of_all(cron: str, most: int, length: timedelta) -> None:
    timing = Timing.of(cron=cron)
    assert timing.newest(_NOW - length, _NOW, most) == timing.occurrences(_NOW - length, _NOW, 20_000)[-most:]


def test_the_newest_of_ten_years_of_seconds_are_found_at_once() -> None:
    began = time.perf_counter()
    timing = Timing.of(cron="* * * * * *", tz="Europe/Lisbon")
    assert timing.newest(_NOW - timedelta(days=3650), _NOW, 2) == (_NOW - _SECOND, _NOW)
    assert time.perf_counter() - began < 1


_DUE = _MINUTELY.occurrences(_NOW - timedelta(minutes=5), _NOW, 10)


@pytest.mark.parametrize(
    ("policy", "count"), [("skip", 1), ("last", 1), ("all", 5), (1, 1), (3, 3), (5, 5), (99, 5)]
)
def test_of_missed_occurrences_so_many_of_the_newest_run(policy: Missed, count: int) -> None:
    assert len(_DUE) == 5
    assert missed(policy, _DUE, _NOW, timedelta(seconds=40)) == _DUE[-count:]


@pytest.mark.parametrize(("policy", "count"), [("skip", 0), ("last", 1), ("all", 5), (3, 3)])
def test_without_one_on_time_the_last_is_late(policy: Missed, count: int) -> None:
    assert missed(policy, _DUE, _NOW + timedelta(hours=1)) == (_DUE[-count:] if count else ())


# S4-67
def test_an_occurrence_is_on_time_within_the_tolerance_of_a_minute() -> None:
    occurrence = datetime(2026, 5, 4, 2, tzinfo=UTC)
    assert timedelta(seconds=60) == TOLERANCE
    assert missed("skip", [occurrence], occurrence + TOLERANCE) == (occurrence,)
    assert missed("skip", [occurrence], occurrence + TOLERANCE + timedelta(microseconds=1)) == ()


@pytest.mark.parametrize(("policy", "count"), [("skip", 1), ("last", 1), (3, 3), ("all", 20)])
def test_an_occurrence_after_which_another_is_due_is_not_on_time(policy: Missed, count: int) -> None:
    for timing in (Timing.of(every="1s"), Timing.of(cron="* * * * * *")):
        found = due(timing, policy, after=_NOW - 20 * _SECOND, now=_NOW, most=100)
        assert found == tuple(_NOW - back * _SECOND for back in reversed(range(count)))


@given(
    st.sampled_from(["skip", "last", "all", 1, 2, 7]),
    st.timedeltas(timedelta(), timedelta(minutes=30)),
    st.timedeltas(timedelta(), timedelta(minutes=5)),
)
def test_what_is_due_is_what_the_policy_leaves_of_all_occurrences(
    policy: Missed, length: timedelta, tolerance: timedelta
) -> None:
    after = _NOW - length
    every = _MINUTELY.occurrences(after, _NOW, 100)
    found = due(_MINUTELY, policy, after=after, now=_NOW, most=100, tolerance=tolerance)
    assert found == missed(policy, every, _NOW, tolerance)


def test_all_that_was_missed_comes_in_portions_the_oldest_first() -> None:
    after = _NOW - timedelta(days=30)
    first = due(_MINUTELY, "all", after=after, now=_NOW, most=100)
    second = due(_MINUTELY, "all", after=first[-1], now=_NOW, most=100)
    assert (*first, *second) == _MINUTELY.occurrences(after, _NOW, 200)


@pytest.mark.parametrize("policy", ["skip", "last", "all", 1, 10_000])
def test_a_policy_for_missed_runs_is_taken(policy: Missed) -> None:
    assert check_missed(policy) == policy


@pytest.mark.parametrize("policy", ["never", 0, -1, 10_001, True, 1.5, None, []])
def test_another_policy_is_refused(policy: Any) -> None:
    with pytest.raises(InvalidSetting, match="'skip', 'last', 'all'"):
        check_missed(policy)


@given(st.text(), st.datetimes(timezones=st.just(UTC)), st.timedeltas(timedelta(), timedelta(days=366)))
def test_jitter_stays_below_its_span_and_is_the_same_for_everybody(
    name: str, occurrence: datetime, span: timedelta
) -> None:
    drawn = jitter(name, occurrence, span)
    assert timedelta() <= drawn < max(span, timedelta(microseconds=1))
    assert drawn == jitter(name, occurrence, span)


def test_jitter_is_spread_over_its_span_by_name_and_by_occurrence() -> None:
    span = timedelta(minutes=10)
    for drawn in (
        [jitter(f"report {n}", _NOW, span) for n in range(200)],
        [jitter("report", _NOW + n * _SECOND, span) for n in range(200)],
    ):
        assert len(set(drawn)) == 200
        assert 0.4 < sum(drawn, timedelta()) / 200 / span < 0.6
    there = _NOW.astimezone(ZoneInfo("Asia/Tokyo"))
    assert jitter("report", there, span) == jitter("report", _NOW, span)


@pytest.mark.parametrize(
    ("timing", "words"),
    [
        (Timing.of(cron="0 2 * * *", tz="Europe/Lisbon"), "At 02:00 every day, Europe/Lisbon"),
        (Timing.of(every="2m"), "Every 2 minutes"),
        (Timing.of(every="1h"), "Every hour"),
        (Timing.of(every=5400), "Every 1 hour 30 minutes"),
        (Timing.of(every="1.5s"), "Every 1.5 seconds"),
        (Timing.of(every="7d"), "Every 7 days"),
    ],
)
def test_a_timing_is_said_in_words(timing: Timing, words: str) -> None:
    assert timing.in_words() == words
