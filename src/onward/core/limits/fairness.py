"""Fair turns of orgs: in each round, every org has as many jobs as its weight.

A `Turn` is the point at which a claim stopped; the next claim continues there, on any worker. Within a claim
the jobs of the orgs are interleaved evenly; within an org the more urgent job goes first.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from operator import attrgetter
from typing import NamedTuple

Org = str | None
"""An org id; None for the jobs without an org, which have a turn of their own."""


class Candidate(NamedTuple):
    """A job that could be claimed; `run_at` is in microseconds."""

    id: str
    org_id: Org
    priority: int
    run_at: int


_urgency = attrgetter("priority", "run_at", "id")


class Turn(NamedTuple):
    """The org whose turn it is, and how many of its jobs were claimed in this turn."""

    org_id: Org
    gone: int


def by_age(candidates: Sequence[Candidate], now: int, ageing: int | None) -> list[Candidate]:
    """Return jobs in claim order, each raised by one priority for every `ageing` that it has waited."""
    if not ageing:
        return sorted(candidates, key=_urgency)

    def urgency(job: Candidate) -> tuple[int, int, str]:
        return job.priority - max(0, now - job.run_at) // ageing, job.run_at, job.id

    return sorted(candidates, key=urgency)


def in_turn(orgs: Collection[Org], turn: Turn | None) -> list[Org]:
    """Return orgs in the order of their turns, starting with the org whose turn it is."""
    first = (False, "") if turn is None else (turn.org_id is None, turn.org_id or "")

    def place(org: Org) -> tuple[bool, tuple[bool, str]]:
        own = (org is None, org or "")
        return own < first, own

    return sorted(orgs, key=place)


def quotas(orgs: Sequence[Org], weights: Mapping[str, int], turn: Turn | None, count: int) -> dict[Org, int]:
    """Return each org's share of `count` jobs if all had enough; `orgs` start with the org of the turn."""
    if not orgs:
        return {}
    had = [_left(org, weights, turn if at == 0 else None) for at, org in enumerate(orgs)]
    shares = dict.fromkeys(orgs, 0)
    left = count
    for org, first in zip(orgs, had, strict=True):
        shares[org] = min(left, first)
        left -= shares[org]
    each_round = sum(_weight(org, weights) for org in orgs)
    rounds, left = divmod(left, each_round)
    for org in orgs:
        weight = _weight(org, weights)
        more = min(left, weight)
        shares[org] += rounds * weight + more
        left -= more
    return {org: share for org, share in shares.items() if share}


def pick(
    waiting: Mapping[Org, Sequence[Candidate]], weights: Mapping[str, int], turn: Turn | None, count: int
) -> tuple[list[Candidate], Turn | None]:
    """Return at most `count` jobs in claim order, and the turn at which the next claim continues.

    `waiting` has the orgs in the order of their turns, starting with the org whose turn it is, and the jobs
    of each org in claim order.
    """
    chosen: dict[Org, int] = {}
    left = count
    orgs = [org for org, jobs in waiting.items() if jobs]
    gone = turn.gone if turn is not None and orgs and turn.org_id == orgs[0] else 0
    at = turn
    while left and orgs:
        for org in list(orgs):
            had = chosen.get(org, 0)
            take = min(left, max(0, _weight(org, weights) - gone), len(waiting[org]) - had)
            at = Turn(org, gone + take)
            gone = 0
            left -= take
            if take:
                chosen[org] = had + take
            if had + take == len(waiting[org]):
                orgs.remove(org)
            if not left:
                break
    return _interleaved(waiting, weights, chosen), at


def _interleaved(
    waiting: Mapping[Org, Sequence[Candidate]], weights: Mapping[str, int], chosen: Mapping[Org, int]
) -> list[Candidate]:
    """Return the chosen jobs, those of each org spread evenly over the rounds."""
    order: list[tuple[float, int, Candidate]] = []
    for place, (org, count) in enumerate(chosen.items()):
        weight = _weight(org, weights)
        order += [((at + 0.5) / weight, place, job) for at, job in enumerate(waiting[org][:count])]
    # No two jobs have the same position and place, so the sort never compares jobs.
    order.sort()
    return [job for _, _, job in order]


def _left(org: Org, weights: Mapping[str, int], turn: Turn | None) -> int:
    gone = turn.gone if turn is not None and turn.org_id == org else 0
    return max(0, _weight(org, weights) - gone)


def _weight(org: Org, weights: Mapping[str, int]) -> int:
    return 1 if org is None else weights.get(org, 1)
