"""Put jobs in.

Every check comes before the first statement, so a refused job leaves the caller's transaction usable.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from functools import lru_cache

from onward.core.arguments import span, whole, zoned
from onward.core.category import Lifetime, category
from onward.core.fields import LONGEST, check_text, check_texts
from onward.core.ids import JobId, normalise_id
from onward.core.job import Enqueued, JobState, NewJob, micros
from onward.core.payload import encode
from onward.errors import DuplicateJob, InvalidJob
from onward.operations.statement import Lazy, Operation, Row, Rows, Scalar, Statement, as_json, moment

__all__ = ["enqueue", "enqueue_many"]

COLUMNS = (
    "id", "org_id", "project_id", "job_type", "queue", "category", "priority", "run_at", "delay",
    "max_attempts", "key", "lifetime", "subject", "payload", "actor_type", "actor_id", "request_id",
    "correlation_id", "traceparent", "parent_id", "batch_id", "tags", "deadline", "timeout_micros",
)  # fmt: skip

_MICROSECOND = timedelta(microseconds=1)
_MOST_ATTEMPTS = 1_000_000

Slot = tuple[str | None, str | None, str]


def enqueue(new: NewJob, job_id: JobId, *, now: datetime | None = None) -> Operation[Enqueued]:
    """Store a job, or find the one that holds its key."""
    rows = yield _statement([_row(new, job_id)], now)
    return _answer(new, job_id, rows[0] if rows else None)


def enqueue_many(
    jobs: Sequence[NewJob], ids: Sequence[JobId], *, now: datetime | None = None
) -> Operation[list[Enqueued]]:
    """Store jobs by one statement, or find those that hold their keys; answers in the order of asking."""
    asked_rows = [_row(new, job_id) for new, job_id in zip(jobs, ids, strict=True)]
    first, pending = _first_of_each_key(jobs, asked_rows)
    rows = yield _statement(pending, now)
    if not rows and not first:
        return [Enqueued(job_id, JobState.QUEUED, created=True) for job_id in ids]
    answers = {row[0]: row for row in rows}
    for asked, original in first.items():
        _, holder, state, _ = answers.get(original, (original, original, JobState.QUEUED, 1))
        answers[asked] = (asked, holder, state, 0)
    return [_answer(new, job_id, answers.get(job_id)) for new, job_id in zip(jobs, ids, strict=True)]


def _answer(new: NewJob, job_id: JobId, row: Row | None) -> Enqueued:
    """Tell what an enqueue came to; no row means that the job was made and is queued."""
    if row is None:
        return Enqueued(job_id, JobState.QUEUED, created=True)
    _, holder, state, created = row
    if not created and new.on_conflict == "raise":
        raise DuplicateJob(str(new.key), holder)
    return Enqueued(holder, state and JobState(state), created=bool(created))


def _statement(rows: Sequence[tuple[Scalar, ...]], now: datetime | None) -> Statement:
    params: dict[str, Scalar | Rows | Lazy] = {
        "jobs": Rows(COLUMNS, rows),
        "ids": lambda: as_json([row[0] for row in rows]),
        "timed": lambda: as_json([row[0] for row in rows if row[7] is not None or row[8] is not None]),
        "now": moment(now),
    }
    keyed = [row for row in rows if row[10] is not None]
    if not keyed:
        return Statement("enqueue_jobs", params)
    params["keyed"] = lambda: as_json(
        [(row[0], row[1] or "", row[2] or "", row[10], row[11]) for row in keyed]
    )
    params["count"] = len(keyed)
    return Statement("enqueue_keyed_jobs", params)


def _first_of_each_key(
    jobs: Sequence[NewJob], rows: Sequence[tuple[Scalar, ...]]
) -> tuple[dict[JobId, JobId], Sequence[tuple[Scalar, ...]]]:
    """Tell the repeats of a key within one call from its first job: one statement can't see its own rows."""
    holders: dict[Slot, JobId] = {}
    repeats: dict[JobId, JobId] = {}
    pending = []
    keyed = [(new.org_id, new.project_id, new.key) for new in jobs if new.key is not None]
    if len(set(keyed)) == len(keyed):
        return repeats, rows
    for new, row in zip(jobs, rows, strict=True):
        job_id = str(row[0])
        if new.key is not None:
            holder = holders.setdefault((new.org_id, new.project_id, new.key), job_id)
            if holder != job_id:
                repeats[job_id] = holder
                continue
        pending.append(row)
    return repeats, pending


