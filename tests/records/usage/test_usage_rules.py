"""What a run meters is checked at once and merged by unit."""

from decimal import Decimal

import pytest

from onward.core.records.usage import MOST_COST, MOST_UNITS, Meters, Usage
from onward.errors import InvalidSetting


def test_what_is_metered_twice_is_added_up():
    meters = Meters()
    meters.add(Usage.checked("tokens", 10, 500))
    meters.add(Usage.checked("mail"))
    meters.add(Usage.checked("tokens", Decimal("2.5"), 7))
    assert meters.read() == (Usage("tokens", 12.5, 507), Usage("mail", 1.0, 0))


@pytest.mark.parametrize(
    "amount", [-1, float("nan"), float("inf"), Decimal("NaN"), Decimal("Infinity"), 10**400, True, "3", None]
)
def test_an_amount_that_is_no_sum_is_refused(amount):
    with pytest.raises(InvalidSetting, match="amount is"):
        Usage.checked("unit", amount)


@pytest.mark.parametrize("cost", [-1, 0.5, MOST_COST + 1, True, None, "7"])
def test_a_cost_is_a_whole_number_of_micros(cost):
    with pytest.raises(InvalidSetting, match="cost_micros is"):
        Usage.checked("unit", 1, cost)


@pytest.mark.parametrize("unit", ["", "x" * 101, "é" * 51, "a\0b", "\ud800", 7])
def test_a_unit_is_a_short_text(unit):
    with pytest.raises(InvalidSetting, match="unit"):
        Usage.checked(unit)


def test_a_run_has_no_end_of_units_or_money():
    meters = Meters()
    for number in range(MOST_UNITS):
        meters.add(Usage(f"unit {number}"))
    with pytest.raises(InvalidSetting, match="at most 100 units"):
        meters.add(Usage("one more"))
    meters.add(Usage("unit 0", 1.0, MOST_COST))
    with pytest.raises(InvalidSetting, match="cost of a run"):
        meters.add(Usage("unit 1", 1.0, 1))
    assert len(meters.read()) == MOST_UNITS
    assert sum(used.cost_micros for used in meters.read()) == MOST_COST
