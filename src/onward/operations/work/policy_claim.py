"""The claim of a queue that has a policy: how many jobs may start now, and whose turn it is.

The claiming worker holds the queue's row until the end of the transaction, so such claims are serialized.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta

from onward.core.inputs.checks import whole_number
from onward.core.inputs.fields import LONGEST, check_text
from onward.core.jobs.job import Job
from onward.core.jobs.payload import decode
from onward.core.limits import gcra
from onward.core.limits.fairness import Candidate, Org, Turn, by_age, in_turn, pick, quotas
from onward.core.limits.queue_policy import QueuePolicy
from onward.core.work.claim import MOST_PER_CLAIM, PolicyClaim
from onward.operations.limits.queues import declare
from onward.operations.statement import Operation, Row, Rows, Scalar, Statement, as_json
from onward.operations.work.claim import claim, read_claimed
from onward.operations.work.finish import finish

HEADS = ("org_id", "share")

_MOST_ORGS = 100
# Orgs with few jobs leave their share to the others; this is how often the others fill what is left.
_MOST_ROUNDS = 4
_MICROSECOND = timedelta(microseconds=1)

Params = Mapping[str, Scalar]


@dataclass(frozen=True, slots=True)
class _Locked:
    """A queue's state, as read under the lock of the claim."""

    policy: QueuePolicy
    paid_at: int | None
    turn: Turn | None
    now: int


@dataclass(frozen=True, slots=True)
class _May:
    """Which jobs may be claimed."""

    not_orgs: frozenset[str]
    not_types: frozenset[str]
    only_types: Collection[str] | None


def claim_by_policy(
    queue: str,
    limit: int,
    *,
    worker_id: str,
    declared: QueuePolicy | None = None,
    paused_orgs: Collection[str] = (),
    paused_types: Collection[str] = (),
    job_types: Collection[str] | None = None,
) -> Operation[PolicyClaim]:
    """Claim by the policy of a queue; `declared` is in effect where no worker has declared one yet.

    The caller must run this in one transaction.
    """
    check_text("queue", queue, longest=LONGEST["queue"])
    whole_number("limit", limit, 1, MOST_PER_CLAIM)
    locked = yield from _lock(queue, declared)
    may = _May(frozenset(paused_orgs), frozenset(paused_types), job_types)
    if locked is None or locked.policy.plain:
        jobs = yield from _claim_next(queue, limit, worker_id, may)
        return PolicyClaim(jobs)
    policy = locked.policy
    room = yield from _room(queue, policy)
    rated = _may_start(locked)
    count = min(limit, limit if room is None else room, limit if rated is None else rated)
    jobs, turn = [], locked.turn
    if count > 0 and policy.picks:
        picked, turn = yield from _pick(queue, count, locked, may)
        # By the clock of this moment: else jobs would seem to start before those ended whose room they take.
        jobs = yield from _claim_picked(picked, worker_id)
    elif count > 0:
        jobs = yield from _claim_next(queue, count, worker_id, may)
    paid_at = locked.paid_at
    if jobs and policy.every is not None:
        paid_at = gcra.take(paid_at, locked.now, policy.every, policy.at_once, len(jobs))
    if (paid_at, turn) != (locked.paid_at, locked.turn):
        noted = None if turn is None else as_json(turn)
        yield Statement("note_turn", {"queue": queue, "paid_at": paid_at, "turn": noted})
    return PolicyClaim(jobs, room is not None and room <= len(jobs), _wait(policy, paid_at, locked.now))


def _lock(queue: str, declared: QueuePolicy | None) -> Operation[_Locked | None]:
    lock = Statement("lock_queue", {"queue": queue, "claims": 1})
    rows = yield lock
    if not rows and declared is not None:
        yield from declare({queue: declared})
        rows = yield lock
    if not rows:
        return None
    [(settings, override, paid_at, turn, at)] = rows
    policy = QueuePolicy.read(settings, override)
    return _Locked(policy, paid_at, None if turn is None else Turn(*decode(turn)), at)


def _room(queue: str, policy: QueuePolicy) -> Operation[int | None]:
    """Return how many more jobs may run; None means without limit."""
    if policy.concurrency is None:
        return None
    [(running,)] = yield Statement("count_running", {"queue": queue, "most": policy.concurrency})
    return int(policy.concurrency - running)


def _may_start(locked: _Locked) -> int | None:
    every = locked.policy.every
    return None if every is None else gcra.tokens(locked.paid_at, locked.now, every, locked.policy.at_once)


def _wait(policy: QueuePolicy, paid_at: int | None, at: int) -> timedelta | None:
    if policy.every is None:
        return None
    return gcra.wait(paid_at, at, policy.every, policy.at_once) * _MICROSECOND or None


