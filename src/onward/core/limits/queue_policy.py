"""The policy of a queue: how many of its jobs run at once, how fast they start, and whether orgs take turns.

The application declares the policy. An operator may override its bounds, until they are reset.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Literal, TypedDict

import msgspec

from onward.core.inputs.checks import whole_number
from onward.core.inputs.duration import Duration, duration
from onward.core.inputs.fields import LONGEST, check_text
from onward.core.inputs.rate import Rate, interval
from onward.core.jobs.payload import decode
from onward.errors import InvalidSetting

Bound = int | Literal["none"]
RateBound = Rate | Literal["none"]
"""The bounds that an operator sets; "none" lifts the bound that the application declares."""

_MOST_CONCURRENT = 1_000_000
_MOST_BURST = 1_000_000
_MOST_WEIGHT = 100
_MOST_WEIGHTS = 10_000
_MICROSECOND = timedelta(microseconds=1)
_SHORTEST_AGEING = timedelta(milliseconds=1)
_LONGEST_AGEING = timedelta(days=365)
# The default burst is what the rate earns in this time, in which a claim is made.
_BURST_MICROS = 100_000
_NONE = "none"
_NO_WEIGHTS: Mapping[str, int] = MappingProxyType({})


class QueueOptions(TypedDict, total=False):
    """The options of a queue's policy, as the application writes them."""

    concurrency: int | None
    rate: Rate | None
    burst: int | None
    fair: bool
    weights: Mapping[str, int] | None
    ageing: Duration | None


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuePolicy:
    """The policy of a queue.

    `concurrency` bounds how many of its jobs run at once, on all workers together; `rate` bounds how many
    start in a period, and `burst` how many of those start at once. In a `fair` queue the orgs take turns, and
    an org of weight 3 has three jobs where others have one. With `ageing`, a job is raised by one priority
    each time it has waited for that span.
    """

    concurrency: int | None = None
    rate: Rate | None = None
    burst: int | None = None
    fair: bool = False
    weights: Mapping[str, int] = field(default_factory=lambda: _NO_WEIGHTS)
    ageing: timedelta | None = None

    @classmethod
    def of(
        cls,
        *,
        concurrency: int | None = None,
        rate: Rate | None = None,
        burst: int | None = None,
        fair: bool = False,
        weights: Mapping[str, int] | None = None,
        ageing: Duration | None = None,
    ) -> QueuePolicy:
        """Return the policy that the options set; raise InvalidSetting, which names an invalid option."""
        if not isinstance(fair, bool):
            raise InvalidSetting(f"fair is {fair!r:.80}; give True or False")
        if weights and not fair:
            raise InvalidSetting("weights set how often the turn of an org comes, which needs fair=True")
        span = None if ageing is None else duration("ageing", ageing)
        if span is not None and not _SHORTEST_AGEING <= span <= _LONGEST_AGEING:
            raise InvalidSetting(f"ageing is {ageing!r:.80}; give from a millisecond to a year")
        shares = _weights({} if weights is None else weights)
        policy = cls(fair=fair, weights=shares, ageing=span)
        policy = replace(policy, **bounds_of(concurrency, rate, burst))
        if burst is not None and rate is None:
            raise InvalidSetting("burst is what a rate lets go at once; give rate= too")
        return policy

    @property
    def every(self) -> int | None:
        """The microseconds from one start to the next; None if there is no rate."""
        return None if self.rate is None else interval("rate", self.rate) // _MICROSECOND

    @property
    def at_once(self) -> int:
        """How many jobs may start at once after a rest: the burst, or what the rate earns in 100 ms."""
        return self.burst or max(1, _BURST_MICROS // (self.every or _BURST_MICROS))

    @property
    def plain(self) -> bool:
        """Whether the policy sets nothing."""
        return self == _PLAIN

    @property
    def picks(self) -> bool:
        """Whether its jobs are claimed in another order than by priority and time."""
        return self.fair or self.ageing is not None

    def stored(self) -> dict[str, Any]:
        """Return the options that are set, in their stored form."""
        values = {
            "concurrency": self.concurrency,
            "rate": self.rate,
            "burst": self.burst,
            "fair": self.fair or None,
            "weights": dict(sorted(self.weights.items())) or None,
            "ageing": None if self.ageing is None else self.ageing.total_seconds(),
        }
        return {name: value for name, value in values.items() if value is not None}

    @staticmethod
    def read(declared: str, override: str | None) -> QueuePolicy:
        """Return a stored policy, with an operator's override applied."""
        return _read(declared, override)

    def overridden(self, bounds: Mapping[str, Any]) -> QueuePolicy:
        """Return the policy with an operator's bounds in place of its own; without a rate it has no burst."""
        policy = replace(self, **bounds)
        return policy if policy.rate is not None else replace(policy, burst=None)


_PLAIN = QueuePolicy()


class Queue(msgspec.Struct, frozen=True, kw_only=True):
    """A queue and its policy: in effect, as declared, and what an operator set instead, why and when.

    `wait` is how long its rate still keeps every job from starting.
    """

    name: str
    policy: QueuePolicy
    declared: QueuePolicy
    override: Mapping[str, Any] | None = None
    reason: str | None = None
    actor_type: str | None = None
    actor_id: str | None = None
    set_at: datetime | None = None
    wait: timedelta = timedelta()


def bounds_of(
    concurrency: Bound | None = None, rate: RateBound | None = None, burst: int | None = None
) -> dict[str, Any]:
    """Check bounds and return those that are set; a bound that is lifted is None."""
    values: dict[str, Any] = {}
    if concurrency is not None:
        lifted = concurrency == _NONE
        values["concurrency"] = (
            None if lifted else whole_number("concurrency", concurrency, 1, _MOST_CONCURRENT)
        )
    if rate is not None:
        values["rate"] = None if rate == _NONE else rate
        if rate != _NONE:
            interval("rate", rate)
    if burst is not None:
        values["burst"] = whole_number("burst", burst, 1, _MOST_BURST)
    return values


@lru_cache(maxsize=1024)
def _read(declared: str, override: str | None) -> QueuePolicy:
    known = QueueOptions.__annotations__
    values = {name: value for name, value in decode(declared).items() if name in known}
    policy = QueuePolicy.of(**values)
    return policy if override is None else policy.overridden(decode(override))


def _weights(weights: Any) -> Mapping[str, int]:
    if not isinstance(weights, Mapping) or len(weights) > _MOST_WEIGHTS:
        raise InvalidSetting(f"weights is {weights!r:.80}; give a mapping of orgs, at most {_MOST_WEIGHTS}")
    for org, weight in weights.items():
        check_text("the org of a weight", org, longest=LONGEST["org_id"])
        whole_number(f"the weight of {org!r:.80}", weight, 1, _MOST_WEIGHT)
    return MappingProxyType(dict(weights))
