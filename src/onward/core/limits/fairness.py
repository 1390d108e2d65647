"""Whose turn it is: round after round from org to org, each with as many jobs as its weight says.

A `Turn` says where a claim stopped, so that the next one goes on there, on whatever worker. Within a claim
the jobs of the orgs are interleaved evenly; within an org the more urgent goes first.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from operator import attrgetter
from typing import NamedTuple

Org = str | None
"""None: the jobs of no org, which have a turn of their own."""


class Candidate(NamedTuple):
    """A job that could be claimed; `run_at` in microseconds."""

    id: str
    org_id: Org
    priority: int
    run_at: int


_urgency = attrgetter("priority", "run_at", "id")


class Turn(NamedTuple):
    """The org whose turn it is, and how many of its jobs have gone in this turn."""

    org_id: Org
    gone: int


def by_age(candidates: Sequence[Candidate], now: int, ageing: int | None) -> list[Candidate]:
    """Put jobs in the order in which they go, each raised by one priority for every span that it waits."""
    if not ageing:
        return sorted(candidates, key=_urgency)

    def urgency(job: Candidate) -> tuple[int, int, str]:
        return job.priority - max(0, now - job.run_at) // ageing, job.run_at, job.id

    return sorted(candidates, key=urgency)


def in_turn(orgs: Collection[Org], turn: Turn | None) -> list[Org]:
    """Put orgs in the order of their turns, from the one whose turn it is and around again."""
    first = (False, "") if turn is None else (turn.org_id is None, turn.org_id or "")

    def place(org: Org) -> tuple[bool, tuple[bool, str]]:
        own = (org is None, org or "")
        return own < first, own

    return sorted(orgs, key=place)


def quotas(orgs: Sequence[Org], weights: Mapping[str, int], turn: Turn | None, count: int) -> dict[Org, int]:
    """Tell how many jobs each org would have of so many, if all had enough; `orgs` begin with the turn's."""
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
    """Choose the next so many jobs in their order, and say where the next claim goes on.

    `waiting` has the orgs in the order of their turns, beginning with the one whose turn it is; the jobs of
    each are in their order.
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
    """Spread the jobs of each org evenly over the rounds in which they go."""
    order: list[tuple[float, int, Candidate]] = []
    for place, (org, count) in enumerate(chosen.items()):
        weight = _weight(org, weights)
        order += [((at + 0.5) / weight, place, job) for at, job in enumerate(waiting[org][:count])]
    # No two have the same place in the same round, so this never compares jobs.
    order.sort()
    return [job for _, _, job in order]


def _left(org: Org, weights: Mapping[str, int], turn: Turn | None) -> int:
    gone = turn.gone if turn is not None and turn.org_id == org else 0
    return max(0, _weight(org, weights) - gone)


def _weight(org: Org, weights: Mapping[str, int]) -> int:
    return 1 if org is None else weights.get(org, 1)
