"""Read the audit, and add the lines of handlers to it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from onward.core.inputs.checks import check_kind, whole
from onward.core.inputs.fields import LONGEST, check_text
from onward.core.jobs.job import Job
from onward.core.jobs.payload import encode
from onward.core.page import MOST_PER_PAGE
from onward.core.records.audit import AuditFilter, AuditPage, AuditRecord
from onward.operations.statement import Operation, Row, Statement

_MOST_DETAIL = 16_384
_WIDEST = 1_000_000
_LAST = 2**63 - 1


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
