"""The text of an alert about a group of dead jobs or about a finding, with the operator's next command.

Every text that comes from a job is redacted and reduced to one line first, because sinks may show it.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from datetime import datetime
from itertools import islice
from typing import Any, Literal, Protocol

import msgspec

from onward.core.failures.fingerprint import fingerprint
from onward.core.inputs.plain_text import one_line
from onward.core.secrets.redaction import Redaction
from onward.core.upkeep.diagnosis import Finding
from onward.core.work.error_record import ErrorRecord

ALERTING = frozenset({
    "breaker_open",
    "dead_growth",
    "lease_storm",
    "no_worker",
    "silent_schedule",
    "slo_burn",
    "stuck_jobs",
    "tick_silent",
    "unserved_queue",
})  # fmt: skip
"""The codes of the findings that raise an alert."""

_TRANSIENT = frozenset({"unserved_queue"})

_GUIDANCE = "Manual intervention may be required."
_FINGERPRINT = re.compile(r"[0-9a-f]{12}")
# These keys of a finding's evidence distinguish several findings that have the same code.
_SUBJECTS = (
    "breaker",
    "queue",
    "schedule",
    "provider",
    "job_type",
    "category",
    "org_id",
    "worker_id",
    "name",
)

_LONGEST = 500
_LONGEST_LINK = 2000
_LONGEST_NAME = 200
_MOST_EVIDENCE = 20


class Alert(msgspec.Struct, frozen=True, kw_only=True):
    """The message that a sink receives; `id` stays the same when the same message is sent again.

    `count` is how often it happened since the last message, `total` since the first.
    """

    version: int = 1
    id: str
    kind: str
    severity: Literal["warning", "problem"]
    title: str
    fingerprint: str
    count: int
    total: int
    first_at: datetime
    last_at: datetime
    job_id: str | None = None
    job_type: str | None = None
    org_id: str | None = None
    queue: str | None = None
    attempt: int | None = None
    max_attempts: int | None = None
    error_class: str | None = None
    message: str | None = None
    reason: str | None = None
    rule: str | None = None
    status: int | None = None
    hint: str | None = None
    link: str | None = None
    guidance: str | None = None
    commands: tuple[str, ...] = ()
    evidence: dict[str, Any] = {}


class Sink(Protocol):
    """A destination of alerts; `send` runs in its own thread, and any exception from it means: not sent."""

    name: str

    def send(self, alert: Alert) -> None:
        """Send an alert, within a few seconds."""
        ...


class WaitingSend(msgspec.Struct, frozen=True):
    """A message that a sink has not accepted yet; without `next_at` it was given up."""

    sink: str
    tries: int
    next_at: datetime | None
    error: str | None


class GroupedAlert(msgspec.Struct, frozen=True, kw_only=True):
    """The state of an alert: how often it happened, what was not sent yet, and which actor muted it."""

    fingerprint: str
    source: Literal["death", "finding"]
    kind: str
    title: str
    about: dict[str, Any]
    count: int
    unsent: int
    first_at: datetime
    last_at: datetime
    sent_at: datetime | None
    resolved_at: datetime | None
    muted_at: datetime | None
    muted_until: datetime | None
    mute_reason: str | None
    mute_actor_type: str | None
    mute_actor_id: str | None
    waiting: tuple[WaitingSend, ...] = ()


class Send(msgspec.Struct, frozen=True):
    """A message that is being sent, for the `tries`-th time."""

    fingerprint: str
    sink: str
    number: int
    alert: Alert
    tries: int


def group_of(job_type: str, error: ErrorRecord) -> str:
    """Return the fingerprint of a death; the error's own is used only if it is safe in a shell command."""
    kept = error.fingerprint
    return kept if kept and _FINGERPRINT.fullmatch(kept) else fingerprint(job_type, error)


def about_death(
    kind: str, job: Mapping[str, Any], error: ErrorRecord, redaction: Redaction
) -> dict[str, Any]:
    """Return the alert's fields for a dead job; `job` has its id, type, org, queue and attempts."""
    group = group_of(job["job_type"], error)

    def line(text: str | None, longest: int = _LONGEST) -> str | None:
        return one_line(redaction.redact_text(text), longest) or None if text is not None else None

    job_type = one_line(redaction.redact_text(job["job_type"]), _LONGEST_NAME)
    reason = line(error.reason, _LONGEST_NAME)
    return {
        "kind": kind,
        "severity": "problem",
        "title": f"{job_type} died: {_words(reason or 'for no stated reason')}",
        **{name: _plain(value, redaction) for name, value in job.items()},
        "error_class": line(error.error_class, _LONGEST_NAME),
        "message": line(error.message),
        "reason": reason,
        "rule": line(error.rule, _LONGEST_NAME),
        "status": error.status,
        "hint": line(error.hint),
        "link": line(error.link, _LONGEST_LINK),
        "guidance": _GUIDANCE,
        "commands": (f"onward dead show {group}", f'onward dead replay {group} --reason "…"'),
    }


