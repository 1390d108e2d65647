"""What a worker does: hold a lease, claim jobs, and write their outcomes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import timedelta
from operator import itemgetter
from typing import Any

from onward.core.inputs.checks import check_kind, span, whole_number
from onward.core.inputs.fields import LONGEST, check_text
from onward.core.jobs.ids import JobId
from onward.core.jobs.job import COLUMNS, Job
from onward.core.jobs.job import ENDED as ENDED_STATES
from onward.core.jobs.payload import lenient
from onward.core.policy.policies import DEFAULT_POLICIES
from onward.core.work.error_record import ErrorRecord
from onward.core.work.lease import Leases
from onward.core.work.lifecycle import End, Failed, Transition
from onward.errors import InvalidSetting, WorkerLost
from onward.operations.records.usage import record, spend
from onward.operations.statement import Operation, Row, Rows, Scalar, Statement, as_json, moment
from onward.operations.work.leader import abdicate
from onward.operations.work.park import park
from onward.operations.work.progress import store_last

MAX_RESULT_BYTES = 1_048_576

ENDED = (
    "id", "lease", "event", "state", "attempt", "waits", "crashes", "error", "result", "outcome",
    "action", "detail",
)  # fmt: skip
RETURNED = (
    "id", "lease", "event", "state", "attempt", "waits", "crashes", "error", "outcome", "delay", "ran",
    "cost", "action", "detail",
)  # fmt: skip

RERUN = ("id", "lease", "event", "outcome", "ran", "error", "cost", "action", "detail")

MOST_AT_ONCE = 10_000

_TOLD = ("lost", "cancelled", "again", "tied", "slot")

_LONGEST_WHY = 500
_urgency = itemgetter(*map(list(COLUMNS).index, ("priority", "run_at", "id")))
# Sorts before every job.
_FRONT = (0, 0, "00000000-0000-0000-0000-000000000000")
_MICROSECOND = timedelta(microseconds=1)
_SHORTEST_LEASE = timedelta(milliseconds=1)


def register(worker_id: str, *, lease: timedelta, info: Mapping[str, Any] | None = None) -> Operation[None]:
    """Register a worker with its lease; an id serves one run of one process."""
    check_text("worker_id", worker_id, longest=200)
    rows = yield Statement(
        "register_worker",
        {
            "worker": worker_id,
            "info": lenient(info or {}, 65_536),
            "lease": _micros(span("lease", lease, least=_SHORTEST_LEASE)),
        },
    )
    if not rows:
        raise InvalidSetting(f"worker id {worker_id!r} is taken; give every start of a process a new one")


def extend(
    worker_id: str, leases: Mapping[JobId, int], *, lease: timedelta, idle: bool = False
) -> Operation[Leases]:
    """Renew a worker's lease; return which of its jobs it still holds and which should be cancelled."""
    rows = yield Statement(
        "extend_worker",
        {
            "worker": worker_id,
            "lease": _micros(span("lease", lease, least=_SHORTEST_LEASE)),
            "idle": int(idle),
        },
    )
    if not rows:
        raise _worker_lost(worker_id)
    running = {job_id: (number, cancel) for job_id, number, cancel in rows if job_id is not None}
    held = frozenset(job_id for job_id, number in leases.items() if running.get(job_id, (None,))[0] == number)
    cancelled = frozenset(job_id for job_id in held if running[job_id][1])
    return Leases(held, frozenset(leases) - held, cancelled)


def retire(worker_id: str) -> Operation[bool]:
    """End a worker's lease at once, so that its jobs can be rescued; False for an unknown worker."""
    rows = yield Statement("retire_worker", {"worker": worker_id})
    yield from abdicate(worker_id)
    return bool(rows)


def claim(
    queue: str,
    limit: int,
    *,
    worker_id: str,
    paused_orgs: Collection[str] = (),
    paused_types: Collection[str] = (),
) -> Operation[list[Job]]:
    """Take at most `limit` ready jobs of a queue under the worker's lease, most urgent first.

    Jobs of `paused_orgs` and `paused_types` are skipped. The worker checks first whether the queue is paused.
    """
    rows = yield from claim_rows(
        queue, limit, worker_id=worker_id, paused_orgs=paused_orgs, paused_types=paused_types
    )
    return (yield from read_claimed(rows, worker_id))


def claim_rows(
    queue: str,
    limit: int,
    *,
    worker_id: str,
    paused_orgs: Collection[str] = (),
    paused_types: Collection[str] = (),
    past: Job | None = None,
) -> Operation[Sequence[Row]]:
    """Claim as `claim` does, but return rows: the caller makes jobs of them outside SQLite's writer thread.

    `past` is the last job of the caller's last claim; on PostgreSQL only jobs behind it are claimed. Until a
    vacuum, its index still has the entries of all jobs claimed before. SQLite claims from the front.
    """
    check_text("queue", queue, longest=LONGEST["queue"])
    whole_number("limit", limit, 1, MOST_AT_ONCE)
    asked: dict[str, Scalar] = {"queue": queue, "limit": limit, "worker": worker_id}
    asked |= zip(("past_priority", "past_run_at", "past_id"), _place_of(past), strict=True)
    if paused_orgs or paused_types:
        paused = {"orgs": as_json(sorted(paused_orgs)), "types": as_json(sorted(paused_types))}
        rows = yield Statement("claim_unpaused_jobs", {**asked, **paused})
    else:
        rows = yield Statement("claim_jobs", asked)
    return rows


