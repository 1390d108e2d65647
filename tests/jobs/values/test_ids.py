"""Job ids are UUIDv7, in the order of their making, whatever the clock does."""

import os
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta, timezone
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onward.core.jobs.ids import IdMaker, first_id_at, id_time, is_id, normalise_id
from onward.errors import InvalidJob, InvalidSetting

NOON = datetime(2026, 3, 1, 12, 0, 0, 123_000, tzinfo=UTC)
VERSION_4 = UUID("2f9a1f8e-5c0b-4c58-9d2e-6a4f1b3c7d10")
NOON_NS = int(NOON.timestamp()) * 10**9 + 123_000_000


def maker(*, at: int = NOON_NS) -> IdMaker:
    return IdMaker(lambda: at, os.urandom)


def test_an_id_is_a_canonical_uuid_of_version_7():  # R15, S1-3, S2-2
    made = UUID(maker().make())
    assert (made.version, made.variant) == (7, "specified in RFC 4122")
    assert is_id(str(made))


def test_an_id_tells_its_millisecond():
    assert id_time(maker().make()) == NOON
    assert id_time(maker().make().upper()) == NOON


def test_ids_grow_within_one_instant():
    ids = maker()
    made = [ids.make() for _ in range(10_000)]
    assert made == sorted(set(made))


def test_many_ids_grow_and_follow_all_that_were_made_before():
    ids = maker()
    made = [ids.make(), *ids.make_many(10_000), ids.make(), *ids.make_many(2)]
    assert made == sorted(set(made))
    assert len(made) == 10_004
    assert ids.make_many(0) == []


@given(st.integers(1, 9), st.lists(st.integers(-9, 9) | st.slices(9), min_size=1, max_size=5))
def test_promised_ids_are_the_same_whoever_comes_first(count, places):
    whole = IdMaker(lambda: NOON_NS, bytes).make_many(count)
    promised = IdMaker(lambda: NOON_NS, bytes).promise(count)
    assert len(promised) == count
    for place in places:
        if isinstance(place, int) and not -count <= place < count:
            with pytest.raises(IndexError):
                promised[place]
        else:
            assert promised[place] == whole[place]
    assert list(promised) == whole


@given(st.lists(st.integers(0, 2**60), min_size=2, max_size=50))
def test_ids_grow_when_the_clock_jumps(instants):
    clock = iter(instants)
    ids = IdMaker(lambda: next(clock), os.urandom)
    made = [ids.make() for _ in instants]
    assert made == sorted(set(made))
    assert all(map(is_id, made))


def test_ids_follow_the_clock_below_the_millisecond():
    assert maker(at=NOON_NS + 1000).make()[:18] > maker(at=NOON_NS).make()[:18]


def test_threads_never_share_an_id_and_each_sees_its_own_grow():
    ids = IdMaker(time.time_ns, os.urandom)
    with ThreadPoolExecutor(8) as pool:
        runs = list(pool.map(lambda _: [ids.make() for _ in range(500)], range(8)))
    assert all(run == sorted(run) for run in runs)
    assert len({made for run in runs for made in run}) == 4000


def test_the_dice_fill_what_the_clock_does_not():
    lowest = IdMaker(lambda: NOON_NS, lambda count: b"\x00" * count)
    highest = IdMaker(lambda: NOON_NS, lambda count: b"\xff" * count)
    assert lowest.make().endswith("-8000-000000000000")
    assert highest.make().endswith("-bfff-ffffffffffff")


@pytest.mark.parametrize("form", [str.upper, lambda made: made.replace("-", ""), UUID, str])
def test_every_spelling_of_an_id_has_one_normal_form(form):
    made = maker().make()
    assert normalise_id(form(made)) == made


@pytest.mark.parametrize(
    "value",
    ["", "42", "job-1", str(VERSION_4), VERSION_4, "{018f0000-0000-7000-8000-000000000000}", 42, None],
)
def test_what_is_no_job_id_is_named(value):
    with pytest.raises(InvalidJob, match="is not a job id") as caught:
        normalise_id(value)
    assert repr(value) in str(caught.value)


def test_only_the_canonical_form_is_an_id():
    made = maker().make()
    assert not is_id(made.upper())
    assert not is_id(made.replace("-", ""))
    assert not is_id(made + "\n")


def test_the_first_id_of_a_millisecond_bounds_a_range():
    first, after = first_id_at(NOON), first_id_at(NOON + timedelta(milliseconds=1))
    assert is_id(first)
    assert first <= min(maker().make_many(100))
    assert max(maker().make_many(100)) < after
    assert first_id_at(NOON.astimezone(timezone(timedelta(hours=5)))) == first
    assert id_time(first) == NOON


def test_before_1970_the_first_id_is_the_lowest_of_all():
    assert first_id_at(datetime.min.replace(tzinfo=UTC)) == first_id_at(datetime(1970, 1, 1, tzinfo=UTC))


def test_a_range_needs_a_time_zone():
    with pytest.raises(InvalidSetting, match="time zone"):
        first_id_at(NOON.replace(tzinfo=None))


def test_an_id_beyond_the_calendar_is_named():
    with pytest.raises(InvalidJob, match="9999"):
        id_time("ffffffff-ffff-7000-8000-000000000000")
