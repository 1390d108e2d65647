"""The ends of attempts: each is written for one lease of one job, which must be the newest lease."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from datetime import timedelta

import msgspec

from onward.core.jobs.ids import JobId
from onward.core.jobs.job import ENDED as ENDED_STATES
from onward.core.jobs.job import Job, JobState
from onward.core.jobs.payload import lenient
from onward.core.policy.policies import Policies
from onward.core.work.effect import MAX_RESULT_BYTES
from onward.core.work.error_record import ErrorRecord
from onward.core.work.job_end import JobEnd
from onward.core.work.lease import Leases
from onward.core.work.lifecycle import End, Transition
from onward.operations.records.usage import record, spend
from onward.operations.statement import Operation, Rows, Scalar, Statement, as_json
from onward.operations.tenancy import find_in_scope
from onward.operations.work.park import park
from onward.operations.work.progress import store_last

ENDED = (
    "id", "lease", "event", "state", "attempt", "waits", "crashes", "error", "result", "outcome",
    "action", "detail",
)  # fmt: skip
RETURNED = (
    "id", "lease", "event", "state", "attempt", "waits", "crashes", "error", "outcome", "delay", "ran",
    "cost", "action", "detail",
)  # fmt: skip

FAILED = ("id", "lease", "attempt", "action", "detail")

RERUN = ("id", "lease", "event", "outcome", "ran", "error", "cost", "action", "failed_action", "detail")

_MARKS = ("lost", "cancelled", "again", "tied", "permit")

_LONGEST_WHY = 500
_MICROSECOND = timedelta(microseconds=1)


def finish(ends: Collection[End]) -> Operation[Leases]:
    """Write the outcomes of attempts; a lease that is not the newest is refused, and that is audited."""
    ids = frozenset([end.job_id for end in ends])
    if len(ids) == len(ends):
        return (yield from _finish(ids, ends))
    found = Leases(frozenset(), ids)
    for some in _rounds(ends):
        found = found.joined((yield from _finish(frozenset([end.job_id for end in some]), some)))
    return found


def finish_reported(
    ends: Sequence[JobEnd], policies: Policies, dice: Callable[[], float]
) -> Operation[Leases]:
    """Read the jobs that end, settle them and write their ends; in one transaction if any of them parks.

    A job that the client can't see was lost, too; nothing is written about it.
    """
    outcomes = [end.read_outcome() for end in ends]
    ids = frozenset([end.job_id for end in ends])
    live = [Job.readable(row) for row in (yield Statement("find_ending_jobs", {"ids": as_json(sorted(ids))}))]
    claimed = {(job.id, job.lease): job for job in live if job.state == JobState.RUNNING}
    seen = {job.id for job in live}
    if missing := ids - seen:
        seen |= yield from find_in_scope(missing)
    settled = []
    for end, outcome in zip(ends, outcomes, strict=True):
        if end.job_id in seen:
            job = claimed.get((end.job_id, end.lease))
            settled.append(End.stale(end) if job is None else policies.end_of(job, outcome, dice()))
    leases = yield from finish(settled)
    # SQLite also returns jobs of other orgs that have follow-up work pending.
    return msgspec.structs.replace(leases, lost=leases.lost | (ids - seen), tied=leases.tied & seen)


def _rounds(ends: Collection[End]) -> list[list[End]]:
    """Split ends so that each statement has a job once; of two ends under one lease the first counts."""
    rounds: list[dict[JobId, End]] = []
    for end in {(end.job_id, end.lease): end for end in reversed(list(ends))}.values():
        one = next((one for one in rounds if end.job_id not in one), None)
        if one is None:
            rounds.append(one := {})
        one[end.job_id] = end
    return [list(one.values()) for one in rounds]


def _finish(ids: frozenset[JobId], ends: Collection[End]) -> Operation[Leases]:
    metered = [end for end in ends if end.usage]
    parked = [end for end in ends if end.transition.wait is not None]
    reported = [end for end in ends if end.progress is not None]
    # The caller runs these in one transaction with the ends below.
    costs = (yield from record(metered)) if metered else {}
    if reported:
        yield from store_last(reported)
    lost: set[JobId] = set()
    cancelled: set[JobId] = set()
    tied: set[JobId] = set()
    permits: set[str] = set()
    left = ends
    while left:
        rows = yield _finish_statement(left)
        if not rows:
            break
        marked: dict[str, set[str]] = {mark: set() for mark in _MARKS}
        for name, mark in rows:
            marked[mark].add(name)
        lost |= marked["lost"]
        cancelled |= marked["cancelled"]
        tied |= marked["tied"]
        permits |= marked["permit"]
        again = [end for end in left if end.job_id in marked["again"]]
        # These can't be released, because their cancellation was requested: end them instead.
        left = [end.cancelled() for end in left if end.job_id in marked["cancelled"]]
        left += yield from _rerun(again)
        if parked:
            gone = marked["lost"] | marked["cancelled"] | {end.job_id for end in again if end not in left}
            parked = [end for end in parked if end.job_id not in gone]
    if parked:
        yield from park(parked)
    spent = (yield from spend(costs)) if costs else frozenset()
    return Leases(
        ids - lost, frozenset(lost), frozenset(cancelled), spent, frozenset(tied), frozenset(permits)
    )


def _rerun(ends: Sequence[End]) -> Operation[list[End]]:
    """Start jobs again that were reset while they ran; return the ends of those that were not."""
    if not ends:
        return []
    runs = [
        (
            end.job_id,
            end.lease,
            end.transition.event,
            end.transition.outcome,
            end.ran,
            _error(end.transition),
            sum(used.cost_micros for used in end.usage) or None,
            end.action,
            end.failed_action,
            _audited(end.transition),
        )
        for end in ends
    ]
    rows = yield Statement("rerun_jobs", {"runs": Rows.of(RERUN, runs)})
    again = {job_id for (job_id,) in rows}
    return [end for end in ends if end.job_id not in again]


def _finish_statement(ends: Collection[End]) -> Statement:
    # Most ends share one transition, so this looks at few.
    transitions = {id(end.transition): end.transition for end in ends}.values()
    ended, returned = ends, list[End]()
    any_dead = any(to.state is JobState.DEAD for to in transitions)
    if any(to.state not in ENDED_STATES for to in transitions):
        ended = [end for end in ends if end.transition.state in ENDED_STATES]
        returned = [end for end in ends if end.transition.state not in ENDED_STATES]
    rows = _ended_rows(ended, len(transitions))
    dead = [end for end in ended if end.transition.state is JobState.DEAD] if any_dead else []
    if not returned and not dead and rows.columns == ("id",):
        same = {**dict.fromkeys(ENDED[1:]), **rows.common}
        return Statement("finish_alike", {"ended": Rows(("id",), rows.values), **same})
    back = Rows.of(RETURNED, [_returned_row(end) for end in returned])
    failed = Rows.of(FAILED, [_failed_row(end) for end in dead])
    return Statement("finish_jobs", {"ended": rows, "returned": back, "failed": failed})


def _ended_rows(ends: Collection[End], kinds: int) -> Rows:
    """Return ends as rows; most ends are alike, and their common values are written once."""
    if kinds != 1 or len({id(end.actions) for end in ends}) != 1:
        return Rows.of(ENDED, [(end.job_id, end.lease, *_ending(end)) for end in ends])
    ending = zip(ENDED[2:], _ending(next(iter(ends))), strict=True)
    same = {name: value for name, value in ending if value is not None}
    leases = [end.lease for end in ends]
    if leases.count(leases[0]) == len(leases):
        return Rows(ENDED[:1], [(end.job_id,) for end in ends], {"lease": leases[0], **same})
    return Rows(ENDED[:2], [(end.job_id, end.lease) for end in ends], same)


def _ending(end: End) -> tuple[Scalar, ...]:
    to = end.transition
    return (
        to.event, to.state.value, to.attempt, to.waits, to.crashes, _error(to), _text(to.result),
        to.outcome, end.action, _audited(to),
    )  # fmt: skip


def _returned_row(end: End) -> tuple[Scalar, ...]:
    to = end.transition
    return (
        end.job_id, end.lease, to.event, to.state.value, to.attempt, to.waits, to.crashes, _error(to),
        to.outcome, max(0, to.delay // _MICROSECOND), end.ran,
        sum([used.cost_micros for used in end.usage]) if end.usage else None,
        end.action, _audited(to),
    )  # fmt: skip


def _failed_row(end: End) -> tuple[Scalar, ...]:
    """Return what the audit says of the attempt at which a job dies, besides its death."""
    to = end.transition
    return end.job_id, end.lease, to.attempt, end.failed_action, _audited(to)


def _audited(to: Transition) -> str | None:
    """Return why a job ended so, for the audit; never a message, which may hold a secret."""
    if to.wait is not None:
        return _text(to.wait.audit_detail())
    error = ErrorRecord.of(to.result) if to.outcome == "skipped" else to.error
    if error is None:
        return None
    why = {"error_class": error.error_class, "reason": error.reason}
    return _text({name: text[:_LONGEST_WHY] for name, text in why.items() if text} or None)


def _error(to: Transition) -> str | None:
    return None if to.error is None else _text(to.error.facts())


def _text(value: object) -> str | None:
    # A bad result or error text must never keep a job from ending.
    return None if value is None else lenient(value, MAX_RESULT_BYTES)
