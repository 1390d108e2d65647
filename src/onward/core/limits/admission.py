"""Admission: how many of the jobs that wait for a permit of a key may be made ready.

`admission` is the only place that decides this; other code stores its decision.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import msgspec

from onward.core.jobs.payload import decode
from onward.core.limits.bounds import Bounds
from onward.core.limits.gcra import take, tokens, wait

MOST_READY = 4000
"""At most this many jobs of one key are ready ahead of their start, however many permits are free."""

_LEAST_READY = 50


class Terms(Bounds, frozen=True, kw_only=True):
    """What a limit allows now, as declared by the application or overridden by an operator."""

    ordered: bool = False

    @staticmethod
    def read(declared: str, override: str | None) -> Terms:
        """Return the stored terms, with an operator's override applied."""
        return _read(declared, override)

    @property
    def permits(self) -> int | None:
        """The number of permits: how many jobs may be active at once; None for no bound."""
        return 1 if self.concurrency is None and self.ordered else self.concurrency

    def paid(self, paid_at: int | None, now: int, jobs: int) -> int | None:
        """Return the time by which `jobs` more starts are paid for; None if there is no rate."""
        return None if self.every is None else take(paid_at, now, self.every, self.at_once, jobs)


class LimitStanding(msgspec.Struct, frozen=True, kw_only=True):
    """The state of one key: its ready and running jobs, and the time by which its starts are paid for.

    `begun` counts the jobs that have run before and wait for a permit; `away` counts the jobs that have run
    before and will come back later, because they wait for their time or for other jobs.
    """

    ready: int = 0
    running: int = 0
    begun: int = 0
    away: int = 0
    paid_at: int | None = None

    @property
    def active(self) -> int:
        """The number of jobs that hold a permit."""
        return self.ready + self.running


class Admission(msgspec.Struct, frozen=True):
    """How many jobs may be made ready now; `again` is the instant at which the rate allows more."""

    jobs: int
    again: int | None = None


def admission(terms: Terms, standing: LimitStanding, now: int) -> Admission:
    """Decide how many waiting jobs of a key may be made ready; all times are in microseconds."""
    free: float = math.inf
    if terms.permits is not None:
        free = max(0, terms.permits - standing.active)
    if terms.ordered:
        # Begun jobs go first. Each begun job that is away keeps a permit from the jobs that have not begun.
        free = min(free, standing.begun) + max(0, free - standing.begun - standing.away)
    # Keep few jobs ready, in proportion to the running ones: a more urgent job can't overtake a ready job.
    ahead = min(MOST_READY, max(_LEAST_READY, 4 * standing.running))
    free = min(free, ahead - standing.ready)
    # Refill once at most half of them are left: admitting a few at a time costs more per job.
    if free <= 0 or 2 * standing.ready > ahead:
        return Admission(0)
    if (every := terms.every) is None:
        return Admission(int(free))
    # During a pause no worker starts the ready jobs: they must not add up to more than a burst.
    unclaimed = terms.at_once - standing.ready
    earned = min(tokens(standing.paid_at, now, every, terms.at_once), unclaimed)
    if earned > 0:
        return Admission(int(min(free, earned)), now + every)
    return Admission(0, now + (wait(standing.paid_at, now, every, terms.at_once) if unclaimed > 0 else every))


class PermitsSeen(msgspec.Struct, frozen=True):
    """The state of a key as it was read; `terms` is None if no application has declared its limit."""

    key: str
    standing: LimitStanding
    terms: Terms | None
    now: int

    @property
    def admission(self) -> Admission:
        """How many of the waiting jobs may be made ready."""
        return Admission(0) if self.terms is None else admission(self.terms, self.standing, self.now)


@lru_cache(maxsize=1024)
def _read(declared: str, override: str | None) -> Terms:
    values: dict[str, Any] = {**decode(declared), **({} if override is None else decode(override))}
    known = Terms.__struct_fields__
    return Terms(**{name: value for name, value in values.items() if name in known})