def raises_alert(finding: Finding) -> bool:
    """Whether a finding raises an alert; a warning that a worker's restart also causes does not."""
    if finding.code not in ALERTING or finding.severity == "ok":
        return False
    return finding.severity == "problem" or finding.code not in _TRANSIENT


def finding_fingerprint(finding: Finding) -> str:
    """Return the identity of a finding: its code, and the queue, schedule or other subject it is about."""
    subject = next((finding.evidence[name] for name in _SUBJECTS if finding.evidence.get(name)), None)
    code = one_line(finding.code, _LONGEST_NAME)
    return code if subject is None else f"{code}:{one_line(str(subject), _LONGEST_NAME)}"


def about_finding(finding: Finding, redaction: Redaction) -> dict[str, Any]:
    """Return the alert's fields for a finding."""
    return {
        "kind": one_line(finding.code, _LONGEST_NAME),
        "severity": "warning" if finding.severity == "warning" else "problem",
        "title": one_line(redaction.redact_text(finding.title), _LONGEST),
        "evidence": redaction.redact(_plain(finding.evidence, redaction)),
        "commands": () if finding.remedy is None else (one_line(finding.remedy, _LONGEST),),
    }


def _plain(value: Any, redaction: Redaction) -> Any:
    """Return a value as JSON of a bounded size, with its texts redacted."""
    match value:
        case None | bool() | int() | float():
            return value
        case Mapping():
            some = islice(value.items(), _MOST_EVIDENCE)
            return {one_line(str(name), _LONGEST_NAME): _plain(member, redaction) for name, member in some}
        case list() | tuple():
            return [_plain(member, redaction) for member in value[:_MOST_EVIDENCE]]
        case datetime():
            return _instant(value)
    return one_line(redaction.redact_text(str(value)), _LONGEST)


def error_text(error: BaseException, redaction: Redaction) -> str:
    """Return the reason why a sink could not send; never fails."""
    try:
        text = str(error)
    except Exception:  # noqa: BLE001 - a sink may raise an error of any class
        text = "it can't be shown"
    return one_line(redaction.redact_text(f"{type(error).__name__}: {text}"), _LONGEST)


def heading(alert: Alert) -> str:
    """Return an alert in one line."""
    often = f" ({alert.count} times)" if alert.count > 1 else ""
    return f"{alert.kind}: {alert.title}{often}"


def text_of(alert: Alert) -> str:
    """Return an alert in a few lines for people: what happened, why, what helps, and the next command."""
    lines = [heading(alert)]
    if alert.job_id is not None:
        retries = max(0, (alert.attempt or 0) - 1)
        lines += [
            f"Job: {alert.job_id} ({alert.job_type})",
            f"Attempts: {alert.attempt} of {alert.max_attempts} (retries: {retries})",
            f"Last error: {_error_line(alert)}",
        ]
    named = {
        "Org": alert.org_id,
        "Reason": None if alert.reason is None else _words(alert.reason),
        "Hint": alert.hint,
        "Link": alert.link,
    }
    lines += [f"{name}: {value}" for name, value in named.items() if value]
    lines += [
        f"{_words(name).capitalize()}: {value}"
        for name, value in alert.evidence.items()
        if value is not None and not isinstance(value, dict | list)
    ]
    if alert.total > 1:
        lines.append(f"Since {_instant(alert.first_at)}: {alert.total} times")
    if alert.guidance is not None:
        lines.append(alert.guidance)
    lines += [f"Next: {command}" for command in alert.commands]
    lines.append(f'Not again: onward alerts mute {shlex.quote(alert.fingerprint)} --reason "…"')
    return "\n".join(lines)


def sample(alert_id: str, now: datetime) -> Alert:
    """Return an alert for testing a sink."""
    return Alert(
        id=alert_id, kind="test", severity="warning", title="a test of the alert sinks", fingerprint="test",
        count=1, total=1, first_at=now, last_at=now, guidance="Nothing is wrong.",
        commands=("onward alerts list",),
    )  # fmt: skip


def _error_line(alert: Alert) -> str:
    return ": ".join(part for part in (alert.error_class, alert.message) if part) or "none was kept"


def _words(name: str) -> str:
    return name.replace("_", " ")


def _instant(at: datetime) -> str:
    return at.isoformat(timespec="seconds").replace("+00:00", "Z")