def _row(new: NewJob, job_id: JobId) -> tuple[Scalar, ...]:
    """Check a job and give it as a row of `COLUMNS`."""
    if not isinstance(new, NewJob):
        raise InvalidJob(f"{new!r:.80} is no job; give a NewJob(job_type=…, payload=…)")
    texts = (
        new.org_id, new.project_id, new.actor_type, new.actor_id, new.request_id, new.correlation_id,
        new.subject, new.traceparent,
    )  # fmt: skip
    shared = (
        new.category, new.job_type, new.queue, new.priority, new.max_attempts, new.unique, new.on_conflict,
    )  # fmt: skip
    try:
        _check_texts(texts)
        queue, max_attempts, lifetime, limit = _common(*shared)
    except TypeError:
        # Something that no cache can hold; without one the check names it.
        _check_texts.__wrapped__(texts)
        queue, max_attempts, lifetime, limit = _common.__wrapped__(*shared)
    key = new.key
    if key is not None:
        check_text("key", key, longest=LONGEST["key"])
    elif new.unique is not None:
        raise InvalidJob(f"unique is {new.unique!r}, but there is no key that could be held; give key= too")
    if not isinstance(new.payload, dict):
        raise InvalidJob(f"payload is a {type(new.payload).__name__}; give a dict of arguments")
    return (
        job_id, new.org_id, new.project_id, new.job_type, queue, new.category, new.priority,
        None if new.run_at is None else _instant("run_at", new.run_at),
        None if new.delay is None else _delay(new),
        max_attempts, key, lifetime, new.subject, encode(new.payload, limit=limit),
        new.actor_type, new.actor_id, new.request_id, new.correlation_id, new.traceparent,
        None if new.parent_id is None else normalise_id(new.parent_id),
        None if new.batch_id is None else normalise_id(new.batch_id),
        None if new.tags is None else _tags(new.tags),
        None if new.deadline is None else _instant("deadline", new.deadline),
        None if new.timeout is None else _span("timeout", new.timeout),
    )  # fmt: skip


@lru_cache(maxsize=1024, typed=True)
def _common(  # noqa: PLR0917 - positional, so that the cache has one key for each
    name: str,
    job_type: str,
    queue: str | None,
    priority: int,
    max_attempts: int | None,
    unique: Lifetime | None,
    on_conflict: str,
) -> tuple[str, int, int | None, int]:
    """Check what many jobs share: gives queue, attempts, the key's lifetime and the size limit."""
    check_texts({"category": name, "job_type": job_type, "queue": queue})
    policy = category(name)
    whole("priority", priority, 1, 10, error=InvalidJob)
    attempts = policy.retry.max_attempts if max_attempts is None else max_attempts
    whole("max_attempts", attempts, 1, _MOST_ATTEMPTS, error=InvalidJob)
    if on_conflict not in {"return", "raise"}:
        raise InvalidJob(f"on_conflict is {on_conflict!r}; give 'return' or 'raise'")
    lifetime = _lifetime(policy.key_lifetime or "active" if unique is None else unique)
    return queue or policy.queue, attempts, lifetime, policy.max_payload_bytes


@lru_cache(maxsize=1024)
def _check_texts(texts: tuple[str | None, ...]) -> None:
    check_texts(dict(zip(_TEXT_FIELDS, texts, strict=True)))


_TEXT_FIELDS = (
    "org_id", "project_id", "actor_type", "actor_id", "request_id", "correlation_id", "subject",
    "traceparent",
)  # fmt: skip


def _instant(name: str, value: datetime) -> int:
    return micros(zoned(name, value, error=InvalidJob))


def _delay(new: NewJob) -> int:
    if new.run_at is not None:
        raise InvalidJob("run_at and delay are both set; give one of them")
    return _span("delay", new.delay)


def _span(name: str, value: timedelta | None) -> int:
    return span(name, value, error=InvalidJob) // _MICROSECOND


def _lifetime(unique: Lifetime) -> int | None:
    match unique:
        case "active":
            return 0
        case "forever":
            return None
        case timedelta():
            return _span("unique", unique)
    raise InvalidJob(f"unique is {unique!r}; give 'active', 'forever' or a timedelta")


def _tags(tags: list[str]) -> str:
    if not isinstance(tags, list | tuple):
        raise InvalidJob(f"tags is a {type(tags).__name__}; give a list of texts")
    for tag in tags:
        check_text("tag", tag, longest=255)
    return as_json(tags)