def _place_of(past: Job | None) -> tuple[Scalar, ...]:
    if past is None:
        return _FRONT
    check_kind("past", past, Job, "give the last job of your last claim")
    return past.priority, moment(past.run_at), past.id


def read_claimed(
    rows: Sequence[Row], worker_id: str, order: Callable[[Row], Any] = _urgency
) -> Operation[list[Job]]:
    """Make jobs of the rows of a claim, in order; raises WorkerLost if the worker had no right to claim."""
    jobs = jobs_of(rows, worker_id, order)
    return (yield from _leave_out_the_spoilt(sorted(rows, key=order))) if jobs is None else jobs


def jobs_of(rows: Sequence[Row], worker_id: str, order: Callable[[Row], Any] = _urgency) -> list[Job] | None:
    """Make jobs of the rows of a claim, in order; None if any of them can't be read.

    Raises WorkerLost if the worker had no right to claim.
    """
    if rows and rows[0][0] is None:
        raise _worker_lost(worker_id)
    # Neither database returns changed rows in the order of the claim.
    try:
        return Job.from_rows(sorted(rows, key=order))
    except (ValueError, TypeError, OverflowError):
        return None


def _leave_out_the_spoilt(rows: Sequence[Row]) -> Operation[list[Job]]:
    """Fail the jobs that can't be read, so that they end and delay no other job."""
    jobs: list[Job] = []
    spoilt: list[End] = []
    for row in rows:
        try:
            jobs.append(Job.from_row(row))
        except (ValueError, TypeError, OverflowError) as error:
            job = Job.salvaged(row)
            failed = Failed(ErrorRecord("UnreadableJob", f"its row can't be read: {error}"[:1000]))
            spoilt.append(End.of(job, failed, DEFAULT_POLICIES.policy_of(job)))
    yield from finish(spoilt)
    return jobs


def finish(ends: Collection[End]) -> Operation[Leases]:
    """Write the outcomes of attempts; a lease that is not the newest is refused, and that is audited."""
    asked = frozenset([end.job_id for end in ends])
    if len(asked) == len(ends):
        return (yield from _finish(asked, ends))
    found = Leases(frozenset(), asked)
    for some in _turns(ends):
        found = found.joined((yield from _finish(frozenset([end.job_id for end in some]), some)))
    return found


def _turns(ends: Collection[End]) -> list[list[End]]:
    """Split ends so that each statement has a job once; of two ends under one lease the first counts."""
    turns: list[dict[JobId, End]] = []
    for end in {(end.job_id, end.lease): end for end in reversed(list(ends))}.values():
        turn = next((turn for turn in turns if end.job_id not in turn), None)
        if turn is None:
            turns.append(turn := {})
        turn[end.job_id] = end
    return [list(turn.values()) for turn in turns]


def _finish(asked: frozenset[JobId], ends: Collection[End]) -> Operation[Leases]:
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
    slots: set[str] = set()
    left = ends
    while left:
        rows = yield _finish_statement(left)
        if not rows:
            break
        told: dict[str, set[str]] = {name: set() for name in _TOLD}
        for name, what in rows:
            told[what].add(name)
        lost |= told["lost"]
        cancelled |= told["cancelled"]
        tied |= told["tied"]
        slots |= told["slot"]
        again = [end for end in left if end.job_id in told["again"]]
        # These can't be released, because their cancellation was requested: end them instead.
        left = [end.cancelled() for end in left if end.job_id in told["cancelled"]]
        left += yield from _rerun(again)
        if parked:
            gone = told["lost"] | told["cancelled"] | {end.job_id for end in again if end not in left}
            parked = [end for end in parked if end.job_id not in gone]
    if parked:
        yield from park(parked)
    spent = (yield from spend(costs)) if costs else frozenset()
    return Leases(
        asked - lost, frozenset(lost), frozenset(cancelled), spent, frozenset(tied), frozenset(slots)
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
    if any(to.state not in ENDED_STATES for to in transitions):
        ended = [end for end in ends if end.transition.state in ENDED_STATES]
        returned = [end for end in ends if end.transition.state not in ENDED_STATES]
    rows = _ended_rows(ended, len(transitions))
    if not returned and rows.columns == ("id",):
        same = {**dict.fromkeys(ENDED[1:]), **rows.common}
        return Statement("finish_alike", {"ended": Rows(("id",), rows.values), **same})
    back = Rows.of(RETURNED, [_returned_row(end) for end in returned])
    return Statement("finish_jobs", {"ended": rows, "returned": back})


def _ended_rows(ends: Collection[End], kinds: int) -> Rows:
    """Return ends as rows; most ends are alike, and their common values are written once."""
    if kinds != 1 or len({id(end.actions) for end in ends}) != 1:
        return Rows.of(ENDED, [(end.job_id, end.lease, *_ending(end)) for end in ends])
    told = zip(ENDED[2:], _ending(next(iter(ends))), strict=True)
    same = {name: value for name, value in told if value is not None}
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
        to.outcome, max(0, _micros(to.delay)), end.ran,
        sum([used.cost_micros for used in end.usage]) if end.usage else None,
        end.action, _audited(to),
    )  # fmt: skip


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


def _micros(span: timedelta) -> int:
    return span // _MICROSECOND


def _worker_lost(worker_id: str) -> WorkerLost:
    return WorkerLost(
        f"worker {worker_id!r} was never registered (call register() first), or its lease ran out and "
        "its jobs were given to others (stop its handlers and register under a new id)"
    )
