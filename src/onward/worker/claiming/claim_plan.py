"""How many jobs a worker claims from each queue."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

from onward.core.work.claim import QueuePosition
from onward.worker.claiming.buffer import Buffer, Lane
from onward.worker.claiming.queue_policies import QueuePolicies
from onward.worker.claiming.throughput import Pace

# A claim under a policy runs several statements, however few jobs it returns.
_MOST_BY_POLICY = 1000


class ClaimPlan:
    """The sizes of the claims; with a `budget` (`max_jobs`), the worker claims no more jobs than that."""

    def __init__(
        self,
        buffer: Buffer,
        pace: Pace,
        policies: QueuePolicies,
        *,
        at_once: int,
        budget: int | None,
        writes_lag: Callable[[], bool],
    ) -> None:
        self._buffer = buffer
        self._pace = pace
        self._policies = policies
        self._budget = budget
        self._writes_lag = writes_lag
        self.at_once = at_once

    @property
    def spent(self) -> bool:
        """Whether the budget is used up."""
        return self._budget is not None and self._budget <= 0

    def shares(self, ready: Iterable[str]) -> list[tuple[Lane, int]]:
        """Return how many jobs to claim from each ready queue; none while enough jobs wait here."""
        ahead = self._pace.ahead(time.monotonic())
        # Not before the buffer is half empty: smaller claims would cost a round trip for fewer jobs.
        if self._writes_lag() or self._buffer.queued + self._buffer.coming > ahead // 2:
            return []
        return self._buffer.shares(ready, ahead)

    def may_overlap(self, lane: Lane, share: int) -> bool:
        """Whether the next claim of a queue should begin before the last one is answered."""
        # Claims under a policy exclude each other: a second one would only wait for the first.
        alone = self._budget is not None or lane.queue in self._policies.names
        return share >= self.at_once and lane.reached is not None and not alone

    def next_claim(self, lane: Lane, share: int) -> tuple[int, QueuePosition | None]:
        """Return how many jobs the next claim may take, and after which position; None is the front."""
        by_policy = lane.queue in self._policies.names
        limit = min(share, _MOST_BY_POLICY if by_policy else self.at_once, self._budget or share)
        # A small claim starts at the front, because a more urgent job may be new there.
        if by_policy or limit != self.at_once:
            return limit, None
        return limit, lane.past(time.monotonic())

    def count(self, jobs: int) -> None:
        """Subtract claimed jobs from the budget."""
        if self._budget is not None:
            self._budget -= jobs
