"""Read the audit, and add the lines of handlers to it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from msgspec.structs import replace

from onward.core.inputs.checks import check_kind, whole_number
from onward.core.inputs.fields import LONGEST, check_text
from onward.core.jobs.payload import encode
from onward.core.page import MOST_PER_PAGE, Cursor, Page, make_cursor, read_cursor
from onward.core.records.audit import AuditFilter, AuditRecord
from onward.core.work.lease import JobLease
from onward.operations.statement import Operation, Row, Statement

_MOST_DETAIL = 16_384
_WIDEST = 1_000_000


def read(
    where: AuditFilter,
    *,
    hide: Callable[[Any], Any],
    limit: int = 50,
    cursor: Cursor | None = None,
    oldest_first: bool = False,
) -> Operation[Page[AuditRecord]]:
    """Return a page of the audit, newest first or oldest first; `hide` removes secrets from its details."""
    check_kind("where", where, AuditFilter, "give an AuditFilter, such as AuditFilter(event='job.failed')")
    whole_number("limit", limit, 1, MOST_PER_PAGE)
    listing = "audit.oldest" if oldest_first else "audit.newest"
    [after] = [None] if cursor is None else read_cursor(listing, cursor, int)
    params = {**where.params(), "direction": 1 if oldest_first else -1}
    [(last,)] = yield Statement("last_audit", {})
    at = (0 if oldest_first else last + 1) if after is None else max(0, min(after, last + 1))
    # PostgreSQL's index can't return numbers in order, so read ranges, which widen where little is found.
    width = limit + 1 if where.job_id is None else last + 1
    found: list[Row] = []
    while len(found) <= limit and (at < last if oldest_first else at > 1):
        above, upto = (at, at + width) if oldest_first else (max(0, at - 1 - width), at - 1)
        bounds = {"above": above, "upto": min(upto, last), "limit": limit + 1 - len(found)}
        found += yield Statement("read_audit", {**params, **bounds})
        at, width = (upto if oldest_first else above + 1), min(4 * width, max(width, _WIDEST))
    records = [AuditRecord.from_row(row) for row in found[:limit]]
    shown = [one if one.detail is None else replace(one, detail=hide(one.detail)) for one in records]
    return Page(shown, make_cursor(listing, records[-1].seq) if len(found) > limit else None)


def note(lease: JobLease, action: str, detail: Mapping[str, Any]) -> Operation[int | None]:
    """Add a line about a running job and return its number; None for a stale lease, which is audited.

    A stale lease does not raise: on SQLite its line in the audit would be rolled back.
    """
    check_text("action", action, longest=LONGEST["job_type"])
    rows = yield Statement(
        "note_audit",
        {
            "id": lease.job_id,
            "lease": lease.lease,
            "attempt": lease.attempt,
            "action": action,
            "detail": encode(dict(detail), limit=_MOST_DETAIL) if detail else None,
        },
    )
    return int(rows[0][0]) if rows else None
