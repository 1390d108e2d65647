"""Durable waits: what a job waits for that has left its slot, and the signals that call it back."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from onward.core.jobs.ids import JobId
from onward.core.secrets.redaction import redact_text

MAX_PAYLOAD_BYTES = 524_288
"""The size limit of what a signal brings, in bytes of JSON."""

NEVER = datetime(2149, 12, 31, tzinfo=UTC)
"""When a job is due that waits for a signal for as long as it takes."""

_LONGEST_PLACE = 200


@dataclass(eq=False)
class Parked(BaseException):
    """The handler waits, for an instant or a signal: its job leaves its slot, and burns no attempt.

    No Exception, so that a handler that catches those does not catch this: it runs again from its start.
    """

    until: datetime | str | None = None
    event: str | None = None
    key: str | None = None
    seen: tuple[str, ...] = ()

    def wait(self, deadline: datetime | None) -> Wait:
        """Say what is waited for, and until when: no longer than to the deadline of the job."""
        until = datetime.fromisoformat(self.until) if isinstance(self.until, str) else self.until
        last = min(instant for instant in (until, deadline, NEVER) if instant is not None)
        return Wait(last, self.event, self.key, tuple(self.seen))


class Wait(msgspec.Struct, frozen=True, gc=False):
    """What a job waits for: an instant, or before it a signal that it has not seen yet."""

    until: datetime
    event: str | None = None
    key: str | None = None
    seen: tuple[str, ...] = ()

    def told(self) -> dict[str, str]:
        """Say it for the audit."""
        said = {"event": self.event, "key": self.key, "until": None if self.until >= NEVER else self.until}
        return {
            name: value.isoformat() if isinstance(value, datetime) else redact_text(value)
            for name, value in said.items()
            if value is not None
        }


class Signal(msgspec.Struct, frozen=True):
    """Something that has happened: seen by every job of its org that waits for this event and key."""

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
    """A job that waits for a signal; `until` is None where it waits for as long as it takes."""

    job_id: JobId
    org_id: str | None
    event: str
    key: str | None
    until: datetime | None


class Sent(msgspec.Struct, frozen=True):
    """A signal that was stored, and how many jobs it has called back at once; others follow in a second."""

    id: str
    woken: int


def place_of(kind: str, *parts: str | None, nth: int) -> str:
    """Name a wait of a handler, for what is remembered of it; the nth of the same kind is another one."""
    name = ":".join([kind, *(part for part in parts if part is not None)])
    name += f"#{nth}" if nth > 1 else ""
    if len(name.encode()) <= _LONGEST_PLACE:
        return name
    return f"{kind}:sha256:{hashlib.sha256(name.encode()).hexdigest()}"


def is_over(until: datetime, claimed_at: datetime | None) -> bool:
    """Tell whether a wait was over when its job was claimed, both by the database's clock."""
    return claimed_at is not None and claimed_at >= until


def times_out_at(since: datetime | None, timeout: timedelta) -> datetime:
    """Say until when a wait lasts that began at this instant."""
    return NEVER if since is None or timeout >= NEVER - since else since + timeout
