"""Check jobs that are to be enqueued, and turn them into rows.

Most jobs of one call differ only in id, key and payload. Everything else, their shape, is checked once.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from functools import lru_cache
from operator import attrgetter
from typing import Any, get_args

from onward.core.inputs.checks import span, whole_number, zoned
from onward.core.inputs.duration import written
from onward.core.inputs.fields import (
    FIRST_PRIORITY,
    LAST_PRIORITY,
    check_column,
    check_text,
    check_texts,
)
from onward.core.inputs.plain_text import kind_of
from onward.core.jobs.ids import JobId, normalise_id
from onward.core.jobs.job import NewJob, micros
from onward.core.jobs.keys import subject_key
from onward.core.jobs.payload import encode, encode_plain, require_arguments
from onward.core.policy.built_in import BUILT_IN
from onward.core.policy.category import DEFAULT_CATEGORY, Lifetime, OnConflict
from onward.core.policy.contract import check_origin, check_queue, check_scheduling
from onward.core.policy.policies import DEFAULT_POLICIES, Policies
from onward.core.secrets.redaction import redact_text
from onward.errors import InvalidJob
from onward.operations.jobs.payload_secrets import scan, scan_many
from onward.operations.statement import Rows, Scalar, as_json

_MICROSECOND = timedelta(microseconds=1)
_MOST_ATTEMPTS = 1_000_000
_PRIORITY = 5
_LONGEST_LIMIT_KEY = 400

_POLICY = ("category", "job_type", "queue", "priority", "max_attempts", "unique", "on_conflict")
_TEXTS = (
    "org_id", "project_id", "actor_type", "actor_id", "request_id", "correlation_id", "subject",
    "traceparent",
)  # fmt: skip
_REST = ("run_at", "delay", "parent_id", "batch_id", "deadline", "timeout", "ties", "pending")
_shape = attrgetter(*_POLICY, *_TEXTS, *_REST)
_JOB_TYPE, _SUBJECT = (*_POLICY, *_TEXTS).index("job_type"), (*_POLICY, *_TEXTS).index("subject")

_SHAPED = (
    "category", "job_type", "queue", "priority", "max_attempts", "lifetime", *_TEXTS,
    "run_at", "delay", "parent_id", "batch_id", "deadline", "timeout_micros", "ties", "pending", "fair",
)  # fmt: skip
COLUMNS = ("id", "payload", "key", "tags", "limit_key", *_SHAPED)
"""All columns that an enqueue writes: those that differ from job to job, and those of the shape."""

Shape = tuple[Any, ...]


def check_keys(jobs: Sequence[NewJob], policies: Policies = DEFAULT_POLICIES) -> list[str | None]:
    """Raise for a value that is no job or a bad key; return the keys, also those derived from a subject."""
    for new in jobs:
        if not isinstance(new, NewJob):
            raise InvalidJob(f"{redact_text(repr(new)):.80} is no job; give a NewJob(job_type=…, payload=…)")
    keys = [new.key for new in jobs]
    if None in keys and any(new.subject is not None for new in jobs):
        keys = [_key_of_subject(new, policies) if new.key is None else new.key for new in jobs]
    check_column("key", keys)
    if None in keys:
        for new, key in zip(jobs, keys, strict=True):
            if key is None and new.unique is not None:
                raise InvalidJob(
                    f"unique is {written(new.unique)}, but the job has no key to hold; give key= too"
                )
    return keys


def _keyless(new: NewJob) -> bool:
    """Whether there is nothing to check about a job's key, as for most jobs that are enqueued singly."""
    return isinstance(new, NewJob) and new.key is None and new.subject is None and new.unique is None


def _key_of_subject(new: NewJob, policies: Policies) -> str | None:
    """Return the key of a job that its category makes unique by subject, else None."""
    if not isinstance(new.subject, str) or policies.category(new.category).unique_by != "subject":
        return None
    return subject_key(new.job_type, new.subject)


def new_row(new: NewJob, job_id: JobId, policies: Policies = DEFAULT_POLICIES) -> tuple[Scalar, ...]:
    """Check one job and return it as a row of `COLUMNS`; costs half of what `new_rows` does for one job."""
    key = None if _keyless(new) else check_keys([new], policies)[0]
    row, limit = _checked(_shape(new), policies)
    tags = None if new.tags is None else _tags(new.tags)
    return job_id, _payload(new, limit, policies), key, tags, _limit_key(new.limit_key), *row


def new_rows(
    jobs: Sequence[NewJob],
    ids: Sequence[JobId],
    keys: Sequence[str | None],
    policies: Policies = DEFAULT_POLICIES,
) -> Rows:
    """Check jobs whose keys were checked, and return them as rows."""
    shapes, kinds = _sorted_out(jobs)
    checked = [_checked(shape, policies) for shape in shapes]
    limits = [limit for _, limit in checked]
    payloads = encode_plain([new.payload for new in jobs], min(limits, default=0))
    if payloads is None:
        payloads = [_payload(new, limits[kind], policies) for new, kind in zip(jobs, kinds, strict=True)]
    else:
        types, labels = [shape[_JOB_TYPE] for shape in shapes], [shape[_SUBJECT] for shape in shapes]
        own_limits = [limits[kind] for kind in kinds]
        payloads = scan_many(jobs, payloads, own_limits, policies, types=types, labels=[*keys, *labels])
    own: dict[str, Sequence[Scalar]] = {"id": ids, "payload": payloads}
    if keys.count(None) < len(keys):
        own["key"] = keys
    if any(new.tags is not None for new in jobs):
        own["tags"] = [None if new.tags is None else _tags(new.tags) for new in jobs]
    if any(new.limit_key is not None for new in jobs):
        own["limit_key"] = [_limit_key(new.limit_key) for new in jobs]
    rows = Rows.of(_SHAPED, [row for row, _ in checked])
    if rows.columns:
        by_kind = list(zip(*rows.values, strict=True))
        own |= {
            name: [column[kind] for kind in kinds] for name, column in zip(rows.columns, by_kind, strict=True)
        }
    return Rows(tuple(own), list(zip(*own.values(), strict=True)), rows.common)


