"""The follow-up work of a job's end: for its followers, its batch, its schedule and its limit.

An end is written at once, with a mark that its follow-up work is pending. That work runs in a transaction of
its own, which removes the mark, so it is done once. The process that wrote the end does it next; a worker's
loop does what was left.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import timedelta

from onward.core.flows.flow import Tie
from onward.core.inputs.checks import whole
from onward.core.jobs.ids import JobId
from onward.core.policy.rules import DEFAULT_RULES, Rules
from onward.operations.flows.batches import settle_batches
from onward.operations.flows.ended_job import Settled
from onward.operations.flows.followers import Edge, Followed, settle_followers, tie
from onward.operations.limits.limits import admit
from onward.operations.schedules.schedules import settle_runs
from onward.operations.statement import Operation, Statement, as_json
from onward.operations.work.work import MOST_AT_ONCE

_FOLLOWED, _BATCHED, _SCHEDULED = Tie.FOLLOWED.value, Tie.BATCHED.value, Tie.SCHEDULED.value


@dataclass(frozen=True, slots=True)
class Settling:
    """How many ends, or edges, were processed, and which jobs ended thereby and have follow-up work.

    `busy` are jobs that another process had locked, for a moment or until a caller's transaction ends.
    """

    count: int
    more: frozenset[JobId] = frozenset()
    busy: frozenset[JobId] = frozenset()


def find_unsettled(limit: int = 500, *, patience: timedelta = timedelta(0)) -> Operation[list[JobId]]:
    """Find jobs that ended at least `patience` ago and have follow-up work pending; locks nothing."""
    whole("limit", limit, 1, MOST_AT_ONCE)
    wait = patience // timedelta(microseconds=1)
    rows = yield Statement("find_unsettled", {"limit": limit, "patience": wait})
    return [job_id for (job_id,) in rows]


def settle_ties(
    ids: Collection[JobId], slots: Collection[str] = (), rules: Rules = DEFAULT_RULES
) -> Operation[Settling]:
    """Do the follow-up work of these jobs' ends, and hand out permits of the limits in `slots`.

    To be run in one transaction. Jobs that another process is working on are skipped. Further ends that this
    causes are left to the next transaction, so that none is long and none locks out of order.
    """
    settled: list[Settled] = []
    followed = Followed()
    if ids:
        rows = yield Statement("lock_unsettled", {"ids": as_json(sorted(ids))})
        settled = [Settled.of(row) for row in rows]
    if waited_for := [one for one in settled if one.ties & _FOLLOWED]:
        followed = yield from settle_followers(waited_for)
    # A parent with too many followers for one transaction is left to the next.
    done = [one for one in settled if one.id not in followed.left | followed.busy]
    if done:
        # Before batches are locked, because other processes wait for those.
        yield Statement("mark_settled", {"ids": as_json([one.id for one in done])})
    if batched := [one for one in done if one.ties & _BATCHED]:
        yield from settle_batches(batched, rules)
    if scheduled := [one for one in done if one.ties & _SCHEDULED]:
        yield from settle_runs(scheduled)
    freed = {one.limit_key for one in done if one.limit_key is not None}
    if keys := freed | set(slots) | followed.keys:
        yield from admit(sorted(keys))
    return Settling(len(settled) - len(followed.busy), frozenset(followed.ended), frozenset(followed.busy))


def tie_left(edges: Sequence[Edge]) -> Operation[Settling]:
    """Tie edges that could not be tied when they were stored; to be run in one transaction."""
    followed = yield from tie(edges)
    if followed.keys:
        yield from admit(sorted(followed.keys))
    return Settling(len(followed.states), frozenset(followed.ended))
