"""Signals, and the jobs that wait for them.

A job that parks and a signal that is sent at the same time may miss each other. No lock prevents that: a
caller's transaction could hold it for long. Instead both are marked fresh, and every second a worker matches
what is fresh. Whichever of the two is committed last is looked at when the other is visible.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from onward.core.bulk import Bulk
from onward.core.inputs.checks import span, whole_number
from onward.core.inputs.duration import duration
from onward.core.inputs.fields import LONGEST, check_text, check_texts
from onward.core.jobs.ids import JobId
from onward.core.jobs.job import Job, NewJob, instant
from onward.core.jobs.payload import decode, encode
from onward.core.page import MOST_PER_PAGE, Cursor, Page, make_cursor, read_cursor, read_id_cursor
from onward.core.policy.contract import check_present
from onward.core.policy.policies import Policies
from onward.core.secrets.redaction import redact_text
from onward.core.work.wait import MAX_PAYLOAD_BYTES, NEVER, Awaited, NewSignal, Sent, Signal
from onward.errors import ContractBroken, InvalidJob, SecretInPayload
from onward.operations.jobs.payload_secrets import scan
from onward.operations.statement import Operation, Row, Scalar, Statement, as_json
from onward.operations.work.rescue import promote

_LONGEST_EVENT = 200
_SHORTEST_KEEP = timedelta(seconds=1)
_MICROSECOND = timedelta(microseconds=1)
_AT_ONCE = 1000
_LIST, _AWAITED, _PRUNE = "signals.list", "signals.awaited", "signals.prune"
MOST_PRUNED = 100_000
_INSTEAD = "for signals and jobs alike, have secrets hidden with Onward(secrets='redact')"


def check_name(event: str, key: str | None) -> None:
    """Raise for an event or a key that can't identify a signal."""
    check_text("event", event, longest=_LONGEST_EVENT)
    if key is not None:
        check_text("key", key, longest=LONGEST["key"])


def send(
    new: NewSignal, policies: Policies, *, only_store: bool = False, promotes: bool = True
) -> Operation[Sent]:
    """Store a signal, and wake the jobs that wait for it.

    `only_store` leaves the waking to the workers, which look every second; no other job is locked then.
    `promotes` also makes the woken jobs ready.
    """
    yield Statement("store_signal", {**_checked(new, policies)})
    if only_store:
        return Sent(new.id, 0)
    woken = yield from _wake(new.id)
    if woken and promotes:
        yield from promote(_AT_ONCE)
    return Sent(new.id, woken)


def find(job: Job, event: str, key: str | None, seen: Sequence[str] = ()) -> Operation[Signal | None]:
    """Return the oldest signal of an event and a key for the job's org, except those in `seen`."""
    check_name(event, key)
    named: dict[str, Scalar] = {"event": event, "key": key or "", "seen": as_json(list(seen))}
    owner = {"org_id": job.org_id or "", "project_id": job.project_id or ""}
    rows = yield Statement("find_signal", {**named, **owner})
    return _signal(rows[0]) if rows else None


def wake() -> Operation[int]:
    """Wake some of the jobs whose signal has arrived, among what is fresh; return how many."""
    return (yield from _wake(None))


def any_fresh() -> Operation[bool]:
    """Whether there is a signal or a wait that no worker has looked at yet."""
    return bool((yield Statement("find_fresh_signals", {})))


def list_signals(
    *,
    event: str | None = None,
    key: str | None = None,
    limit: int = 50,
    cursor: Cursor | None = None,
) -> Operation[Page[Signal]]:
    """Return a page of the stored signals, newest first."""
    params = {**_narrowed(event, key, limit), "before": read_id_cursor(_LIST, cursor)}
    rows = yield Statement("list_signals", params)
    found = [_signal(row) for row in rows[:limit]]
    return Page(found, make_cursor(_LIST, found[-1].id) if len(rows) > limit else None)


def list_awaited(
    *,
    job_id: JobId | None = None,
    event: str | None = None,
    key: str | None = None,
    limit: int = 50,
    cursor: Cursor | None = None,
) -> Operation[Page[Awaited]]:
    """Return a page of the jobs that wait for a signal, by id."""
    params = {**_narrowed(event, key, limit), "job_id": job_id, "after": read_id_cursor(_AWAITED, cursor)}
    rows = yield Statement("list_awaited", params)
    found = [_awaited(row) for row in rows[:limit]]
    return Page(found, make_cursor(_AWAITED, found[-1].job_id) if len(rows) > limit else None)


