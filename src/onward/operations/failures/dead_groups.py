"""Groups of dead letters that died of the same cause, by the fingerprint of their last error."""

from __future__ import annotations

import re

from onward.core.failures.dead_letter import DeadGroup, GroupPage
from onward.core.failures.fingerprint import normalised
from onward.core.inputs.checks import whole
from onward.core.jobs.ids import JobId, normalise_id
from onward.core.jobs.job import instant
from onward.core.jobs.payload import decode
from onward.core.work.error_record import ErrorRecord
from onward.errors import InvalidSetting
from onward.operations.failures.dead_filter import DeadFilter, narrowing
from onward.operations.statement import Operation, Row, Statement

MOST_COUNTED = 1000
"""A group is counted up to this number of its newest jobs."""

_MOST_GROUPS = 200
# A bound on rows read where row-level security keeps the database from using the index.
_MOST_READ = 10_000
_PREFIX = re.compile(r"[0-9a-z]{1,40}")
# Sorts after every fingerprint.
_BEYOND = "~"


def list_groups(where: DeadFilter, *, limit: int = 50, cursor: JobId | None = None) -> Operation[GroupPage]:
    """Read a page of groups of unresolved letters; `group` may be the beginning of a fingerprint."""
    whole("limit", limit, 1, _MOST_GROUPS)
    params = narrowing(where, "job_type", "org_id", "error_class", "group")
    low = str(params.pop("group") or "")
    if low and not _PREFIX.fullmatch(low):
        raise InvalidSetting(f"group is {low!r:.80}; give the fingerprint of a group, or its beginning")
    found = {
        "low": low,
        "high": f"{low}{_BEYOND}",
        "below": None if cursor is None else normalise_id(cursor),
        "limit": limit + 1,
        "cap": MOST_COUNTED + 1,
        "most": _MOST_READ,
    }
    rows = yield Statement("list_dead_groups", {**params, **found})
    groups = [_group(row) for row in rows[:limit]]
    return GroupPage(groups, groups[-1].latest if len(rows) > limit else None)


def _group(row: Row) -> DeadGroup:
    fingerprint, latest, job_type, error, counted = row
    last_error = ErrorRecord.read(error) if error else ErrorRecord()
    count, first, last, orgs = decode(counted)
    return DeadGroup(
        fingerprint=fingerprint, job_type=job_type, error_class=last_error.error_class,
        message=last_error.message, pattern=normalised(last_error.message),
        count=min(count, MOST_COUNTED), capped=count > MOST_COUNTED, first_at=instant(first),
        last_at=instant(last), orgs=orgs, reason=last_error.reason, hint=last_error.hint,
        link=last_error.link, rule=last_error.rule, status=last_error.status, latest=latest,
    )  # fmt: skip
