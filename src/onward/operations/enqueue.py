"""Put jobs in.

Every check comes before the first statement, so a refused job leaves the caller's transaction usable.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from onward.core.ids import JobId
from onward.core.job import Enqueued, JobState, NewJob
from onward.errors import DuplicateJob, InvalidJob
from onward.operations.asked import COLUMNS, asked_row, asked_rows, check_keys
from onward.operations.statement import Operation, Row, Rows, Scalar, Several, Statement, as_json, moment

__all__ = ["enqueue", "enqueue_many"]

Slot = tuple[str | None, str | None, str]


def enqueue(new: NewJob, job_id: JobId, *, now: datetime | None = None) -> Operation[Enqueued]:
    """Store a job, or find the one that holds its key."""
    rows = yield _statement(Rows(COLUMNS, [asked_row(new, job_id)]), now)
    return _answer(new, job_id, rows[0] if rows else None)


def enqueue_many(
    jobs: Sequence[NewJob], ids: Sequence[JobId], *, at_once: int | None = None, now: datetime | None = None
) -> Operation[list[Enqueued]]:
    """Store jobs, or find those that hold their keys; answers in the order of asking.

    `at_once` parts a large call into statements, of which the next is made while the database works.
    """
    if not jobs:
        return []
    try:
        keys = check_keys(jobs)
    except InvalidJob:
        _point_at_the_first_bad(range(len(jobs)), jobs, ids)
        raise
    first = _first_of_each_key(jobs, ids, keys)
    places = [at for at, job_id in enumerate(ids) if job_id not in first]
    size = at_once or len(places)
    parts = (
        _statement(_rows(places[at : at + size], jobs, ids, keys), now) for at in range(0, len(places), size)
    )
    rows = yield Several(parts) if len(places) > size else next(parts)
    if not rows and not first:
        return [Enqueued(job_id, JobState.QUEUED, created=True) for job_id in ids]
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


def _rows(
    places: Sequence[int], jobs: Sequence[NewJob], ids: Sequence[JobId], keys: Sequence[str | None]
) -> Rows:
    """Check the jobs at these places."""
    try:
        return asked_rows(
            [jobs[at] for at in places], [ids[at] for at in places], [keys[at] for at in places]
        )
    except InvalidJob:
        _point_at_the_first_bad(places, jobs, ids)
        raise


def _point_at_the_first_bad(places: Sequence[int], jobs: Sequence[NewJob], ids: Sequence[JobId]) -> None:
    """Refuse the first job that is refused by itself, with its place in the call."""
    for at in places:
        try:
            asked_row(jobs[at], ids[at])
        except InvalidJob as error:
            error.args = (f"jobs[{at}]: {error}",)
            raise


def _statement(rows: Rows, now: datetime | None) -> Statement:
    params: dict[str, Scalar | Rows] = {"jobs": rows, "count": len(rows.values), "now": moment(now)}
    at = rows.columns.index("key") if "key" in rows.columns else None
    keyed = 0 if at is None else sum(row[at] is not None for row in rows.values)
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
                if new.on_conflict == "raise":
                    raise DuplicateJob(new.key, None)
                repeats[job_id] = holder
    return repeats