def prune(limit: int, cursor: Cursor | None = None) -> Operation[Bulk]:
    """Remove expired signals, and waits that are over: at most `limit` of each."""
    whole_number("limit", limit, 1, MOST_PRUNED)
    if cursor is not None:
        read_cursor(_PRUNE, cursor)
    gone, over = yield from prune_each(limit)
    # What is left is found by its time, so a cursor has no position.
    more = make_cursor(_PRUNE) if max(gone, over) == limit else None
    return Bulk(found=gone + over, done=gone + over, next_cursor=more)


def prune_each(limit: int) -> Operation[tuple[int, int]]:
    """Remove at most `limit` expired signals, and as many waits that are over; return how many of each."""
    gone = yield Statement("prune_signals", {"limit": limit})
    over = yield Statement("prune_awaited", {"limit": limit})
    return len(gone), len(over)


def _wake(signal_id: str | None) -> Operation[int]:
    params: dict[str, Scalar] = {"signal": signal_id, "limit": _AT_ONCE}
    return sum(woken for (woken,) in (yield Statement("wake_waiting", params)))


def _checked(new: NewSignal, policies: Policies) -> dict[str, Scalar]:
    event, key, payload = new.event, new.key, new.payload
    check_name(event, key)
    _check_origin(policies, new)
    kept = span("keep", duration("keep", new.keep, error=InvalidJob), least=_SHORTEST_KEEP, error=InvalidJob)
    return {
        "id": new.id,
        "org_id": new.org_id or "",
        "project_id": new.project_id or "",
        "event": event,
        "key": key or "",
        "payload": None if payload is None else _payload(event, key, payload, policies),
        "keep": kept // _MICROSECOND,
        "actor_type": new.actor_type,
        "actor_id": new.actor_id,
        "detail": as_json({"event": redact_text(event), "key": key and redact_text(key)}),
    }


def _check_origin(policies: Policies, new: NewSignal) -> None:
    org_id = new.org_id
    check_texts(
        {
            "org_id": org_id,
            "project_id": new.project_id,
            "actor_type": new.actor_type,
            "actor_id": new.actor_id,
        }
    )
    check_present(policies, org_id, new.project_id, new.actor_type, new.actor_id)
    if policies.settings.tenancy == "required" and org_id is None:
        raise ContractBroken("org_id is missing, and tenancy='required' asks for it; give org_id=…")


def _payload(event: str, key: str | None, payload: Any, policies: Policies) -> str:
    text = encode(
        payload, limit=MAX_PAYLOAD_BYTES, what="the payload of the signal", redaction=policies.settings.redact
    )
    # A signal is stored and shown like a job: the same secrets are refused or redacted.
    like = NewJob(job_type=event, key=key, payload=payload if isinstance(payload, dict) else {"": payload})
    try:
        clean = scan(like, text, MAX_PAYLOAD_BYTES, policies)
    except SecretInPayload as error:
        raise SecretInPayload.at(error.path, error.kind, _INSTEAD) from None
    if isinstance(payload, dict) or clean == text:
        return clean
    return encode(decode(clean)[""], limit=MAX_PAYLOAD_BYTES)


def _narrowed(event: str | None, key: str | None, limit: int) -> dict[str, Scalar]:
    whole_number("limit", limit, 1, MOST_PER_PAGE)
    if event is not None:
        check_text("event", event, longest=_LONGEST_EVENT)
    if key is not None:
        check_text("key", key, longest=LONGEST["key"])
    return {"event": event, "key": key, "limit": limit + 1}


def _signal(row: Row) -> Signal:
    signal_id, org_id, event, key, payload, at, expires_at, actor_type, actor_id = row
    return Signal(
        signal_id, org_id, event, key, None if payload is None else decode(payload), instant(at),
        instant(expires_at), actor_type, actor_id,
    )  # fmt: skip


def _awaited(row: Row) -> Awaited:
    job_id, org_id, event, key, until = row
    last = instant(until)
    return Awaited(job_id, org_id, event, key, None if last >= NEVER else last)