def _claim_next(queue: str, count: int, worker_id: str, may: _May) -> Operation[list[Job]]:
    paused = {"paused_orgs": may.not_orgs, "paused_types": may.not_types}
    return (yield from claim(queue, count, worker_id=worker_id, **paused, job_types=may.only_types))


def _claim_picked(picked: Sequence[Candidate], worker_id: str) -> Operation[list[Job]]:
    places = {job.id: at for at, job in enumerate(picked)}
    # Also with nothing picked, so that a worker that has lost its lease learns of it.
    params: Params = {"picked": as_json(list(places)), "worker": worker_id}
    rows = yield Statement("claim_picked_jobs", params)
    jobs, unreadable = read_claimed(rows, worker_id, lambda row: places.get(row[0], 0))
    yield from finish(unreadable)
    return jobs


def _pick(
    queue: str, count: int, locked: _Locked, may: _May
) -> Operation[tuple[list[Candidate], Turn | None]]:
    policy = locked.policy
    orgs = may.not_orgs
    only = None if may.only_types is None else as_json(sorted(may.only_types))
    wanted: Params = {"queue": queue, "types": as_json(sorted(may.not_types)), "only": only}
    if policy.fair:
        return (yield from _pick_by_turns(wanted, count, locked, orgs))
    rows = yield Statement("find_aged_jobs", {**wanted, "share": count, "orgs": as_json(sorted(orgs))})
    return by_age(_candidates(rows), locked.now, _ageing(policy))[:count], locked.turn


def _pick_by_turns(
    wanted: Params, count: int, locked: _Locked, paused: frozenset[str]
) -> Operation[tuple[list[Candidate], Turn | None]]:
    policy, turn = locked.policy, locked.turn
    orgs, more_orgs = yield from _orgs(wanted, count, turn, paused)
    found: dict[str, Candidate] = {}
    # Jobs without a fairness mark: there are nearly always none, so look for them once.
    unmarked = count
    shares = quotas(orgs, policy.weights, turn, count)
    for _ in range(_MOST_ROUNDS):
        rows = yield _heads(wanted, shares, unmarked, policy)
        found |= {job.id: job for job in _candidates(rows) if job.org_id not in paused}
        missing, unmarked = count - len(found), 0
        # An org that filled its share may have more jobs.
        had = Counter(job.org_id for job in found.values())
        more = [org for org, share in shares.items() if had[org] >= share]
        if missing <= 0 or not more:
            break
        further = quotas(more, policy.weights, None, missing)
        shares = {org: shares[org] + extra for org, extra in further.items()}
    waiting = _by_org(found.values(), locked)
    picked, at = pick(waiting, policy.weights, turn, count)
    last = orgs[-1] if more_orgs else None
    if (
        last is not None
        and at is not None
        and at.org_id != last
        and any(job.org_id == last for job in picked)
    ):
        # All of these orgs had a turn: continue behind them, else the orgs there would never have one.
        at = Turn(last, policy.weights.get(last, 1))
    return picked, at


def _orgs(
    wanted: Params, count: int, turn: Turn | None, paused: frozenset[str]
) -> Operation[tuple[list[Org], bool]]:
    """Return the next orgs, and whether there are more.

    One org more than jobs wanted, because the first may have had its turn.
    """
    most = min(count + 1, _MOST_ORGS)
    first = "" if turn is None or turn.org_id is None else turn.org_id
    rows = yield Statement(
        "find_orgs", {"queue": wanted["queue"], "first": first, "limit": most + 1 + len(paused)}
    )
    orgs = in_turn({org for (org,) in rows} - paused, turn)
    return orgs[:most], len(orgs) > most


def _heads(wanted: Params, shares: Mapping[Org, int], unmarked: int, policy: QueuePolicy) -> Statement:
    params = {**wanted, "unmarked": unmarked, "heads": Rows.of(HEADS, list(shares.items()))}
    if policy.ageing is None:
        return Statement("find_fair_jobs", params)
    return Statement("find_aged_fair_jobs", params)


def _by_org(found: Iterable[Candidate], locked: _Locked) -> dict[Org, list[Candidate]]:
    by_org: dict[Org, list[Candidate]] = {}
    for job in by_age(list(found), locked.now, _ageing(locked.policy)):
        by_org.setdefault(job.org_id, []).append(job)
    return {org: by_org[org] for org in in_turn(by_org, locked.turn)}


def _candidates(rows: Sequence[Row]) -> list[Candidate]:
    return list(map(Candidate._make, rows))


def _ageing(policy: QueuePolicy) -> int | None:
    return None if policy.ageing is None else policy.ageing // _MICROSECOND
