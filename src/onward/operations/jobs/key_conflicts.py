"""Idempotency keys: what an enqueue does to the job that holds its key, and the ledger of all keys."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

import msgspec

from onward.core.bulk import Bulk, Changed
from onward.core.inputs.checks import whole_number
from onward.core.inputs.fields import LONGEST, check_reason, check_text, check_texts
from onward.core.jobs.debounce import Held, due_at
from onward.core.jobs.ids import JobId
from onward.core.jobs.job import ENDED, WAITING, Enqueued, JobState, Merge, NewJob, instant
from onward.core.jobs.ledger import Key
from onward.core.jobs.payload import decode
from onward.core.page import MOST_PER_PAGE, Cursor, Page, cut, make_cursor, read_cursor
from onward.core.policy.category import DEFAULT_CATEGORY, OnConflict
from onward.core.policy.policies import Policies
from onward.errors import InvalidJob
from onward.operations.jobs.new_rows import COLUMNS, check_keys, new_row
from onward.operations.statement import Operation, Row, Rows, Scalar, Statement, as_json


class KeyScope(NamedTuple):
    """Where a key is held: it is unique within an org and a project. Empty text stands for none."""

    org_id: str
    project_id: str
    key: str


_START = KeyScope("", "", "")
_MOST_PRUNED = 100_000
_MOST_TRIES = 5
_KINDS = {"replace": "replaced", "reset": "reset", "coalesce": "coalesced"}
_STATES: dict[str, frozenset[JobState]] = {
    "replace": WAITING,
    "coalesce": WAITING | {JobState.RUNNING},
    "reset": WAITING | ENDED | {JobState.RUNNING},
}
CHANGES = (
    "id", "job_type", "org_id", "project_id", "key", "kind", "states", "payload", "priority", "max_attempts",
    "run_at", "delay", "deadline", "timeout_micros", "lifetime", "actor_type", "actor_id", "request_id",
    "correlation_id", "traceparent", "limit_key",
)  # fmt: skip


def conflict_of(new: NewJob, policies: Policies) -> OnConflict:
    """Return what an enqueue does when its key is held: its own `on_conflict`, or that of its category."""
    return new.on_conflict or policies.category(new.category).on_conflict


def changes_holder(new: NewJob, policies: Policies) -> bool:
    """Whether an enqueue may change the holder of its key; values that are no job are refused elsewhere."""
    if not isinstance(new, NewJob) or (new.key is None and new.subject is None):
        return False
    category = DEFAULT_CATEGORY if new.category is None else new.category
    policy = policies.registry.categories.get(category) if isinstance(category, str) else None
    return (new.on_conflict or (policy and policy.on_conflict)) in _KINDS


def check_change(new: NewJob, policies: Policies) -> None:
    """Raise for a change that can't be made to the job that holds the key."""
    conflict = conflict_of(new, policies)
    if new.reset_from is not None:
        if conflict != "reset":
            raise InvalidJob(f"reset_from is set with on_conflict={conflict!r}; it needs on_conflict='reset'")
        states: Any = new.reset_from
        if isinstance(states, str) or not isinstance(states, Collection):
            raise InvalidJob(f"reset_from is {states!r:.80}; give a set of states such as {{'dead'}}")
        unknown = {str(state) for state in states} - set(JobState)
        if unknown or not new.reset_from:
            named = ", ".join(sorted(unknown)) or "nothing"
            raise InvalidJob(f"reset_from names {named}; give some of {', '.join(JobState)}")
    if conflict == "coalesce" and not callable(new.merge):
        raise InvalidJob(
            "on_conflict='coalesce' needs a function that merges two payloads: give merge=, "
            "or coalesce= where the job type is defined"
        )


def change_held(asks: Sequence[tuple[NewJob, JobId]], policies: Policies) -> Operation[list[Enqueued | None]]:
    """Apply each enqueue to the job that holds its key; enqueues about the same job are applied in order.

    The answer is None for an enqueue whose key has passed to another job meanwhile.
    """
    answers: list[Enqueued | None] = [None] * len(asks)
    left = dict.fromkeys(range(len(asks)), 0)
    while left:
        first: dict[JobId, int] = {}
        for at in left:
            first.setdefault(asks[at][1], at)
        changes = []
        for holder, at in first.items():
            changes.append((yield from _change(asks[at][0], holder, policies)))
        rows = yield Statement("change_held_jobs", {"changes": Rows.of(CHANGES, changes)})
        found = {row[0]: row for row in rows}
        for holder, at in first.items():
            if holder not in found:
                del left[at]
                continue
            _, state, change = found[holder]
            answers[at] = Enqueued(holder, state and JobState(state), created=False, change=change)
            # Without a state, the job ended meanwhile, and a new statement finds it; or it was removed.
            left[at] += 1
            if state is not None or left[at] == _MOST_TRIES:
                del left[at]
    return answers


