"""Read the audit, and add the lines of handlers to it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from onward.core.inputs.checks import check_kind, whole
from onward.core.inputs.fields import LONGEST, check_text
from onward.core.jobs.filters import MOST_PER_PAGE
from onward.core.jobs.ids import JobId, normalise_id
from onward.core.jobs.job import Job, instant
from onward.core.jobs.payload import decode, encode
from onward.errors import InvalidSetting
from onward.operations.statement import Operation, Row, Scalar, Statement, moment

_MOST_DETAIL = 16_384
_WIDEST = 1_000_000
_LAST = 2**63 - 1


@dataclass(frozen=True, slots=True)
class AuditRecord:
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
    def from_row(cls, row: Row) -> AuditRecord:
        """Make a record from a row of the database."""
        return cls(row[0], instant(row[1]), *row[2:-1], row[-1] and decode(row[-1]))  # type: ignore[call-arg]


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditFilter:
    """What a reading of the audit is narrowed to; a field that is None does not. `until` is exclusive."""

    event: str | None = None
    action: str | None = None
    job_id: JobId | None = None
    org_id: str | None = None
    actor_type: str | None = None
    actor_id: str | None = None
    since: datetime | None = None
    until: datetime | None = None

    def params(self) -> dict[str, Scalar]:
        """Return the filter as parameters of its statement."""
        texts = ("event", "action", "org_id", "actor_type", "actor_id")
        named: dict[str, Scalar] = {name: getattr(self, name) for name in texts}
        for name, value in named.items():
            if value is not None and not isinstance(value, str):
                raise InvalidSetting(f"{name} is {value!r:.80}; give text, or None not to ask for it")
            if value:
                check_text(name, value, longest=LONGEST.get(name, LONGEST["job_type"]))
        job_id = None if self.job_id is None else normalise_id(self.job_id)
        # Under other names: every statement has its client's actor as `actor_type` and `actor_id`.
        named |= {"by_type": named.pop("actor_type"), "by_id": named.pop("actor_id")}
        return {**named, "job_id": job_id, "since": moment(self.since), "until": moment(self.until)}


@dataclass(frozen=True, slots=True)
class AuditPage:
    """Lines of the audit, and the cursor of the next page (None: this was the last)."""

    records: list[AuditRecord]
    next_cursor: int | None


def read(
    where: AuditFilter, *, limit: int = 50, cursor: int | None = None, oldest_first: bool = False
) -> Operation[AuditPage]:
    """Read a page of the audit, newest first or oldest first."""
    check_kind("where", where, AuditFilter, "give an AuditFilter, such as AuditFilter(event='job.failed')")
    whole("limit", limit, 1, MOST_PER_PAGE)
    if cursor is not None:
        whole("cursor", cursor, 0, _LAST)
    asked = {**where.params(), "direction": 1 if oldest_first else -1}
    [(last,)] = yield Statement("last_audit", {})
    at = min(cursor, last + 1) if cursor is not None else 0 if oldest_first else last + 1
    # PostgreSQL's index can't return numbers in order, so read ranges, which widen where little is found.
    width = limit + 1 if where.job_id is None else last + 1
    found: list[Row] = []
    while len(found) <= limit and (at < last if oldest_first else at > 1):
        above, upto = (at, at + width) if oldest_first else (max(0, at - 1 - width), at - 1)
        bounds = {"above": above, "upto": min(upto, last), "limit": limit + 1 - len(found)}
        found += yield Statement("read_audit", {**asked, **bounds})
        at, width = (upto if oldest_first else above + 1), min(4 * width, max(width, _WIDEST))
    records = [AuditRecord.from_row(row) for row in found[:limit]]
    return AuditPage(records, records[-1].seq if len(found) > limit else None)


def note(job: Job, action: str, detail: Mapping[str, Any]) -> Operation[int | None]:
    """Add a line about a running job and return its number; None for a stale lease, which is audited.

    A stale lease does not raise: on SQLite its line in the audit would be rolled back.
    """
    check_text("action", action, longest=LONGEST["job_type"])
    rows = yield Statement(
        "note_audit",
        {
            "id": job.id,
            "lease": job.lease,
            "attempt": job.attempt,
            "action": action,
            "detail": encode(dict(detail), limit=_MOST_DETAIL) if detail else None,
        },
    )
    return int(rows[0][0]) if rows else None
