"""The usage of a run: an amount of each unit, and its cost in millionths of a currency."""

from __future__ import annotations

import math
from datetime import date, datetime
from decimal import Decimal
from typing import Any, Literal

import msgspec

from onward.core.inputs.checks import whole_number
from onward.core.inputs.fields import check_text
from onward.core.jobs.ids import JobId
from onward.errors import InvalidJob, InvalidSetting

MOST_UNITS = 100
"""The most units that one run can meter; each becomes a row."""

MOST_COST = 10**15
"""The highest cost of one run: it keeps the sum of a day far below the databases' largest integer."""

_MOST_AMOUNT = 1e15
_LONGEST_UNIT = 100


class Usage(msgspec.Struct, frozen=True, gc=False):
    """The amount of one unit that a run used, and its cost in millionths of a currency."""

    unit: str
    amount: float = 1.0
    cost_micros: int = 0

    @classmethod
    def checked(cls, unit: str, amount: float | Decimal = 1, cost_micros: int = 0) -> Usage:
        """Return the usage; raise InvalidSetting for a value that could not be stored or summed."""
        try:
            check_text("unit", unit, longest=_LONGEST_UNIT)
        except InvalidJob as error:
            # The handler chose the unit: its argument is wrong, not the job.
            raise InvalidSetting(str(error)) from None
        return cls(unit, _amount(amount), whole_number("cost_micros", cost_micros, 0, MOST_COST))


class Meters:
    """The usage of one run so far, merged by unit."""

    __slots__ = ("_cost", "_units")

    def __init__(self) -> None:
        self._units: dict[str, Usage] = {}
        self._cost = 0

    def add(self, used: Usage) -> None:
        """Add usage to that of the same unit; raise InvalidSetting and add nothing if a bound is exceeded."""
        before = self._units.get(used.unit)
        if before is None and len(self._units) >= MOST_UNITS:
            raise InvalidSetting(f"a run meters at most {MOST_UNITS} units, {used.unit!r} is one more")
        if self._cost + used.cost_micros > MOST_COST:
            raise InvalidSetting(f"the cost of a run is at most {MOST_COST} micros")
        self._cost += used.cost_micros
        if before is not None:
            amount = min(before.amount + used.amount, _MOST_AMOUNT)
            used = Usage(used.unit, amount, before.cost_micros + used.cost_micros)
        self._units[used.unit] = used

    def read(self) -> tuple[Usage, ...]:
        """Return the sum of each unit."""
        return tuple(self._units.values())


Group = Literal["org", "job_type", "queue", "day", "unit"]


Period = Literal["day", "month", "total"]


class UsageEvent(msgspec.Struct, frozen=True):
    """How much of one unit one run of a job has used, and what that cost."""

    job_id: JobId
    lease: int
    attempt: int
    unit: str
    amount: float
    cost_micros: int
    at: datetime
    org_id: str | None
    project_id: str | None
    job_type: str
    queue: str
    category: str


class UsageTotal(msgspec.Struct, frozen=True, kw_only=True):
    """A line of a report; a field that it is not grouped by is None, and so is an amount of several units."""

    org_id: str | None = None
    job_type: str | None = None
    queue: str | None = None
    day: date | None = None
    unit: str | None = None
    runs: int
    amount: float | None
    cost_micros: int


class Budget(msgspec.Struct, frozen=True):
    """How much an org may spend in a period, and how much it has; `spent_at` is when it had spent all."""

    org_id: str
    limit_micros: int
    period: Period
    period_started_at: datetime
    spent_micros: int
    spent_at: datetime | None
    set_at: datetime
    actor_type: str | None
    actor_id: str | None
    reason: str | None

    @property
    def spent(self) -> bool:
        """Whether the org's jobs are held."""
        return self.spent_at is not None


def _amount(amount: Any) -> float:
    # Compare before converting: an int may be too large for a float. Only NaN differs from itself.
    kind = isinstance(amount, int | float | Decimal) and not isinstance(amount, bool)
    if not kind or amount != amount or not 0 <= amount <= _MOST_AMOUNT:  # noqa: PLR0124
        raise InvalidSetting(f"amount is {amount!r:.80}; give a number from 0 to {math.trunc(_MOST_AMOUNT)}")
    return float(amount)
