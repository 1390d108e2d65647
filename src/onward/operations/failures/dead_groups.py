"""Groups of dead letters that died of the same cause, by the fingerprint of their last error."""

from __future__ import annotations

import re

from onward.core.failures.dead_letter import DeadFilter, DeadGroup
from onward.core.failures.fingerprint import normalised
from onward.core.inputs.checks import whole_number
from onward.core.jobs.job import instant
from onward.core.jobs.payload import decode
from onward.core.page import Cursor, Page, cut, read_id_cursor
from onward.core.work.error_record import ErrorRecord
from onward.errors import InvalidSetting
from onward.operations.failures.dead_filter import unresolved
from onward.operations.statement import Operation, Row, Statement

MOST_COUNTED = 200
"""At most this many of the newest jobs of a group are counted."""

MOST_GROUPS = 200
"""A page has at most this many groups."""

# A bound on rows read where row-level security keeps the database from using the index.
_MOST_READ = 10_000
_PREFIX = re.compile(r"[0-9a-z]{1,40}")
# Sorts after every fingerprint.
_BEYOND = "~"


def list_groups(
    where: DeadFilter, *, limit: int = 50, cursor: Cursor | None = None
) -> Operation[Page[DeadGroup]]:
    """Read a page of groups of unresolved letters; `where.group` may be the start of a fingerprint."""
    whole_number("limit", limit, 1, MOST_GROUPS)
    params = unresolved(where)
    if params.pop("subject") is not None:
        raise InvalidSetting("groups can't be narrowed by subject; list the dead letters of the subject")
    low = str(params.pop("group") or "")
    if low and not _PREFIX.fullmatch(low):
        raise InvalidSetting(f"group is {low!r:.80}; give the fingerprint of a group, or its beginning")
    page = {
        "low": low,
        "high": f"{low}{_BEYOND}",
        "below": read_id_cursor("dead.groups", cursor),
        "limit": limit + 1,
        "cap": MOST_COUNTED + 1,
        "most": _MOST_READ,
    }
    groups = [_group(row) for row in (yield Statement("list_dead_groups", {**params, **page}))]
    return cut("dead.groups", groups, limit, lambda group: (group.latest,))


def _group(row: Row) -> DeadGroup:
    fingerprint, latest, job_type, error, counted = row
    cause = ErrorRecord.read(error) if error else ErrorRecord()
    count, first, last, orgs = decode(counted)
    return DeadGroup(
        fingerprint=fingerprint, job_type=job_type, error_class=cause.error_class,
        message=cause.message, pattern=normalised(cause.message),
        count=min(count, MOST_COUNTED), capped=count > MOST_COUNTED, first_at=instant(first),
        last_at=instant(last), orgs=orgs, reason=cause.reason, hint=cause.hint,
        link=cause.link, rule=cause.rule, status=cause.status, latest=latest,
    )  # fmt: skip