def _sorted_out(jobs: Sequence[NewJob]) -> tuple[Sequence[Shape], Sequence[int]]:
    """Return the distinct shapes, and which of them each job has."""
    shapes = list(map(_shape, jobs))
    # True equals 1, and would be taken for a valid priority.
    if {bool, float}.isdisjoint(
        {type(new.priority) for new in jobs} | {type(new.max_attempts) for new in jobs}
    ):
        try:
            numbers = {shape: at for at, shape in enumerate(dict.fromkeys(shapes))}
            return list(numbers), [numbers[shape] for shape in shapes]
        except TypeError:
            # A value is not hashable: the shapes are checked singly, and the check reports it.
            pass
    return shapes, range(len(shapes))


def _checked(shape: Shape, policies: Policies) -> tuple[tuple[Scalar, ...], int]:
    """Check a shape; return its row of `_SHAPED`, and the size limit of its payloads."""
    policy, texts = shape[: len(_POLICY)], shape[len(_POLICY) : -len(_REST)]
    run_at, delay, parent_id, batch_id, deadline, timeout, ties, pending = shape[-len(_REST) :]
    try:
        _check_texts(texts)
        name, queue, priority, max_attempts, lifetime, limit = _common(policies, *policy)
    except TypeError:
        _check_texts.__wrapped__(texts)
        name, queue, priority, max_attempts, lifetime, limit = _common.__wrapped__(policies, *policy)
    if run_at is not None and delay is not None:
        raise InvalidJob("run_at and delay are both set; give one of them")
    if policy[1] not in BUILT_IN:
        check_origin(policies, *texts[:5])
    if run_at is not None or delay is not None:
        check_scheduling(policies.category(name), run_at, delay)
    row = (
        name, policy[1], queue, priority, max_attempts, lifetime, *texts,
        None if run_at is None else _instant("run_at", run_at),
        None if delay is None else _span("delay", delay),
        None if parent_id is None else normalise_id(parent_id),
        None if batch_id is None else normalise_id(batch_id),
        None if deadline is None else _instant("deadline", deadline),
        None if timeout is None else _span("timeout", timeout),
        ties or None, pending or None,
        1 if queue in policies.registry.queues and policies.registry.queues[queue].fair else None,
    )  # fmt: skip
    return row, limit


@lru_cache(maxsize=1024, typed=True)
def _common(  # noqa: PLR0917 - positional, so that the cache has one key for each
    policies: Policies,
    category: str | None,
    job_type: str,
    queue: str | None,
    level: int | None,
    max_attempts: int | None,
    unique: Lifetime | None,
    on_conflict: str | None,
) -> tuple[str, str, int, int, int | None, int]:
    """Check what many jobs share, and fill in what is unset.

    Return the category, the queue, the priority, the attempts, the key's lifetime and the size limit.
    """
    name = DEFAULT_CATEGORY if category is None else category
    check_texts({"category": name, "job_type": job_type, "queue": queue})
    policy = policies.category(name)
    priority = _PRIORITY if level is None else level
    whole_number("priority", priority, FIRST_PRIORITY, LAST_PRIORITY, error=InvalidJob)
    retry = policies.registry.retries.get(job_type) or policy.retry
    attempts = retry.max_attempts if max_attempts is None else max_attempts
    whole_number("max_attempts", attempts, 1, _MOST_ATTEMPTS, error=InvalidJob)
    if on_conflict is not None and on_conflict not in get_args(OnConflict):
        known = ", ".join(map(repr, get_args(OnConflict)))
        raise InvalidJob(f"on_conflict is {on_conflict!r:.80}; give one of {known}")
    lifetime = _lifetime(policy.key_lifetime or "active" if unique is None else unique)
    queue = queue or policies.queue_of(job_type, name)
    check_queue(policies, name, queue)
    return name, queue, priority, attempts, lifetime, policy.max_payload_bytes


@lru_cache(maxsize=1024)
def _check_texts(texts: tuple[str | None, ...]) -> None:
    check_texts(dict(zip(_TEXTS, texts, strict=True)))


def _payload(new: NewJob, limit: int, policies: Policies) -> str:
    require_arguments(new.payload)
    return scan(new, encode(new.payload, limit=limit, redaction=policies.settings.redact), limit, policies)


def _limit_key(value: str | None) -> str | None:
    if value is not None:
        check_text("limit_key", value, longest=_LONGEST_LIMIT_KEY)
    return value


def _instant(name: str, value: datetime) -> int:
    return micros(zoned(name, value, error=InvalidJob))


def _span(name: str, value: timedelta) -> int:
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
        raise InvalidJob(f"tags is {kind_of(tags)}; give a list of texts")
    for tag in tags:
        check_text("tag", tag, longest=255)
    return as_json(tags)
