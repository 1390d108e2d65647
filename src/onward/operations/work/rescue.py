"""Bring jobs back: rescue those whose worker is gone, and promote those that are due."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta

from onward.core.inputs.checks import check_kind, whole_number
from onward.core.jobs.job import Job, instant
from onward.core.policy.policies import DEFAULT_POLICIES, Policies
from onward.core.work.claim import MOST_PER_CLAIM
from onward.core.work.lease import Leases, Promoted, Swept
from onward.core.work.lifecycle import Lost
from onward.operations.statement import Operation, Statement, as_json
from onward.operations.work.finish import finish
from onward.operations.work.leader import lead
from onward.operations.work.leases import retire

SWEEPER = "sweeper"
"""The lead that a worker must hold to rescue jobs of other workers by itself."""

_NOTHING = Leases(frozenset(), frozenset())
_MICROSECOND = timedelta(microseconds=1)


def find_lost(limit: int = 500, *, policies: Policies = DEFAULT_POLICIES) -> Operation[list[Job]]:
    """Declare workers lost whose lease ran out, and return the jobs that they held.

    A job whose category has a lease of its own is returned only after the worker was silent for that long.
    """
    whole_number("limit", limit, 1, MOST_PER_CLAIM)
    own = {one.name: one.lease // _MICROSECOND for one in policies.registry.categories.values() if one.lease}
    rows = yield Statement("find_lost_jobs", {"limit": limit, "leases": as_json(own)})
    return [Job.readable(row) for row in rows]


def rescue(
    limit: int = 500, *, policies: Policies = DEFAULT_POLICIES, dice: Callable[[], float] = lambda: 1.0
) -> Operation[Leases]:
    """Take back the jobs of lost workers; a job that finishes meanwhile keeps its end, by its lease."""
    lost = yield from find_lost(limit, policies=policies)
    return (yield from _give_back(lost, policies, dice))


def rescue_worker(
    worker_id: str,
    *,
    how: str | None = None,
    policies: Policies = DEFAULT_POLICIES,
    dice: Callable[[], float] = lambda: 1.0,
) -> Operation[Leases]:
    """Take back all jobs of a worker that is known to be dead, without waiting for its lease.

    `how` it died, such as "was ended by SIGKILL", becomes part of its jobs' errors.
    """
    if how is not None:
        check_kind("how", how, str, "say how it died, or leave it out")
    yield from retire(worker_id)
    taken = _NOTHING
    # This ends: a retired worker claims no more, and it no longer holds the jobs that were taken back.
    while True:
        rows = yield Statement("find_held_jobs", {"worker": worker_id, "limit": MOST_PER_CLAIM})
        held = [Job.readable(row) for row in rows]
        more = yield from _give_back(held, policies, dice, how)
        taken = taken.joined(more)
        if len(held) < MOST_PER_CLAIM:
            return taken


def find_held(worker_id: str) -> Operation[list[Job]]:
    """Return the running jobs of a worker."""
    rows = yield Statement("find_held_jobs", {"worker": worker_id, "limit": MOST_PER_CLAIM})
    return Job.from_rows(rows)


def sweep(
    worker_id: str,
    *,
    ttl: timedelta,
    limit: int = 500,
    policies: Policies = DEFAULT_POLICIES,
    dice: Callable[[], float] = lambda: 1.0,
) -> Operation[Swept]:
    """Rescue, if this worker leads; one that was frozen and replaced learns so before it touches a job."""
    if not (yield from lead(SWEEPER, worker_id, ttl=ttl)):
        return Swept(leader=False, leases=_NOTHING)
    return Swept(leader=True, leases=(yield from rescue(limit, policies=policies, dice=dice)))


def promote(limit: int = 500) -> Operation[Promoted]:
    """Make due jobs ready."""
    whole_number("limit", limit, 1, MOST_PER_CLAIM)
    rows = yield Statement("promote_jobs", {"limit": limit})
    queues: dict[str, int] = {}
    next_due = None
    permits: set[str] = set()
    for queue, value, limit_key in rows:
        if limit_key is not None:
            permits.add(limit_key)
        elif queue is not None:
            queues[queue] = queues.get(queue, 0) + value
        elif value is not None:
            next_due = instant(value)
    return Promoted(queues, next_due, frozenset(permits))


def _give_back(
    jobs: Sequence[Job], policies: Policies, dice: Callable[[], float], how: str | None = None
) -> Operation[Leases]:
    if not jobs:
        return _NOTHING
    return (yield from finish([policies.end_of(job, Lost(how), dice()) for job in jobs]))
