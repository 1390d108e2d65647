"""List jobs by a filter, newest or oldest first; a page looks at a bounded number of jobs."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta

from onward.core.inputs.checks import check_kind, whole_number
from onward.core.jobs.filters import JobFilter, Order
from onward.core.jobs.ids import JobId, first_id_at, id_time
from onward.core.jobs.job import Job
from onward.core.page import MOST_PER_PAGE, Cursor, Page, make_cursor, read_id_cursor
from onward.errors import InvalidSetting
from onward.operations.statement import Operation, Scalar, Statement

REACH = 10_000
"""A page looks at about this many of the live jobs, and of the ended ones, for those that match."""

_LISTINGS: dict[Order, str] = {"newest": "jobs", "oldest": "jobs.oldest"}
_RANGE = ("above", "below", "in_live", "in_ended")
_MILLISECOND = timedelta(milliseconds=1)


def list_jobs(
    where: JobFilter,
    *,
    order: Order = "newest",
    limit: int = 50,
    cursor: Cursor | None = None,
    confined: bool = True,
) -> Operation[Page[Job]]:
    """Read a page of jobs; where conditions leave few of many, it says how far it has searched.

    Unless the client is `confined` to an org, which is a condition too, a page without conditions needs no
    bound.
    """
    check_kind("where", where, JobFilter, "give a JobFilter, such as JobFilter(state='dead')")
    whole_number("limit", limit, 1, MOST_PER_PAGE)
    if order not in _LISTINGS:
        raise InvalidSetting(f"order is {order!r:.80}; give 'newest' or 'oldest'")
    listing = _LISTINGS[order]
    params = {**where.params(read_id_cursor(listing, cursor), order), **where.of_tables()}
    # Before the jobs are read: of those in the range that is read then, none is missed.
    reach = None
    if confined or where.is_filtered():
        reach = yield from _find_reach(where, order, params)
    if reach is not None:
        params["above" if order == "newest" else "below"] = reach
    found = yield Statement(f"list_jobs_{order}_of_{where.index}", {**params, "limit": limit + 1})
    jobs = Job.from_rows(found[:limit])
    if len(found) > limit:
        return Page(jobs, make_cursor(listing, jobs[-1].id))
    if reach is None:
        return Page(jobs)
    return Page(jobs, make_cursor(listing, reach), id_time(reach))


def _find_reach(where: JobFilter, order: Order, params: Mapping[str, Scalar]) -> Operation[JobId | None]:
    """Find where a page stops looking; None if it looks at all jobs, or finds each that it looks at."""
    wanted = [*_RANGE, *({where.index} & params.keys())]
    near = {name: params[name] for name in wanted} | {"filtered": int(where.is_filtered()), "reach": REACH}
    rows = yield Statement(f"find_reach_{order}_of_{where.index}", near)
    if not rows:
        return None
    # The bound of a millisecond, not an id: it is shown in a cursor, and the job may be of another org.
    made = id_time(rows[0][0])
    return first_id_at(made if order == "newest" else made + _MILLISECOND)
