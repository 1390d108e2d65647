"""Read jobs, their runs and their audit; nothing here writes."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from onward.core.inputs.checks import check_kind, whole
from onward.core.inputs.fields import check_texts
from onward.core.jobs.filters import MOST_PER_PAGE, Counts, JobFilter, Page
from onward.core.jobs.history import Attempt, Event
from onward.core.jobs.ids import JobId, normalise_id
from onward.core.jobs.job import WAITING, Job, JobState, instant
from onward.core.jobs.payload import decode
from onward.core.policy.category import Q_DEADLETTER
from onward.core.work.error_record import ErrorRecord
from onward.operations.statement import Operation, Statement, as_json

_CAP = 10_000


def get_many(ids: Collection[JobId]) -> Operation[dict[JobId, Job]]:
    """Read jobs by id, live or ended; an unknown one is absent from the result."""
    check_kind("ids", ids, list | tuple | set | frozenset, "give a list of job ids")
    asked = [normalise_id(job_id) for job_id in ids]
    rows = yield Statement("get_jobs", {"ids": as_json(asked)})
    return {job.id: job for job in Job.from_rows(rows)}


def list_jobs(where: JobFilter, *, limit: int = 50, cursor: JobId | None = None) -> Operation[Page]:
    """Read a page of jobs, newest first."""
    check_kind("where", where, JobFilter, "give a JobFilter, such as JobFilter(state='dead')")
    whole("limit", limit, 1, MOST_PER_PAGE)
    rows = yield Statement("list_jobs", {**where.params(cursor), "limit": limit + 1})
    jobs = Job.from_rows(rows[:limit])
    return Page(jobs, jobs[-1].id if len(rows) > limit else None)


def count(org_id: str | None = None) -> Operation[Counts]:
    """Count live jobs by queue and state, and ended ones up to a cap."""
    check_texts({"org_id": org_id})
    rows = yield Statement("count_jobs", {"org_id": org_id, "cap": _CAP})
    live: dict[str, dict[JobState, int]] = {}
    ended: dict[JobState, int] = {}
    dead_letters = 0
    for queue, state, number in rows:
        if queue == Q_DEADLETTER:
            dead_letters = number
            continue
        (ended if queue is None else live.setdefault(queue, {}))[JobState(state)] = number
    return Counts(live, ended, _CAP, dead_letters)


def attempts_of(job_id: JobId) -> Operation[list[Attempt]]:
    """Read all runs of a job, oldest first; the last comes from the job's own row and may be current."""
    # Read the job first: a run that ends in between is then among the earlier ones, instead of in neither.
    job = (yield from get_many([job_id])).get(job_id)
    rows = yield Statement("list_attempts", {"id": job_id})
    runs = [
        Attempt(
            lease,
            number,
            worker,
            started and instant(started),
            instant(ended),
            outcome,
            error and ErrorRecord.read(error),
            cost,
        )
        for lease, number, worker, started, ended, outcome, error, cost in rows
    ]
    return runs if job is None else [*runs, *_last_run(job, runs)]


def _last_run(job: Job, earlier: Sequence[Attempt]) -> Iterator[Attempt]:
    """Yield the run that the job's own row describes, unless it is among the earlier ones."""
    if job.started_at is None or job.state in WAITING:
        return
    # Releasing a job raises its lease; if it then ended while it waited, that end had no run of its own.
    if {job.lease, job.lease - 1} & {run.lease for run in earlier}:
        return
    cost = job.cost_micros - sum(run.cost_micros or 0 for run in earlier)
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


def events_of(job_id: JobId) -> Operation[list[Event]]:
    """Read the audit of a job, oldest first."""
    rows = yield Statement("list_audit", {"id": job_id})
    return [
        Event(
            instant(at),
            event,
            attempt,
            lease,
            worker_id,
            actor_type,
            actor_id,
            detail and decode(detail),
            action,
        )
        for at, event, attempt, lease, worker_id, actor_type, actor_id, detail, action in rows
    ]
