"""The audit: one line for each event of a job and for what operators do, and the filter of its readings."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import msgspec

from onward.core.inputs.checks import zoned
from onward.core.inputs.fields import LONGEST, check_text
from onward.core.inputs.wire_form import Instant
from onward.core.jobs.ids import JobId, normalise_id
from onward.core.jobs.job import instant, micros
from onward.core.jobs.payload import decode
from onward.errors import InvalidSetting


class AuditRecord(msgspec.Struct, frozen=True):
    """One line of the audit."""

    seq: int
    at: datetime
    event: str
    action: str | None
    job_id: JobId | None
    job_type: str | None
    org_id: str | None
    project_id: str | None
    actor_type: str | None
    actor_id: str | None
    request_id: str | None
    correlation_id: str | None
    attempt: int | None
    lease: int | None
    worker_id: str | None
    detail: dict[str, Any] | None

    @classmethod
    def from_row(cls, row: Sequence[Any]) -> AuditRecord:
        """Make a record from a row of the database."""
        return cls(row[0], instant(row[1]), *row[2:-1], row[-1] and decode(row[-1]))  # type: ignore[call-arg]


class AuditFilter(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The conditions of a reading of the audit; a field that is None sets none. `until` is exclusive."""

    event: str | None = None
    action: str | None = None
    job_id: JobId | None = None
    org_id: str | None = None
    actor_type: str | None = None
    actor_id: str | None = None
    since: Instant | None = None
    until: Instant | None = None

    def params(self) -> dict[str, str | int | None]:
        """Return the filter as parameters of its statement."""
        texts = ("event", "action", "org_id", "actor_type", "actor_id")
        named: dict[str, str | int | None] = {name: getattr(self, name) for name in texts}
        for name, value in named.items():
            if value is not None and not isinstance(value, str):
                raise InvalidSetting(f"{name} is {value!r:.80}; give text, or None for any")
            if value:
                check_text(name, value, longest=LONGEST.get(name, LONGEST["job_type"]))
        job_id = None if self.job_id is None else normalise_id(self.job_id)
        # Under other names: every statement has its client's actor as `actor_type` and `actor_id`.
        named |= {"by_type": named.pop("actor_type"), "by_id": named.pop("actor_id")}
        return {
            **named,
            "job_id": job_id,
            "since": _micros("since", self.since),
            "until": _micros("until", self.until),
        }


def _micros(name: str, at: datetime | None) -> int | None:
    return None if at is None else micros(zoned(name, at))
