"""Read jobs, their runs and their audit; nothing here writes."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from onward.core.inputs.checks import check_kind, whole_number
from onward.core.jobs.filters import Counts
from onward.core.jobs.history import Attempt, Event
from onward.core.jobs.ids import AnyJobId, JobId, normalise_id
from onward.core.jobs.job import WAITING, Job, JobState, instant
from onward.core.jobs.payload import decode
from onward.core.page import MOST_PER_PAGE, Cursor, Page, cut, read_cursor
from onward.core.policy.category import Q_DEADLETTER
from onward.core.work.error_record import ErrorRecord
from onward.operations.statement import Operation, Row, Statement, as_json

_CAP = 10_000
_LIVE_CAP = 12_000


def get_many(ids: Collection[AnyJobId]) -> Operation[dict[JobId, Job]]:
    """Read jobs by id, live or ended; an unknown one is absent from the result."""
    check_kind("ids", ids, list | tuple | set | frozenset, "give a list of job ids")
    rows = yield Statement("get_jobs", {"ids": as_json([normalise_id(job_id) for job_id in ids])})
    return {job.id: job for job in Job.from_rows(rows)}


def count() -> Operation[Counts]:
    """Count live jobs by queue and state, and the newest ended ones by state; each count has a cap."""
    rows = yield Statement("count_jobs", {"cap": _CAP, "live_cap": _LIVE_CAP})
    live: dict[str, dict[JobState, int]] = {}
    ended: dict[JobState, int] = {}
    dead_letters = 0
    for queue, state, number in rows:
        if queue == Q_DEADLETTER:
            dead_letters = number
            continue
        if queue is None or number:
            (ended if queue is None else live.setdefault(queue, {}))[JobState(state)] = number
    return Counts(live, ended, _CAP, dead_letters, _LIVE_CAP)


def attempts_of(
    job_id: JobId, *, limit: int = MOST_PER_PAGE, cursor: Cursor | None = None
) -> Operation[Page[Attempt]]:
    """Read a page of the runs of a job, oldest first; the last is from the job's row and may be current."""
    whole_number("limit", limit, 1, MOST_PER_PAGE)
    [after] = read_cursor("jobs.attempts", cursor, int) if cursor is not None else [-1]
    # Read the job first: a run that ends between the two reads is found by the second, not by neither.
    job = (yield from get_many([job_id])).get(job_id)
    rows = yield Statement("list_attempts", {"id": job_id, "after": after, "limit": limit + 1})
    runs = [_attempt(row) for row in rows]
    if job is not None and len(runs) <= limit:
        [(newest, cost)] = yield Statement("sum_attempts", {"id": job_id})
        runs += _last_run(job, newest, cost or 0)
    return cut("jobs.attempts", runs, limit, lambda run: (run.lease,))


def _attempt(row: Row) -> Attempt:
    lease, number, worker, started, ended, outcome, error, cost = row
    begun = started and instant(started)
    return Attempt(
        lease, number, worker, begun, instant(ended), outcome, error and ErrorRecord.read(error), cost
    )


def _last_run(job: Job, newest: int | None, cost_before: int) -> Iterator[Attempt]:
    """Yield the run that the job's own row describes, unless it is among the earlier ones."""
    if job.started_at is None or job.state in WAITING:
        return
    # Releasing a job raises its lease by one. If it then ended while waiting, that end had no run of its own.
    if newest is not None and newest >= job.lease - 1:
        return
    cost = job.cost_micros - cost_before
    failed = job.outcome is not None and job.outcome not in {"succeeded", "skipped"}
    yield Attempt(
        job.lease,
        job.attempt,
        job.worker_id,
        job.started_at,
        job.ended_at,
        job.outcome,
        job.error if failed else None,
        cost if cost > 0 else None,
    )


def events_of(
    job_id: JobId, *, limit: int = MOST_PER_PAGE, cursor: Cursor | None = None
) -> Operation[Page[Event]]:
    """Read a page of the audit of a job, oldest first."""
    whole_number("limit", limit, 1, MOST_PER_PAGE)
    [after] = read_cursor("jobs.events", cursor, int) if cursor is not None else [0]
    rows = yield Statement("list_audit", {"id": job_id, "after": after, "limit": limit + 1})
    page = cut("jobs.events", rows, limit, lambda row: (row[-1],))
    return Page([_event(row) for row in page], page.next_cursor)


def _event(row: Row) -> Event:
    at, event, attempt, lease, worker_id, actor_type, actor_id, detail, action, _ = row
    about = detail and decode(detail)
    return Event(instant(at), event, attempt, lease, worker_id, actor_type, actor_id, about, action)