def _change(new: NewJob, holder: JobId, policies: Policies) -> Operation[tuple[Scalar, ...]]:
    """Return the row that describes the change of the holder."""
    conflict = conflict_of(new, policies)
    kind, may_change = _KINDS[conflict], _STATES[conflict]
    if conflict == "coalesce" or new.debounce is not None:
        [key] = check_keys([new], policies)
        new = yield from _changed(new, _scope(str(key), new.org_id, new.project_id), holder)
    if new.debounce is not None:
        # While the job runs, the change applies to its next run.
        kind, may_change = "debounced", _STATES["coalesce"]
    row = dict(zip(COLUMNS, new_row(new, holder, policies), strict=True))
    states = may_change if new.reset_from is None else new.reset_from
    named: dict[str, Scalar] = {"kind": kind, "states": " ".join(sorted(states))}
    return tuple((named | row)[name] for name in CHANGES)


def _changed(new: NewJob, scope: KeyScope, holder: JobId) -> Operation[NewJob]:
    """Return an enqueue, merged with the payload and the due time of its holder, which is locked now."""
    if not (yield Statement("lock_held_job", {**scope._asdict(), "id": holder})):
        return new
    held: dict[str, Scalar] = {"id": holder, "job_type": new.job_type}
    for row in (yield Statement("read_held_job", held)):
        state, payload, next_payload = row[:3]
        if new.debounce is not None:
            due = due_at(_held(row), new.debounce, new.debounce_max)
            new = msgspec.structs.replace(new, run_at=due, delay=None)
        if new.merge is not None:
            # Merge with the running payload, too: that run may fail, and then only the next one is left.
            base = next_payload if state == JobState.RUNNING and next_payload is not None else payload
            new = msgspec.structs.replace(new, payload=_merged(new.merge, decode(base), new.payload))
    return new


def _merged(merge: Merge, held: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    merged = merge(held, new)
    if not isinstance(merged, dict):
        raise InvalidJob(f"merge returned {merged!r:.80} for two payloads of one key; it must return a dict")
    return merged


def _held(row: Row) -> Held:
    state, _, _, created_at, started_at, run_at, attempt, now = row
    started = None if started_at is None else instant(started_at)
    return Held(JobState(state), instant(created_at), started, instant(run_at), attempt, instant(now))


def get_key(key: str, *, org_id: str | None = None, project_id: str | None = None) -> Operation[Key | None]:
    """Read one line of the ledger; None if the key was never seen, or was forgotten."""
    rows = yield Statement("get_key", _scope(key, org_id, project_id)._asdict())
    return _read(rows[0]) if rows else None


def list_keys(*, limit: int = 50, cursor: Cursor | None = None) -> Operation[Page[Key]]:
    """Read a page of the ledger, ordered by org, project and key."""
    whole_number("limit", limit, 1, MOST_PER_PAGE)
    after = _START if cursor is None else _read_place("keys", cursor)
    place: dict[str, Scalar] = {f"after_{name}": value for name, value in after._asdict().items()}
    rows = yield Statement("list_keys", {**place, "limit": limit + 1})
    keys = [_read(row) for row in rows]
    return cut("keys", keys, limit, lambda one: (one.org_id or "", one.project_id or "", one.key))


def forget(
    key: str, *, reason: str, org_id: str | None = None, project_id: str | None = None
) -> Operation[Changed]:
    """Free a key whatever its lifetime: its next enqueue makes a new job."""
    reason = check_reason(reason)
    scope = _scope(key, org_id, project_id)._asdict()
    rows = yield Statement("forget_key", {**scope, "detail": as_json({"key": key, "reason": reason})})
    return Changed(bool(rows))


def prune(limit: int = MOST_PER_PAGE, *, cursor: Cursor | None = None) -> Operation[Bulk]:
    """Remove the lapsed keys of a page of the ledger."""
    after = _START if cursor is None else _read_place("keys.prune", cursor)
    removed, end = yield from prune_after(after, limit)
    left = None if end is None else make_cursor("keys.prune", *end)
    return Bulk(found=removed, done=removed, next_cursor=left)


def prune_after(after: KeyScope, limit: int) -> Operation[tuple[int, KeyScope | None]]:
    """Remove the lapsed ones of the next keys; return how many, and the last key that was looked at."""
    whole_number("limit", limit, 1, _MOST_PRUNED)
    start: dict[str, Scalar] = {**after._asdict()}
    ends = yield Statement("end_of_keys", {**start, "limit": limit})
    if not ends:
        return 0, None
    end = KeyScope(*ends[0])
    upto: dict[str, Scalar] = {"end_org": end.org_id, "end_project": end.project_id, "end_key": end.key}
    lapsed = yield Statement("lock_lapsed_keys", {**start, **upto})
    scopes = Rows(KeyScope._fields, [tuple(scope) for scope in lapsed])
    removed = (yield Statement("prune_keys", {"lapsed": scopes})) if lapsed else []
    return len(removed), end


def _read_place(listing: str, cursor: Cursor) -> KeyScope:
    return KeyScope(*read_cursor(listing, cursor, str, str, str))


def _scope(key: str, org_id: str | None, project_id: str | None) -> KeyScope:
    check_text("key", key, longest=LONGEST["key"])
    check_texts({"org_id": org_id, "project_id": project_id})
    return KeyScope(org_id or "", project_id or "", key)


def _read(row: Row) -> Key:
    org_id, project_id, key, job_id, status, first, last, expires, result_ref, error_ref = row
    return Key(
        org_id, project_id, key, job_id, status, instant(first), instant(last),
        None if expires is None else instant(expires), result_ref, error_ref,
    )  # fmt: skip
