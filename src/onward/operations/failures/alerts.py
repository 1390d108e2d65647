"""Alerts: deaths and findings collected by group, and the messages about them that wait for their sinks.

A death is found in `ended`; the process that wrote it need not report it. So every death is reported,
whatever caused it, and exactly once.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import quote

import msgspec

from onward.core.bulk import Changed
from onward.core.failures.alert import (
    Alert,
    GroupedAlert,
    Send,
    WaitingSend,
    about_death,
    about_finding,
    finding_fingerprint,
    group_of,
)
from onward.core.inputs.checks import span, whole_number
from onward.core.inputs.duration import Duration, duration
from onward.core.inputs.fields import check_reason, check_text
from onward.core.jobs.job import instant, micros
from onward.core.jobs.payload import decode
from onward.core.page import MOST_PER_PAGE, Cursor, Page, cut, read_cursor
from onward.core.policy.policies import Policies
from onward.core.upkeep.diagnosis import Finding
from onward.core.work.error_record import ErrorRecord
from onward.operations.statement import Operation, Row, Rows, Scalar, Statement, as_json

DEATHS = ("id", "lease", "at")
GROUPS = ("fingerprint", "kind", "about", "job_id", "count", "first_at", "last_at")
FINDINGS = ("fingerprint", "kind", "about")
MESSAGES = ("fingerprint", "sink", "number", "alert")

_MICROSECOND = timedelta(microseconds=1)
_MOST = 1000
_LONGEST_FINGERPRINT = 500
_LONGEST_MUTE = timedelta(days=3660)
AT_ONCE = 500
"""At most this many deaths are put into alerts by one transaction."""

REMIND = timedelta(hours=1)
"""A finding that persists is reported again after this time."""

KEPT = timedelta(days=30)
"""An alert to which nothing was added for this time is removed."""


class Death(msgspec.Struct, frozen=True):
    """A job that died under this lease, with what an alert reports of it."""

    job_id: str
    lease: int
    at: int
    org_id: str | None
    job_type: str
    queue: str
    category: str
    attempt: int
    max_attempts: int
    error: ErrorRecord


def find_deaths(*, overlap: timedelta, limit: int = AT_ONCE) -> Operation[list[Death]]:
    """Find deaths that are in no alert yet, starting `overlap` before the newest death that is in one."""
    whole_number("limit", limit, 1, _MOST)
    length = span("overlap", overlap) // _MICROSECOND
    rows = yield Statement("find_deaths", {"overlap": length, "limit": limit})
    return [_death(row) for row in rows]


def note_look() -> Operation[None]:
    """Record that all deaths up to now are known, except those that are committed late."""
    yield Statement("note_look", {})


def raise_deaths(deaths: Sequence[Death], policies: Policies) -> Operation[int]:
    """Add deaths to the alerts of their groups, each once; return how many were new. Needs a transaction."""
    keys = [(death.job_id, death.lease, death.at) for death in deaths]
    rows = yield Statement("note_deaths", {"deaths": Rows.of(DEATHS, keys)})
    noted = {(job_id, lease) for job_id, lease in rows}
    groups: dict[str, list[Death]] = {}
    for death in deaths:
        if (death.job_id, death.lease) in noted:
            groups.setdefault(group_of(death.job_type, death.error), []).append(death)
    if groups:
        values = [_group(name, members, policies) for name, members in sorted(groups.items())]
        yield Statement("raise_alerts", {"groups": Rows.of(GROUPS, values)})
    return len(noted)


def observe(findings: Collection[Finding], policies: Policies) -> Operation[None]:
    """Raise an alert for each finding, and resolve alerts that are no longer found. Needs a transaction."""
    found = {finding_fingerprint(finding): finding for finding in findings}
    if found:
        values: list[tuple[Scalar, ...]] = [
            (name, finding.code, as_json(about_finding(finding, policies.settings.redact)))
            for name, finding in sorted(found.items())
        ]
        remind = REMIND // _MICROSECOND
        yield Statement("raise_findings", {"findings": Rows.of(FINDINGS, values), "remind": remind})
    yield Statement("resolve_findings", {"found": as_json(sorted(found))})


def due(sinks: Collection[str], *, throttle: timedelta) -> Operation[frozenset[str]]:
    """Return what there is to send: "alert" for new messages, and the sinks for which a message waits."""
    names, length = as_json(sorted(sinks)), span("throttle", throttle) // _MICROSECOND
    rows = yield Statement("find_due_alerts", {"sinks": names, "throttle": length})
    return frozenset(name for (name,) in rows)


def prepare(sinks: Collection[str], *, throttle: timedelta, limit: int = 100) -> Operation[int]:
    """Write a message for each sink about each due alert; return how many alerts. Needs a transaction.

    A message that a sink has not accepted yet is replaced; the new message includes its count.
    """
    length = span("throttle", throttle) // _MICROSECOND
    params: dict[str, Scalar] = {"throttle": length, "limit": limit}
    rows = yield Statement("take_due_alerts", params)
    if not rows or not sinks:
        return len(rows)
    waiting = yield from _waiting([row[0] for row in rows])
    values: list[tuple[Scalar, ...]] = []
    for row in sorted(rows, key=lambda row: str(row[0])):
        alert, number = _alert(row)
        for sink in sorted(sinks):
            earlier = waiting.get((alert.fingerprint, sink), 0)
            message = msgspec.structs.replace(alert, count=alert.count + earlier) if earlier else alert
            values.append((alert.fingerprint, sink, number, msgspec.json.encode(message).decode()))
    yield Statement("add_sends", {"messages": Rows.of(MESSAGES, values)})
    return len(rows)


def take(sink: str, *, hold: timedelta) -> Operation[Send | None]:
    """Take a message for a sink; no other process can take it for `hold`."""
    length = span("hold", hold) // _MICROSECOND
    rows = yield Statement("take_send", {"sink": sink, "hold": length})
    for fingerprint, name, number, alert, tries in rows:
        return Send(fingerprint, name, number, msgspec.json.decode(alert, type=Alert), tries)
    return None


def record_send(send: Send, error: str | None = None, *, wait: timedelta | None = None) -> Operation[bool]:
    """Write what came of a message: sent, to be tried again after `wait`, or given up (`wait` is None).

    Return False if a newer message has replaced it.
    """
    this: dict[str, Scalar] = {"fingerprint": send.fingerprint, "sink": send.sink, "number": send.number}
    if error is None:
        return bool((yield Statement("drop_send", this)))
    length = None if wait is None else wait // _MICROSECOND
    params = {**this, "error": error, "wait": length}
    return bool((yield Statement("delay_send", params)))


def list_alerts(
    *, kind: str | None = None, limit: int = 50, cursor: Cursor | None = None
) -> Operation[Page[GroupedAlert]]:
    """Read a page of alerts, the one that happened last first."""
    whole_number("limit", limit, 1, MOST_PER_PAGE)
    if kind is not None:
        check_text("kind", kind, longest=_LONGEST_FINGERPRINT)
    before, after = read_cursor("alerts", cursor, int, str) if cursor is not None else (None, None)
    place: dict[str, Scalar] = {"before": before, "after": after}
    rows = yield Statement("list_alerts", {"kind": kind, "limit": limit + 1, **place})
    sends = yield Statement("list_sends", {"fingerprints": as_json([row[0] for row in rows])})
    waiting: dict[str, list[WaitingSend]] = {}
    for fingerprint, sink, _, tries, next_at, error in sends:
        waiting.setdefault(fingerprint, []).append(WaitingSend(sink, tries, _at(next_at), error))
    alerts = [_grouped(row, tuple(waiting.get(row[0], ()))) for row in rows]
    return cut("alerts", alerts, limit, lambda alert: (micros(alert.last_at), alert.fingerprint))


def mute(fingerprint: str, *, reason: str, for_: Duration | None = None) -> Operation[Changed]:
    """Count an alert but send nothing, for `for_` or until it is unmuted."""
    reason = check_reason(reason)
    length = None if for_ is None else span("for_", duration("for_", for_), least=_MICROSECOND)
    if length is not None:
        length = min(length, _LONGEST_MUTE)
    detail = {"reason": reason} if length is None else {"reason": reason, "seconds": length.total_seconds()}
    about = _described("alert.muted", fingerprint, detail)
    lasting = None if length is None else length // _MICROSECOND
    return Changed(bool((yield Statement("mute_alert", {**about, "reason": reason, "length": lasting}))))


def unmute(fingerprint: str, *, reason: str | None = None) -> Operation[Changed]:
    """Send messages about an alert again, from its next occurrence on."""
    detail = {} if reason is None else {"reason": check_reason(reason)}
    about = _described("alert.unmuted", fingerprint, detail)
    return Changed(bool((yield Statement("unmute_alert", about))))


def prune(*, overlap: timedelta, limit: int = 1000) -> Operation[int]:
    """Remove rows that are no longer needed; return how many. `overlap` is the one that a deep look uses."""
    # Twice the overlap: a death that is still read must be known, else it would be reported again.
    length = 2 * span("overlap", overlap) // _MICROSECOND
    alerted = yield Statement("forget_alerted", {"overlap": length, "limit": limit})
    old = yield Statement("forget_alerts", {"kept": KEPT // _MICROSECOND, "limit": limit})
    sends = yield Statement("forget_sends", {})
    return len(alerted) + len(old) + len(sends)


def _death(row: Row) -> Death:
    job_id, lease, at, org_id, job_type, queue, category, attempt, max_attempts, error = row
    last = ErrorRecord.read(error) if error else ErrorRecord()
    return Death(job_id, lease, at, org_id, job_type, queue, category, attempt, max_attempts, last)


def _group(name: str, members: Sequence[Death], policies: Policies) -> tuple[Scalar, ...]:
    last = max(members, key=lambda death: death.at)
    kind = (policies.registry.categories.get(last.category) or policies.registry.categories["default"]).alert
    job = {
        field: getattr(last, field)
        for field in ("job_id", "job_type", "org_id", "queue", "attempt", "max_attempts")
    }
    about = as_json(about_death(kind, job, last.error, policies.settings.redact))
    first_at = min(death.at for death in members)
    return (name, kind, about, last.job_id, len(members), first_at, last.at)


def _waiting(fingerprints: Collection[str]) -> Operation[dict[tuple[str, str], int]]:
    rows = yield Statement("list_sends", {"fingerprints": as_json(sorted(fingerprints))})
    return {(name, sink): msgspec.json.decode(alert, type=Alert).count for name, sink, alert, *_ in rows}


def _alert(row: Row) -> tuple[Alert, int]:
    fingerprint, about, batch, number, count, first_at, last_at = row
    first, last = instant(first_at), instant(last_at)
    made = {
        **decode(about),
        # The id goes into HTTP headers, which take only ASCII.
        "id": f"{quote(fingerprint, safe=':')}.{number}",
        "fingerprint": fingerprint,
        "count": batch,
        "total": count,
        "first_at": first,
        "last_at": last,
    }
    return msgspec.convert(made, Alert), number


def _grouped(row: Row, waiting: tuple[WaitingSend, ...]) -> GroupedAlert:
    fingerprint, source, about, count, unsent, first_at, last_at, sent_at, resolved_at, muted_at, *mute = row
    text: dict[str, Any] = decode(about)
    until, reason, actor_type, actor_id = mute if muted_at is not None else (None, None, None, None)
    return GroupedAlert(
        fingerprint=fingerprint, source=source, kind=text["kind"], title=text["title"], about=text,
        count=count, unsent=unsent, first_at=instant(first_at), last_at=instant(last_at),
        sent_at=_at(sent_at), resolved_at=_at(resolved_at), muted_at=_at(muted_at), muted_until=_at(until),
        mute_reason=reason, mute_actor_type=actor_type, mute_actor_id=actor_id, waiting=waiting,
    )  # fmt: skip


def _at(at: int | None) -> datetime | None:
    return None if at is None else instant(at)


def _described(event: str, fingerprint: str, detail: dict[str, Any]) -> dict[str, Scalar]:
    check_text("fingerprint", fingerprint, longest=_LONGEST_FINGERPRINT)
    return {
        "fingerprint": fingerprint,
        "event": event,
        "detail": as_json({"fingerprint": fingerprint, **detail}),
    }
