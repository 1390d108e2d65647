"""Read flows: the parents, followers and children of a job, and its flow as a graph."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from onward.core.flows.flow import MOST_PARENTS
from onward.core.flows.graph import Graph, Link
from onward.core.inputs.checks import whole_number
from onward.core.jobs.ids import JobId
from onward.core.jobs.job import Job
from onward.core.page import MOST_PER_PAGE, Cursor, Page, make_cursor, read_id_cursor
from onward.core.upkeep.facts import ParentSeen
from onward.errors import JobNotFound
from onward.operations.jobs.inspect import get_many
from onward.operations.statement import Operation, Row, Scalar, Statement, as_json

MOST_SHOWN = 10_000
_MOST_LINKS = 10 * MOST_SHOWN


def parents(job_id: JobId, limit: int = 50, cursor: Cursor | None = None) -> Operation[Page[Job]]:
    """Return a page of the jobs that a job waits or has waited for, oldest first; raises JobNotFound."""
    rows = yield Statement("list_parents", _params("parents", job_id, limit, cursor))
    return (yield from _page("parents", job_id, rows, limit))


def followers(job_id: JobId, limit: int = 50, cursor: Cursor | None = None) -> Operation[Page[Job]]:
    """Return a page of the jobs that wait or have waited for a job, oldest first; raises JobNotFound."""
    rows = yield Statement("list_followers", _params("followers", job_id, limit, cursor))
    return (yield from _page("followers", job_id, rows, limit))


def children(job_id: JobId, limit: int = 50, cursor: Cursor | None = None) -> Operation[Page[Job]]:
    """Return a page of the jobs that a job has enqueued, oldest first; raises JobNotFound."""
    rows = yield Statement("list_children", _params("children", job_id, limit, cursor))
    return (yield from _page("children", job_id, rows, limit))


def all_parents(job_id: JobId) -> Operation[list[Job]]:
    """Return all jobs that a job waits or has waited for, oldest first."""
    rows = yield Statement("list_parents", {"id": job_id, "after": None, "limit": MOST_PARENTS})
    return (yield from _read(job_id, [parent_id for (parent_id,) in rows]))


def graph(job_id: JobId, limit: int = 200) -> Operation[Graph]:
    """Read the flow of a job, from it outwards, at most `limit` jobs; raises JobNotFound."""
    whole_number("limit", limit, 1, MOST_SHOWN)
    near, edge = {job_id}, {job_id}
    links: dict[tuple[JobId, JobId], Link] = {}
    while edge and len(near) <= limit:
        found = yield from links_of(edge)
        links |= {(one.job_id, one.parent_id): one for one in found}
        edge = {end for one in found for end in (one.job_id, one.parent_id)} - near
        near |= edge
    # If the last step found too many jobs, keep its oldest.
    surplus = max(0, len(near) - limit)
    kept = near - set(sorted(edge)[len(edge) - surplus :])
    jobs = yield from _read(job_id, sorted(kept - {job_id}), itself=True)
    known = {job.id for job in jobs}
    shown = [one for one in links.values() if {one.job_id, one.parent_id} <= known]
    return Graph(jobs, sorted(shown, key=lambda one: (one.job_id, one.parent_id)), not surplus)


def links_of(ids: Collection[JobId]) -> Operation[list[Link]]:
    """Read the links from and to jobs."""
    rows = yield Statement("list_links", {"ids": as_json(sorted(ids)), "limit": _MOST_LINKS})
    return [Link(*row) for row in rows]


def awaited(job_id: JobId) -> Operation[list[ParentSeen]]:
    """Read the jobs for which a job still waits."""
    links = yield from links_of([job_id])
    waits = [one.parent_id for one in links if one.job_id == job_id and one.parent_state is None]
    found = (yield from get_many(waits)) if waits else {}
    return [
        ParentSeen(one, found[one].job_type, found[one].state.value)
        if one in found
        else ParentSeen(one, one, "removed")
        for one in waits
    ]


def _params(kind: str, job_id: JobId, limit: int, cursor: Cursor | None) -> dict[str, Scalar]:
    whole_number("limit", limit, 1, MOST_PER_PAGE)
    return {"id": job_id, "after": read_id_cursor(f"flows.{kind}", cursor), "limit": limit + 1}


def _page(kind: str, job_id: JobId, rows: Sequence[Row], limit: int) -> Operation[Page[Job]]:
    ids = [found for (found,) in rows[:limit]]
    jobs = yield from _read(job_id, ids)
    return Page(jobs, make_cursor(f"flows.{kind}", ids[-1]) if len(rows) > limit else None)


def _read(job_id: JobId, others: Collection[JobId], *, itself: bool = False) -> Operation[list[Job]]:
    found = yield from get_many([job_id, *others])
    if job_id not in found:
        raise JobNotFound(f"no job {job_id}; it was never enqueued here, or has been removed")
    return [found[one] for one in sorted(found) if itself or one != job_id]
