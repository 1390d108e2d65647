"""The policy of a queue: how many of its jobs run at once, how fast they start, and whether orgs take turns.

The application declares the policy. An operator may override its bounds, until they are reset.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any, TypedDict

import msgspec
from msgspec.structs import replace

from onward.core.inputs.checks import whole_number
from onward.core.inputs.duration import Duration, duration, written
from onward.core.inputs.fields import LONGEST, check_text
from onward.core.inputs.rate import Rate
from onward.core.jobs.payload import decode
from onward.core.limits.bounds import Bounds, checked_bounds, require_rate
from onward.errors import InvalidSetting

_MOST_WEIGHT = 100
_MOST_WEIGHTS = 10_000
_SHORTEST_AGEING = timedelta(milliseconds=1)
_LONGEST_AGEING = timedelta(days=365)


class QueueOptions(TypedDict, total=False):
    """The options of a queue's policy, as the application writes them."""

    concurrency: int | None
    rate: Rate | None
    burst: int | None
    fair: bool
    weights: Mapping[str, int] | None
    ageing: Duration | None


class QueuePolicy(Bounds, frozen=True, kw_only=True):
    """The policy of a queue.

    `concurrency` bounds how many of its jobs run at once, on all workers together; `rate` bounds how many
    start in a period, and `burst` how many of those start at once. In a `fair` queue the orgs take turns, and
    an org of weight 3 has three jobs where others have one. With `ageing`, a job is raised by one priority
    each time it has waited for that span.
    """

    fair: bool = False
    weights: Mapping[str, int] = {}
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
            raise InvalidSetting(f"ageing is {written(ageing)}; give from a millisecond to a year")
        shares = _weights({} if weights is None else weights)
        require_rate(rate, burst)
        return cls(fair=fair, weights=shares, ageing=span, **checked_bounds(concurrency, rate, burst))

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
    return dict(weights)
