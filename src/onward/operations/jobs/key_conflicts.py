"""Idempotency keys: what an enqueue does to the job that holds its key, and the ledger of all keys."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import msgspec

from onward.core.inputs.checks import whole
from onward.core.inputs.fields import LONGEST, check_reason, check_text, check_texts
from onward.core.jobs.debounce import Held, due_at
from onward.core.jobs.filters import MOST_PER_PAGE
from onward.core.jobs.ids import JobId
from onward.core.jobs.job import ENDED, WAITING, Enqueued, JobState, Merge, NewJob, instant
from onward.core.jobs.ledger import Key, KeyPage
from onward.core.jobs.payload import decode
from onward.core.policy.category import OnConflict
from onward.core.policy.policies import Policies
from onward.errors import InvalidJob, InvalidSetting
from onward.operations.jobs.new_rows import COLUMNS, asked_row, check_keys
from onward.operations.statement import Operation, Row, Rows, Scalar, Statement, as_json

Slot = tuple[str, str, str]

_START: Slot = ("", "", "")
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
    "correlation_id", "limit_key",
)  # fmt: skip


def conflict_of(new: NewJob, policies: Policies) -> OnConflict:
    """Return what an enqueue does when its key is held: its own `on_conflict`, or that of its category."""
    return new.on_conflict or policies.category(new.category).on_conflict


def changes_holder(new: NewJob, policies: Policies) -> bool:
    """Whether an enqueue may change the holder of its key; values that are no job are refused elsewhere."""
    if not isinstance(new, NewJob) or (new.key is None and new.subject is None):
        return False
    policy = policies.registry.categories.get(new.category) if isinstance(new.category, str) else None
    return (new.on_conflict or (policy and policy.on_conflict)) in _KINDS


def check_change(new: NewJob, policies: Policies) -> None:
    """Raise for a change that can't be made to the job that holds the key."""
    conflict = conflict_of(new, policies)
    if new.reset_from is not None:
        if conflict != "reset":
            raise InvalidJob(f"reset_from is given with on_conflict={conflict!r}; it goes with 'reset' alone")
        given: Any = new.reset_from
        if isinstance(given, str) or not isinstance(given, Collection):
            raise InvalidJob(f"reset_from is {given!r:.80}; give a set of states such as {{'dead'}}")
        unknown = {str(state) for state in given} - set(JobState)
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

    The answer is None for an enqueue whose key was given to another job meanwhile.
    """
    answers: list[Enqueued | None] = [None] * len(asks)
    left = dict.fromkeys(range(len(asks)), 0)
    while left:
        turn: dict[JobId, int] = {}
        for at in left:
            turn.setdefault(asks[at][1], at)
        changes = []
        for holder, at in turn.items():
            changes.append((yield from _change(asks[at][0], holder, policies)))
        rows = yield Statement("change_held_jobs", {"changes": Rows.of(CHANGES, changes)})
        found = {row[0]: row for row in rows}
        for holder, at in turn.items():
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
        new = yield from _changed(new, _slot(str(key), new.org_id, new.project_id), holder)
    if new.debounce is not None:
        # While the job runs, the change applies to its next run.
        kind, may_change = "debounced", _STATES["coalesce"]
    asked = dict(zip(COLUMNS, asked_row(new, holder, policies), strict=True))
    states = may_change if new.reset_from is None else new.reset_from
    named: dict[str, Scalar] = {"kind": kind, "states": " ".join(sorted(states))}
    return tuple((named | asked)[name] for name in CHANGES)


def _changed(new: NewJob, slot: dict[str, Scalar], holder: JobId) -> Operation[NewJob]:
    """Return an enqueue, merged with the payload and the due time of its holder, which is locked now."""
    if not (yield Statement("lock_held_job", {**slot, "id": holder})):
        return new
    asked: dict[str, Scalar] = {"id": holder, "job_type": new.job_type}
    for row in (yield Statement("read_held_job", asked)):
        state, payload, next_payload = row[:3]
        if new.debounce is not None:
            due = due_at(_held(row), new.debounce, new.debounce_max)
            new = msgspec.structs.replace(new, run_at=due, delay=None)
        if new.merge is not None:
            # Merge with the running payload, too: that run may fail, and then only the next one is left.
            base = next_payload if state == JobState.RUNNING and next_payload is not None else payload
            new = msgspec.structs.replace(new, payload=_merged(new.merge, decode(base), new.payload))
    return new


def _merged(merge: Merge, held: dict[str, Any], asked: dict[str, Any]) -> dict[str, Any]:
    merged = merge(held, asked)
    if not isinstance(merged, dict):
        raise InvalidJob(f"merge gave {merged!r:.80} for the payloads of one key; have it return a dict")
    return merged


def _held(row: Row) -> Held:
    state, _, _, created_at, started_at, run_at, attempt, now = row
    started = None if started_at is None else instant(started_at)
    return Held(JobState(state), instant(created_at), started, instant(run_at), attempt, instant(now))


def get_key(key: str, *, org_id: str | None = None, project_id: str | None = None) -> Operation[Key | None]:
    """Read one line of the ledger; None if the key was never seen, or was forgotten."""
    rows = yield Statement("get_key", _slot(key, org_id, project_id))
    return _read(rows[0]) if rows else None


def list_keys(
    *, org_id: str | None = None, limit: int = 50, cursor: Slot | None = None
) -> Operation[KeyPage]:
    """Read a page of the ledger, ordered by org, project and key."""
    whole("limit", limit, 1, MOST_PER_PAGE)
    check_texts({"org_id": org_id})
    org, project, key = _place(cursor)
    after: dict[str, Scalar] = {"after_org": org, "after_project": project, "after_key": key}
    rows = yield Statement("list_keys", {"org_id": org_id, "limit": limit + 1, **after})
    keys = [_read(row) for row in rows[:limit]]
    last = keys[-1] if len(rows) > limit else None
    return KeyPage(keys, (last.org_id or "", last.project_id or "", last.key) if last else None)


def forget(
    key: str, *, reason: str, org_id: str | None = None, project_id: str | None = None
) -> Operation[bool]:
    """Free a key whatever its lifetime: its next enqueue makes a new job; False if it was not held."""
    reason = check_reason(reason)
    rows = yield Statement(
        "forget_key",
        {**_slot(key, org_id, project_id), "detail": as_json({"key": key, "reason": reason})},
    )
    return bool(rows)


def prune(limit: int = 1000, *, cursor: Slot | None = None) -> Operation[tuple[int, Slot | None]]:
    """Remove the lapsed keys of a page of the ledger; return how many, and where to continue, if at all."""
    whole("limit", limit, 1, 100_000)
    org, project, key = _place(cursor)
    start: dict[str, Scalar] = {"org_id": org, "project_id": project, "key": key}
    ends = yield Statement("end_of_keys", {**start, "limit": limit})
    if not ends:
        return 0, None
    end_org, end_project, end_key = ends[0]
    end: dict[str, Scalar] = {"end_org": end_org, "end_project": end_project, "end_key": end_key}
    lapsed = yield Statement("lock_lapsed_keys", {**start, **end})
    slots = Rows(("org_id", "project_id", "key"), [tuple(slot) for slot in lapsed])
    removed = (yield Statement("prune_keys", {"lapsed": slots})) if lapsed else []
    return len(removed), (end_org, end_project, end_key)


def _place(cursor: Slot | None) -> Slot:
    if cursor is None:
        return _START
    if not isinstance(cursor, tuple | list) or len(cursor) != len(_START):
        raise InvalidSetting(f"cursor is {cursor!r:.80}; give the next_cursor of the page before")
    for text in cursor:
        if text != "":
            check_text("cursor", text, longest=LONGEST["key"])
    org, project, key = cursor
    return org, project, key


def _slot(key: str, org_id: str | None, project_id: str | None) -> dict[str, Scalar]:
    check_text("key", key, longest=LONGEST["key"])
    check_texts({"org_id": org_id, "project_id": project_id})
    return {"key": key, "org_id": org_id or "", "project_id": project_id or ""}


def _read(row: Row) -> Key:
    org_id, project_id, key, job_id, status, first, last, expires, result_ref, error_ref = row
    return Key(
        org_id, project_id, key, job_id, status, instant(first), instant(last),
        None if expires is None else instant(expires), result_ref, error_ref,
    )  # fmt: skip
