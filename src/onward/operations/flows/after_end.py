"""The follow-up work of a job's end: for its followers, its batch, its schedule and its limit.

An end is written at once, with a mark that its follow-up work is pending. That work runs in a transaction of
its own, which removes the mark, so it is done once. The process that wrote the end does it next; a worker's
loop does what was left.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from functools import partial

from onward.core.flows.flow import Tie
from onward.core.inputs.checks import whole_number
from onward.core.jobs.ids import JobId
from onward.core.policy.policies import DEFAULT_POLICIES, Policies
from onward.core.work.claim import MOST_PER_CLAIM
from onward.errors import StoreError
from onward.operations.flows import followers
from onward.operations.flows.batches import count_ends
from onward.operations.flows.followers import Edge, Followed, advance_followers, tie
from onward.operations.flows.pending_end import PendingEnd
from onward.operations.jobs.subjects import delete
from onward.operations.limits.limits import admit
from onward.operations.schedules.runs import record_ended_runs
from onward.operations.statement import Operation, Statement, as_json
from onward.operations.walk import Rest, Step, Walk, reading

_FOLLOWED, _BATCHED, _SCHEDULED = Tie.FOLLOWED.value, Tie.BATCHED.value, Tie.SCHEDULED.value
_DOOMED = Tie.DOOMED.value

# The rounds of follow-up work in one walk: few for a caller that has just ended a job, many for the loop of a
# worker.
_ROUNDS, _MOST_ROUNDS = 20, 1000
# A busy job is usually locked by another process that does the same follow-up work and soon ends.
_RESTS = (0.005, 0.02, 0.08)


@dataclass(frozen=True, slots=True)
class FollowedUp:
    """How many ends, or edges, were processed, and which jobs ended thereby and have follow-up work.

    `busy` are jobs that another process had locked, for a moment or until a caller's transaction ends.
    """

    count: int
    more: frozenset[JobId] = frozenset()
    busy: frozenset[JobId] = frozenset()


def find_pending_ends(limit: int = 500, *, patience: timedelta = timedelta(0)) -> Operation[list[JobId]]:
    """Find jobs that ended at least `patience` ago and have follow-up work pending; locks nothing."""
    whole_number("limit", limit, 1, MOST_PER_CLAIM)
    wait = patience // timedelta(microseconds=1)
    rows = yield Statement("find_pending_ends", {"limit": limit, "patience": wait})
    return [job_id for (job_id,) in rows]


def follow_up_ends(
    ids: Collection[JobId], permits: Collection[str] = (), policies: Policies = DEFAULT_POLICIES
) -> Operation[FollowedUp]:
    """Do the follow-up work of these jobs' ends, and hand out permits of the limits in `permits`.

    To be run in one transaction. Jobs that another process is working on are skipped. Further ends that this
    causes are left to the next transaction, so that none is long and none locks out of order.
    """
    pending: list[PendingEnd] = []
    followed = Followed()
    if ids:
        rows = yield Statement("lock_pending_ends", {"ids": as_json(sorted(ids))})
        pending = [PendingEnd.of(row) for row in rows]
    if waited_for := [one for one in pending if one.ties & _FOLLOWED]:
        followed = yield from advance_followers(waited_for)
    # A parent with too many followers for one transaction is left to the next.
    done = [one for one in pending if one.id not in followed.left | followed.busy]
    if done:
        # Before batches are locked, because other processes wait for those.
        yield Statement("mark_followed_up", {"ids": as_json([one.id for one in done])})
    if batched := [one for one in done if one.ties & _BATCHED]:
        yield from count_ends(batched, policies)
    if scheduled := [one for one in done if one.ties & _SCHEDULED]:
        yield from record_ended_runs(scheduled)
    if doomed := [one.id for one in done if one.ties & _DOOMED]:
        yield from delete(doomed, reason="its subject was deleted while it ran")
    freed = {one.limit_key for one in done if one.limit_key is not None}
    if keys := freed | set(permits) | followed.keys:
        yield from admit(sorted(keys))
    return FollowedUp(len(pending) - len(followed.busy), frozenset(followed.ended), frozenset(followed.busy))


def tie_left(edges: Sequence[Edge]) -> Operation[FollowedUp]:
    """Tie edges that could not be tied when they were stored; to be run in one transaction."""
    followed = yield from tie(edges)
    if followed.keys:
        yield from admit(sorted(followed.keys))
    return FollowedUp(len(followed.states), frozenset(followed.ended))


def follow_up(ids: Collection[JobId], permits: Collection[str], policies: Policies) -> Walk[None]:
    """Do the follow-up work of these ends; a worker's loop does it if the database can't be reached."""
    with suppress(StoreError):
        yield from follow_up_some(ids, permits, policies)


def follow_up_some(ids: Collection[JobId], permits: Collection[str], policies: Policies) -> Walk[int]:
    """Do the follow-up work of these jobs' ends, and of the ends that follow from it; return how many."""
    return (yield from _rounds(frozenset(ids), permits, policies, _ROUNDS))


def follow_up_all(policies: Policies, *, patience: timedelta) -> Walk[int]:
    """Do all follow-up work that is pending; return how many ends had some.

    With no `patience`, jobs that another process is working on are counted too, so 0 means that all follow-up
    work is done. With `patience`, a job is left to other processes for that time after its end, and not
    counted.
    """
    left = frozenset((yield reading(partial(find_pending_ends, patience=patience))))
    found, done = len(left), 0
    edges = yield reading(followers.find_untied)
    if edges:
        tied = yield Step(partial(tie_left, edges), atomic=True)
        done, left = tied.count, left | tied.more
    done += yield from _rounds(left, (), policies, _MOST_ROUNDS)
    return done if patience else max(done, found)


def _rounds(left: frozenset[JobId], permits: Collection[str], policies: Policies, most: int) -> Walk[int]:
    done, rests, busy = 0, iter(_RESTS), frozenset[JobId]()
    for _ in range(most):
        if not left and not permits:
            rest = next(rests, None) if busy else None
            if rest is None:
                break
            yield Rest(rest)
            left, busy = busy, frozenset()
        part = yield Step(partial(follow_up_ends, left, permits, policies), atomic=True)
        done, left, permits, busy = done + part.count, part.more, (), busy | part.busy
    return done
