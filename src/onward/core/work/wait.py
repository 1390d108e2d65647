"""Durable waits: what a job waits for after it left its slot, and the signals that make it due again."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from onward.core.inputs.duration import Duration
from onward.core.jobs.ids import JobId
from onward.core.secrets.redaction import redact_text

MAX_PAYLOAD_BYTES = 524_288
"""The size limit of a signal's payload, in bytes of JSON."""

NEVER = datetime(2149, 12, 31, tzinfo=UTC)
"""The due time of a job that waits for a signal without a time-out."""

_LONGEST_PLACE = 200


@dataclass(eq=False)
class Parked(BaseException):
    """The handler waits for an instant or a signal: its job leaves its slot, and burns no attempt.

    After the wait the handler runs again from its start. This is not an Exception, so that a handler that
    catches Exception does not catch it.
    """

    until: datetime | str | None = None
    event: str | None = None
    key: str | None = None
    seen: tuple[str, ...] = ()

    def wait(self, deadline: datetime | None) -> Wait:
        """Return the wait to store; it ends at the job's deadline at the latest."""
        until = datetime.fromisoformat(self.until) if isinstance(self.until, str) else self.until
        last = min(instant for instant in (until, deadline, NEVER) if instant is not None)
        return Wait(last, self.event, self.key, tuple(self.seen))


class Wait(msgspec.Struct, frozen=True, gc=False):
    """What a job waits for: an instant, or a signal before it that the job has not seen yet."""

    until: datetime
    event: str | None = None
    key: str | None = None
    seen: tuple[str, ...] = ()

    def audit_detail(self) -> dict[str, str]:
        """Return the wait as the audit records it, with secrets redacted."""
        parts = {"event": self.event, "key": self.key, "until": None if self.until >= NEVER else self.until}
        return {
            name: value.isoformat() if isinstance(value, datetime) else redact_text(value)
            for name, value in parts.items()
            if value is not None
        }


class Signal(msgspec.Struct, frozen=True):
    """An event that has happened; every job of its org that waits for this event and key sees it."""

    id: str
    org_id: str | None
    event: str
    key: str | None
    payload: Any
    at: datetime
    expires_at: datetime
    actor_type: str | None
    actor_id: str | None


class Awaited(msgspec.Struct, frozen=True):
    """A job that waits for a signal; `until` is None if it waits without a time-out."""

    job_id: JobId
    org_id: str | None
    event: str
    key: str | None
    until: datetime | None


class Sent(msgspec.Struct, frozen=True):
    """A stored signal, and how many jobs it made due at once; the remaining jobs follow within a second."""

    id: str
    woken: int


KEEP = "7d"
"""How long a signal is kept for jobs that wait for it later."""


class NewSignal(msgspec.Struct, frozen=True):
    """A signal to be stored."""

    id: str
    event: str
    key: str | None = None
    payload: Any = None
    org_id: str | None = None
    project_id: str | None = None
    """The project whose jobs it reaches; None for those of all projects of its org."""
    keep: Duration = KEEP
    actor_type: str | None = None
    actor_id: str | None = None


def place_of(kind: str, *parts: str | None, nth: int) -> str:
    """Return the name under which a handler's wait is stored; `nth` tells equal waits of a run apart."""
    name = ":".join([kind, *(part for part in parts if part is not None)])
    name += f"#{nth}" if nth > 1 else ""
    if len(name.encode()) <= _LONGEST_PLACE:
        return name
    return f"{kind}:sha256:{hashlib.sha256(name.encode()).hexdigest()}"


def is_over(until: datetime, claimed_at: datetime | None) -> bool:
    """Whether a wait was over when its job was claimed; both times are by the database's clock."""
    return claimed_at is not None and claimed_at >= until


def times_out_at(since: datetime | None, timeout: timedelta) -> datetime:
    """Return when a wait that began at `since` times out; `NEVER` if that is unknown or too far away."""
    return NEVER if since is None or timeout >= NEVER - since else since + timeout
