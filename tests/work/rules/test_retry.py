"""The back-off: one formula for all documents, bounded, with jitter that never exceeds the cap."""

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onward.core.work.retry import LONGEST_DELAY, RetryPolicy
from onward.errors import InvalidSetting

SECOND = timedelta(seconds=1)


def exponential(**changes: Any) -> RetryPolicy:
    fields: dict[str, Any] = {"kind": "exponential", "base": 10 * SECOND} | changes
    return RetryPolicy(**fields)


def test_the_first_exponent_shifts_the_table():  # R5
    assert [exponential(first_exponent=0).delay(n) / SECOND for n in (1, 2, 3)] == [10, 20, 40]
    assert [exponential(first_exponent=1).delay(n) / SECOND for n in (1, 2, 3)] == [20, 40, 80]


def test_a_fixed_delay_never_grows():  # S0-59
    policy = RetryPolicy(kind="fixed", base=60 * SECOND, jitter=False)
    assert {policy.wait(n, 0.5) for n in (1, 2, 50)} == {60 * SECOND}


def test_the_factor_may_be_any_number_from_one():
    assert exponential(factor=1.5).delay(3) == 22.5 * SECOND
    assert exponential(factor=1).delay(10**9) == 10 * SECOND


def test_a_count_under_one_is_the_first_failure():  # S2-18
    assert exponential().delay(0) == exponential().delay(1)


@pytest.mark.parametrize("failure", [60, 1100, 10**9, 10**30])
def test_no_count_of_failures_overflows(failure):
    assert exponential().delay(failure) == LONGEST_DELAY
    assert exponential(cap=60 * SECOND).delay(failure) == 60 * SECOND
    assert exponential(factor=1e300).delay(failure) == LONGEST_DELAY
    assert exponential(base=timedelta()).delay(failure) == timedelta()


@given(
    failure=st.integers(1, 100),
    dice=st.floats(0, 1, exclude_max=True),
    cap=st.none() | st.integers(1, 10**6).map(lambda n: n * SECOND),
)
def test_jitter_draws_from_half_of_the_delay_to_all_of_it(failure, dice, cap):  # S4-32
    policy = exponential(cap=cap)
    delay = policy.delay(failure)
    assert delay / 2 <= policy.wait(failure, dice) <= delay <= (cap or LONGEST_DELAY)


def test_jitter_is_even():
    policy = exponential()
    assert [policy.wait(1, dice) / SECOND for dice in (0, 0.25, 0.5, 0.75)] == [5, 6.25, 7.5, 8.75]


def test_after_a_first_crash_a_job_goes_back_at_once_and_then_backs_off():  # R6
    policy = exponential(jitter=False)
    assert policy.delay_after_crash(1, 1, 0) == timedelta()
    assert policy.delay_after_crash(2, 2, 0) == 20 * SECOND
    assert exponential().delay_after_crash(2, 2, 0.5) == 15 * SECOND


def test_a_crash_delay_is_the_least_wait_after_any_crash():
    policy = exponential(jitter=False, crash_delay=30 * SECOND)
    assert [policy.delay_after_crash(n, n, 0) / SECOND for n in (1, 2, 3)] == [30, 30, 40]


def test_durations_may_be_texts_and_seconds_as_everywhere():
    policy = RetryPolicy(kind="exponential", base="5s", cap="5m", jitter=False, crash_delay=30)
    assert policy == RetryPolicy(
        kind="exponential", base=5 * SECOND, cap=300 * SECOND, jitter=False, crash_delay=30 * SECOND
    )
    assert [policy.delay(n) / SECOND for n in (1, 2, 99)] == [5, 10, 300]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("kind", "linear"),
        ("base", -SECOND),
        ("base", None),
        ("base", "soon"),
        ("base", True),
        ("cap", float("nan")),
        ("cap", timedelta(days=366)),
        ("cap", -SECOND),
        ("crash_delay", -SECOND),
        ("factor", 0.5),
        ("factor", float("nan")),
        ("factor", float("inf")),
        ("first_exponent", 2),
        ("max_attempts", 0),
        ("max_attempts", 2.5),
    ],
)
def test_a_policy_that_makes_no_sense_is_refused_by_the_name_of_its_field(field, value):
    with pytest.raises(InvalidSetting, match=f"{field} is"):
        exponential(**{field: value})
