"""Enqueue jobs.

Every check comes before the first statement, so a refused job leaves the caller's transaction usable.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeVar

from onward.core.jobs.ids import JobId
from onward.core.jobs.job import Enqueued, JobState, NewJob
from onward.core.policy.policies import DEFAULT_POLICIES, Policies
from onward.errors import DuplicateJob, InvalidJob
from onward.operations.flows import followers
from onward.operations.flows.batch_add import join
from onward.operations.jobs.key_conflicts import change_held, check_change, conflict_of
from onward.operations.jobs.new_rows import COLUMNS, check_keys, new_row, new_rows
from onward.operations.statement import Operation, Row, Rows, Scalar, Several, Statement, as_json

T = TypeVar("T")

ScopedKey = tuple[str | None, str | None, str]


def enqueue(
    new: NewJob, job_id: JobId, policies: Policies = DEFAULT_POLICIES, *, noted: bool = True
) -> Operation[Enqueued]:
    """Store a job, or find the job that holds its key and do with it what `on_conflict` says.

    `noted` makes the ledger record that a held key was asked for again.
    """
    if tied(new):
        [new] = yield from join([new])
        if new.after:
            [answer] = yield from _enqueue_followers([new], [job_id], policies, noted=noted)
            return answer
    return (yield from _enqueue(new, job_id, policies, noted=noted))


def _enqueue(new: NewJob, job_id: JobId, policies: Policies, *, noted: bool) -> Operation[Enqueued]:
    rows = yield storing(Rows(COLUMNS, [_checked(new, job_id, policies)]), noted)
    if not rows:
        return Enqueued(job_id, JobState.QUEUED, created=True)
    [answer] = yield from _answers([(new, rows[0])], policies, noted)
    return answer


def tied(new: NewJob) -> bool:
    """Whether a job waits for others or is in a batch, so that one statement is not enough to store it."""
    return isinstance(new, NewJob) and (bool(new.after) or new.batch_id is not None)


def enqueue_many(
    jobs: Sequence[NewJob],
    ids: Sequence[JobId],
    policies: Policies = DEFAULT_POLICIES,
    *,
    at_once: int | None = None,
    noted: bool = True,
) -> Operation[list[Enqueued]]:
    """Store jobs, or find those that hold their keys; return the answers in the order of `jobs`.

    `at_once` splits a large call into statements; the next is built while the database runs the last.
    """
    if not jobs:
        return []
    if any(map(tied, jobs)):
        jobs = yield from join(jobs)
        if any(new.after for new in jobs if tied(new)):
            return (yield from _enqueue_followers(jobs, ids, policies, noted=noted))
    return (yield from _enqueue_many(jobs, ids, policies, at_once=at_once, noted=noted))


def _enqueue_followers(
    jobs: Sequence[NewJob], ids: Sequence[JobId], policies: Policies, *, noted: bool
) -> Operation[list[Enqueued]]:
    """Store jobs of which some wait for others; to be run in one transaction."""
    prepared = yield from followers.prepare(jobs, ids)
    answers = yield from _enqueue_many(prepared.jobs, ids, policies, noted=noted)
    # Without `noted` this is a caller's transaction: its locks last until its end.
    return (yield from followers.connect(prepared, ids, answers, at_once=noted))


def _enqueue_many(
    jobs: Sequence[NewJob],
    ids: Sequence[JobId],
    policies: Policies,
    *,
    at_once: int | None = None,
    noted: bool = True,
) -> Operation[list[Enqueued]]:
    try:
        keys = check_keys(jobs, policies)
    except InvalidJob:
        _point_at_the_first_bad(range(len(jobs)), jobs, ids, policies)
        raise
    first = _first_of_each_key(jobs, ids, keys, policies)
    places = [at for at, job_id in enumerate(ids) if job_id not in first] if first else range(len(ids))
    parts = (
        storing(_rows(places[part], jobs, ids, keys, policies), noted)
        for part in _parts(len(places), at_once)
    )
    rows = yield Several(parts) if at_once and len(places) > at_once else next(parts)
    if not rows and not first:
        return [Enqueued(job_id, JobState.QUEUED, created=True) for job_id in ids]
    found = {row[0]: row for row in rows}
    for repeat, original in first.items():
        _, holder, state, _ = found.get(original, (original, original, JobState.QUEUED, 1))
        found[repeat] = (repeat, holder, state, 0)
    made = (None, None, JobState.QUEUED, 1)
    enqueues = [
        (new, found.get(job_id, (job_id, job_id, *made[2:]))) for new, job_id in zip(jobs, ids, strict=True)
    ]
    return (yield from _answers(enqueues, policies, noted))


def _parts(count: int, at_once: int | None) -> Iterator[slice]:
    """Split `count` jobs into parts; the first is small, so that the database has work early."""
    if not at_once or count <= at_once:
        yield slice(count)
        return
    first = at_once // 5
    yield slice(first)
    for at in range(first, count, at_once):
        yield slice(at, at + at_once)


def _answers(
    enqueues: Sequence[tuple[NewJob, Row]], policies: Policies, noted: bool
) -> Operation[list[Enqueued]]:
    """Return the answers of enqueues, after doing what `on_conflict` says to the holders of their keys."""
    answers = []
    changing = []
    for at, (new, (_, holder, state, created)) in enumerate(enqueues):
        answers.append(Enqueued(holder, state and JobState(state), created=bool(created)))
        if not created:
            conflict = conflict_of(new, policies)
            if conflict == "raise":
                [key] = check_keys([new], policies)
                raise DuplicateJob.of(str(key), holder)
            if conflict != "return":
                changing.append((at, (new, holder)))
    if changing:
        changed = yield from change_held([ask for _, ask in changing], policies)
        for (at, (new, _)), answer in zip(changing, changed, strict=True):
            # The key changed hands meanwhile: enqueue again under it.
            new_id = enqueues[at][1][0]
            answers[at] = answer or (yield from _enqueue(new, new_id, policies, noted=noted))
    return answers


def _checked(new: NewJob, job_id: JobId, policies: Policies) -> tuple[Scalar, ...]:
    row = new_row(new, job_id, policies)
    if new.on_conflict is not None or new.reset_from is not None:
        check_change(new, policies)
    return row


def _rows(
    places: Sequence[int],
    jobs: Sequence[NewJob],
    ids: Sequence[JobId],
    keys: Sequence[str | None],
    policies: Policies,
) -> Rows:
    """Check the jobs at these places, and return them as rows."""
    try:
        for at in places:
            if jobs[at].on_conflict is not None or jobs[at].reset_from is not None:
                check_change(jobs[at], policies)
        return new_rows(_at(places, jobs), _at(places, ids), _at(places, keys), policies)
    except InvalidJob:
        _point_at_the_first_bad(places, jobs, ids, policies)
        raise


def _at(places: Sequence[int], values: Sequence[T]) -> Sequence[T]:
    if isinstance(places, range):
        return values[places.start : places.stop]
    return [values[at] for at in places]


def _point_at_the_first_bad(
    places: Sequence[int], jobs: Sequence[NewJob], ids: Sequence[JobId], policies: Policies
) -> None:
    """Raise for the first job that is refused by itself, with its place in the call."""
    for at in places:
        try:
            _checked(jobs[at], ids[at], policies)
        except InvalidJob as error:
            error.args = (f"jobs[{at}]: {error}",)
            raise


def storing(rows: Rows, noted: bool) -> Statement:
    """Return the statement that stores checked jobs."""
    params: dict[str, Scalar | Rows] = {"jobs": rows, "count": len(rows.values)}
    at = rows.columns.index("key") if "key" in rows.columns else None
    keyed = 0 if at is None else len(rows.values) - [row[at] for row in rows.values].count(None)
    if not keyed:
        return Statement("enqueue_jobs", params)
    # SQLite takes the keys from the stored jobs, which have no column for a key's lifetime.
    lifetimes = {}
    if "lifetime" in rows.columns:
        at = rows.columns.index("lifetime")
        lifetimes = {row[0]: row[at] for row in rows.values}
    params |= {
        "keyed": keyed,
        "lifetime": rows.common.get("lifetime"),
        "lifetimes": as_json(lifetimes),
        "scoped_keys": as_json(_scoped_keys(rows)),
        "noted": int(noted),
    }
    return Statement("enqueue_keyed_jobs", params)


def _scoped_keys(rows: Rows) -> list[tuple[Scalar, ...]]:
    """Return where each key is held: its org, its project and the key itself."""
    places = {name: at for at, name in enumerate(rows.columns)}
    if places.keys().isdisjoint(("org_id", "project_id")):
        org, project = (rows.common.get(name) or "" for name in ("org_id", "project_id"))
        at = places["key"]
        return [(org, project, row[at]) for row in rows.values]

    def of(row: Row, name: str) -> Scalar:
        return (row[places[name]] if name in places else rows.common.get(name)) or ""

    return [(of(row, "org_id"), of(row, "project_id"), of(row, "key")) for row in rows.values]


def _first_of_each_key(
    jobs: Sequence[NewJob], ids: Sequence[JobId], keys: Sequence[str | None], policies: Policies
) -> dict[JobId, JobId]:
    """Map repeats of a key in one call to its first job: one statement can't see its own rows."""
    repeats: dict[JobId, JobId] = {}
    distinct = set(keys)
    if len(distinct - {None}) == len(keys) - keys.count(None):
        return repeats
    holders: dict[ScopedKey, JobId] = {}
    for new, key, job_id in zip(jobs, keys, ids, strict=True):
        if key is not None:
            holder = holders.setdefault((new.org_id, new.project_id, key), job_id)
            if holder != job_id:
                if conflict_of(new, policies) == "raise":
                    raise DuplicateJob.of(key, None)
                repeats[job_id] = holder
    return repeats
