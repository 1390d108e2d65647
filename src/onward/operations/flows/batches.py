"""Batches: jobs that are counted together, and callbacks that are enqueued when all have ended."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any

from onward.core.flows.batch import Batch, BatchTally, counted, due_callbacks
from onward.core.inputs.checks import check_kind, whole_number
from onward.core.inputs.fields import check_text
from onward.core.jobs.ids import JobId
from onward.core.jobs.job import Job, JobState, instant
from onward.core.jobs.payload import decode
from onward.core.page import MOST_PER_PAGE, Cursor, Page, make_cursor, read_id_cursor
from onward.core.policy.policies import DEFAULT_POLICIES, Policies
from onward.operations.flows.batch_add import not_found
from onward.operations.flows.pending_end import PendingEnd
from onward.operations.jobs.enqueue import storing
from onward.operations.jobs.new_rows import COLUMNS
from onward.operations.statement import Operation, Row, Rows, Scalar, Statement, as_json

LONGEST_NAME = 255
_LIST, _JOBS = "batches.list", "batches.jobs"
TALLIES = ("id", "succeeded", "dead", "cancelled")


def close(batch_id: JobId) -> Operation[None]:
    """Close a batch to jobs from outside, once pending additions are stored; end it if it has no job left."""
    rows = yield Statement("close_batch", {"id": batch_id})
    if not rows:
        raise not_found(batch_id)
    yield from end_idle([batch_id])


def count_ends(ended: Sequence[PendingEnd], _policies: Policies = DEFAULT_POLICIES) -> Operation[None]:
    """Count these ends in their batches, and enqueue the callbacks of batches whose last job has ended."""
    tallies: dict[JobId, BatchTally] = {}
    # Most ends are alike, so they are counted by kind.
    alike = Counter((one.batch_id, one.ties, one.state) for one in ended if one.batch_id is not None)
    for (batch_id, ties, state), jobs in alike.items():
        tallies[batch_id] = tallies.get(batch_id, BatchTally()).without(ties, jobs).plus(state, jobs)
    values = [
        (batch_id, tally.succeeded, tally.dead, tally.cancelled)
        for batch_id, tally in sorted(tallies.items())
    ]
    yield Statement("count_batches", {"tallies": Rows(TALLIES, values)})
    yield from end_idle(tallies)


def end_idle(ids: Collection[JobId]) -> Operation[None]:
    """End those of these batches that are closed and have no job left, and enqueue their due callbacks."""
    idle = yield from _idle(ids)
    if idle:
        # A caller may be adding a job: look again once the lock is held.
        yield Statement("lock_batches", {"ids": as_json(idle)})
        idle = yield from _idle(idle)
    if not idle:
        return
    rows = yield Statement("end_batches", {"ids": as_json(idle)})
    due: list[tuple[Scalar, ...]] = []
    for _, succeeded, dead, cancelled, stored in rows:
        callbacks = decode(stored)
        wanted = [name for name in due_callbacks(BatchTally(succeeded, dead, cancelled)) if name in callbacks]
        due += [tuple(callbacks[name].get(column) for column in COLUMNS) for name in wanted]
    if due:
        yield storing(Rows(COLUMNS, due), noted=False)


def _idle(ids: Collection[JobId]) -> Operation[list[JobId]]:
    rows = yield Statement("find_idle_batches", {"ids": as_json(sorted(ids))})
    return sorted(batch_id for (batch_id,) in rows)


def get(ids: Collection[JobId]) -> Operation[dict[JobId, Batch]]:
    """Read batches with their counts; an unknown one is absent from the result."""
    rows = yield Statement("get_batches", {"ids": as_json(sorted(ids))})
    by_id: dict[JobId, list[Row]] = {}
    for row in rows:
        by_id.setdefault(row[0], []).append(row)
    return {batch_id: _batch(parts) for batch_id, parts in by_id.items()}


def get_one(batch_id: JobId) -> Operation[Batch]:
    """Read a batch with its counts; raises BatchNotFound."""
    found = yield from get([batch_id])
    if batch_id not in found:
        raise not_found(batch_id)
    return found[batch_id]


def list_batches(
    *,
    name: str | None = None,
    ended: bool | None = None,
    limit: int = 50,
    cursor: Cursor | None = None,
) -> Operation[Page[Batch]]:
    """Return a page of batches, newest first."""
    whole_number("limit", limit, 1, MOST_PER_PAGE)
    if name is not None:
        check_text("name", name, longest=LONGEST_NAME)
    if ended is not None:
        check_kind("ended", ended, bool, "give True, False, or None for both")
    rows = yield Statement(
        "list_batches",
        {
            "name": name,
            "ended": None if ended is None else int(ended),
            "below": read_id_cursor(_LIST, cursor),
            "limit": limit + 1,
        },
    )
    ids = [batch_id for (batch_id,) in rows[:limit]]
    found = (yield from get(ids)) if ids else {}
    more = make_cursor(_LIST, ids[-1]) if len(rows) > limit else None
    return Page([found[batch_id] for batch_id in ids if batch_id in found], more)


def list_jobs(batch_id: JobId, *, limit: int = 50, cursor: Cursor | None = None) -> Operation[Page[Job]]:
    """Return a page of the jobs of a batch, newest first; an unknown batch has none."""
    whole_number("limit", limit, 1, MOST_PER_PAGE)
    below = read_id_cursor(_JOBS, cursor)
    rows = yield Statement(
        "list_batch_jobs", {"ids": as_json([batch_id]), "below": below, "limit": limit + 1}
    )
    jobs = Job.from_rows(rows[:limit])
    return Page(jobs, make_cursor(_JOBS, jobs[-1].id) if len(rows) > limit else None)


def _batch(rows: Sequence[Row]) -> Batch:
    (
        batch_id, org_id, name, created_at, closed_at, cancelled_at, ended_at, actor_type, actor_id,
        correlation_id, parent_id, callbacks, succeeded, dead, cancelled, *_,
    ) = rows[0]  # fmt: skip
    parts = [(JobState(state), ties, jobs) for *_, state, ties, jobs in rows if state is not None]
    stored: Mapping[str, Mapping[str, Any]] = decode(callbacks)
    return Batch(
        id=batch_id,
        org_id=org_id,
        name=name,
        created_at=instant(created_at),
        closed_at=_maybe(closed_at),
        cancelled_at=_maybe(cancelled_at),
        ended_at=_maybe(ended_at),
        actor_type=actor_type,
        actor_id=actor_id,
        correlation_id=correlation_id,
        parent_id=parent_id,
        callbacks={name: row["id"] for name, row in stored.items()},
        **counted(BatchTally(succeeded, dead, cancelled), parts),
    )


def _maybe(at: int | None) -> datetime | None:
    return None if at is None else instant(at)
