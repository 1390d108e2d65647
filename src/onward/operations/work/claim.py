"""Claims: a worker takes ready jobs of a queue under its lease."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from operator import itemgetter
from typing import Any

from onward.core.inputs.checks import check_kind, whole_number
from onward.core.inputs.fields import FIRST_PRIORITY, LONGEST, check_text
from onward.core.jobs.job import COLUMNS, Job
from onward.core.policy.policies import DEFAULT_POLICIES
from onward.core.work.claim import MOST_PER_CLAIM, QueuePosition
from onward.core.work.error_record import ErrorRecord
from onward.core.work.lifecycle import End, Failed
from onward.operations.statement import Operation, Row, Scalar, Statement, as_json, moment
from onward.operations.work.finish import finish
from onward.operations.work.leases import worker_lost

_urgency = itemgetter(*map(list(COLUMNS).index, ("priority", "run_at", "id")))
# Sorts before every job.
_FRONT = (FIRST_PRIORITY - 1, 0, "00000000-0000-0000-0000-000000000000")


def claim(
    queue: str,
    limit: int,
    *,
    worker_id: str,
    paused_orgs: Collection[str] = (),
    paused_types: Collection[str] = (),
    job_types: Collection[str] | None = None,
) -> Operation[list[Job]]:
    """Take at most `limit` ready jobs of a queue under the worker's lease, most urgent first.

    Jobs of `paused_orgs` and `paused_types` are skipped, and those of other types than `job_types`, if given.
    The worker checks first whether the queue is paused.
    """
    rows = yield from claim_rows(
        queue,
        limit,
        worker_id=worker_id,
        paused_orgs=paused_orgs,
        paused_types=paused_types,
        job_types=job_types,
    )
    jobs, unreadable = read_claimed(rows, worker_id)
    yield from finish(unreadable)
    return jobs


def claim_rows(
    queue: str,
    limit: int,
    *,
    worker_id: str,
    paused_orgs: Collection[str] = (),
    paused_types: Collection[str] = (),
    job_types: Collection[str] | None = None,
    past: QueuePosition | None = None,
    confined: bool = False,
) -> Operation[Sequence[Row]]:
    """Claim as `claim` does, but return rows: the caller makes jobs of them outside SQLite's writer thread.

    `past` is the position of the last job that the caller claimed; on PostgreSQL only jobs behind it are
    claimed. Until a vacuum, its index still has the entries of all jobs claimed before. SQLite claims from
    the front. A `confined` client is given jobs of its org and project only.
    """
    check_text("queue", queue, longest=LONGEST["queue"])
    whole_number("limit", limit, 1, MOST_PER_CLAIM)
    params: dict[str, Scalar] = {"queue": queue, "limit": limit, "worker": worker_id}
    params |= zip(("past_priority", "past_run_at", "past_id"), _position(past), strict=True)
    if confined or paused_orgs or paused_types or job_types is not None:
        only = None if job_types is None else as_json(sorted(job_types))
        paused = {"orgs": as_json(sorted(paused_orgs)), "types": as_json(sorted(paused_types)), "only": only}
        rows = yield Statement("claim_unpaused_jobs", {**params, **paused})
    else:
        rows = yield Statement("claim_jobs", params)
    return rows


def _position(past: QueuePosition | None) -> tuple[Scalar, ...]:
    if past is None:
        return _FRONT
    check_kind("past", past, QueuePosition, "give the position of the last job that you claimed")
    past.check()
    return past.priority, moment(past.run_at), past.id


def read_claimed(
    rows: Sequence[Row], worker_id: str, order: Callable[[Row], Any] = _urgency
) -> tuple[list[Job], list[End]]:
    """Return the jobs of the rows of a claim, in order, and an end for each row that can't be read.

    Raises WorkerLost if the worker had no right to claim.
    """
    if rows and rows[0][0] is None:
        raise worker_lost(worker_id)
    # Neither database returns changed rows in the order of the claim.
    ordered = sorted(rows, key=order)
    try:
        return Job.from_rows(ordered), []
    except (ValueError, TypeError, OverflowError):
        return _without_unreadable(ordered)


def _without_unreadable(rows: Sequence[Row]) -> tuple[list[Job], list[End]]:
    jobs: list[Job] = []
    unreadable: list[End] = []
    for row in rows:
        try:
            jobs.append(Job.from_row(row))
        except (ValueError, TypeError, OverflowError) as error:
            job = Job.salvaged(row)
            failed = Failed(ErrorRecord("UnreadableJob", f"its row can't be read: {error}"[:1000]))
            unreadable.append(End.of(job, failed, DEFAULT_POLICIES.policy_of(job)))
    return jobs, unreadable
