"""Put jobs in.

Every check comes before the first statement, so a refused job leaves the caller's transaction usable.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from onward.core.ids import JobId
from onward.core.job import Enqueued, JobState, NewJob
from onward.errors import DuplicateJob
from onward.operations.asked import asked_row, asked_rows, check_keys
from onward.operations.statement import Operation, Row, Rows, Scalar, Statement, as_json, moment

__all__ = ["enqueue", "enqueue_many"]

Slot = tuple[str | None, str | None, str]


def enqueue(new: NewJob, job_id: JobId, *, now: datetime | None = None) -> Operation[Enqueued]:
    """Store a job, or find the one that holds its key."""
    rows = yield _statement(asked_row(new, job_id), int(new.key is not None), now)
    return _answer(new, job_id, rows[0] if rows else None)


def enqueue_many(
    jobs: Sequence[NewJob], ids: Sequence[JobId], *, now: datetime | None = None
) -> Operation[list[Enqueued]]:
    """Store jobs by one statement, or find those that hold their keys; answers in the order of asking."""
    keys = check_keys(jobs)
    first = _first_of_each_key(jobs, ids, keys)
    if not first:
        rows = yield _statement(asked_rows(jobs, ids, keys), len(keys) - keys.count(None), now)
        if not rows:
            return [Enqueued(job_id, JobState.QUEUED, created=True) for job_id in ids]
    else:
        pending = [new for new, job_id in zip(jobs, ids, strict=True) if job_id not in first]
        keys = [new.key for new in pending]
        rows = yield _statement(
            asked_rows(pending, [job_id for job_id in ids if job_id not in first], keys),
            len(keys) - keys.count(None),
            now,
        )
    answers = {row[0]: row for row in rows}
    for repeat, original in first.items():
        _, holder, state, _ = answers.get(original, (original, original, JobState.QUEUED, 1))
        answers[repeat] = (repeat, holder, state, 0)
    return [_answer(new, job_id, answers.get(job_id)) for new, job_id in zip(jobs, ids, strict=True)]


def _answer(new: NewJob, job_id: JobId, row: Row | None) -> Enqueued:
    """Tell what an enqueue came to; no row means that the job was made and is queued."""
    if row is None:
        return Enqueued(job_id, JobState.QUEUED, created=True)
    _, holder, state, created = row
    if not created and new.on_conflict == "raise":
        raise DuplicateJob(str(new.key), holder)
    return Enqueued(holder, state and JobState(state), created=bool(created))


def _statement(rows: Rows, keyed: int, now: datetime | None) -> Statement:
    params: dict[str, Scalar | Rows] = {"jobs": rows, "count": len(rows.values), "now": moment(now)}
    if not keyed:
        return Statement("enqueue_jobs", params)
    # SQLite takes the keys from the stored jobs, which do not say how long a key is held.
    lifetimes = {}
    if "lifetime" in rows.columns:
        at = rows.columns.index("lifetime")
        lifetimes = {row[0]: row[at] for row in rows.values}
    params |= {"keyed": keyed, "lifetime": rows.common.get("lifetime"), "lifetimes": as_json(lifetimes)}
    return Statement("enqueue_keyed_jobs", params)


def _first_of_each_key(
    jobs: Sequence[NewJob], ids: Sequence[JobId], keys: Sequence[str | None]
) -> dict[JobId, JobId]:
    """Tell the repeats of a key within one call from its first job: one statement can't see its own rows."""
    repeats: dict[JobId, JobId] = {}
    distinct = set(keys)
    if len(distinct - {None}) == len(keys) - keys.count(None):
        return repeats
    holders: dict[Slot, JobId] = {}
    for new, job_id in zip(jobs, ids, strict=True):
        if new.key is not None:
            holder = holders.setdefault((new.org_id, new.project_id, new.key), job_id)
            if holder != job_id:
                repeats[job_id] = holder
    return repeats
