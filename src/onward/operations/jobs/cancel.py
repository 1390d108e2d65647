"""Cancel many jobs: those of a filter, a subject or a batch, or a job with everything that follows from it.

The request is one line of the audit; each job has a line of its own besides.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import msgspec

from onward.core.inputs.checks import check_kind
from onward.core.inputs.fields import LONGEST, check_reason, check_text
from onward.core.jobs.filters import JobFilter
from onward.core.jobs.ids import JobId
from onward.core.jobs.job import JobState
from onward.errors import InvalidSetting, JobNotFound
from onward.operations.flows.batch_add import not_found
from onward.operations.jobs.inspect import get_many
from onward.operations.statement import Operation, Statement, as_json

AT_ONCE = 500
"""At most this many are cancelled in one transaction."""

_WALKED_AT_ONCE = 1000


class Stopped(msgspec.Struct, frozen=True):
    """The states of jobs that were to be cancelled, which have follow-up work, and the limits they used."""

    states: Mapping[JobId, JobState]
    tied: frozenset[JobId] = frozenset()
    permits: frozenset[str] = frozenset()


class Chosen(msgspec.Struct, frozen=True, kw_only=True):
    """Which jobs are to be cancelled: how to find them, and how the audit describes them."""

    where: dict[str, Any]
    find: Statement | None = None
    org_id: str | None = None
    job_type: str | None = None
    job_id: JobId | None = None


def cancel(ids: Collection[JobId], *, reason: str) -> Operation[dict[JobId, JobState]]:
    """Cancel waiting jobs at once and ask running ones to stop; return the state of each known job."""
    stopped = yield from stop(ids, reason=reason)
    return dict(stopped.states)


def stop(ids: Collection[JobId], *, reason: str) -> Operation[Stopped]:
    """Cancel as `cancel` does; return also which jobs have follow-up work, and which limits they used."""
    reason = check_reason(reason)
    among = as_json(sorted(ids))
    rows = yield Statement("cancel_jobs", {"ids": among, "error": as_json({"reason": reason})})
    states = {job_id: JobState(state) for job_id, state, _, _ in rows}
    tied = frozenset(job_id for job_id, _, tied, _ in rows if tied)
    permits = frozenset(limit_key for *_, limit_key in rows if limit_key is not None)
    if len(states) < len(set(ids)):
        # A job that is not live has ended, perhaps after the statement began: a new statement sees it.
        rows = yield Statement("get_jobs", {"ids": among})
        states = {row[0]: JobState(row[6]) for row in rows} | states
    return Stopped(states, tied, permits)


def of_filter(where: JobFilter) -> Chosen:
    """Choose the jobs that match a filter; raise for an empty filter, which would match every job."""
    check_kind("where", where, JobFilter, "give a JobFilter, such as JobFilter(job_type='mail')")
    conditions = {name: value for name, value in msgspec.structs.asdict(where).items() if value is not None}
    if not conditions:
        raise InvalidSetting("an empty JobFilter would match every job; give it a condition")
    params, tables = where.params(), where.of_tables()
    if tables["in_ended"] and (where.state is not None or tables["unresolved"]):
        raise InvalidSetting(
            f"state {where.state or where.queue!r} is of jobs that have ended, which can't be cancelled"
        )
    return Chosen(
        where=conditions,
        find=Statement("pick_jobs", params),
        org_id=where.org_id,
        job_type=where.job_type,
    )


def of_subject(subject: str) -> Chosen:
    """Choose the jobs of a subject."""
    check_text("subject", subject, longest=LONGEST["subject"])
    find = Statement("pick_jobs_of_subject", {"subject": subject})
    return Chosen(where={"subject": subject}, find=find)


def of_batch(batch_id: JobId) -> Chosen:
    """Choose the jobs of a batch."""
    find = Statement("pick_jobs_of_batch", {"batch_id": batch_id})
    return Chosen(where={"batch": batch_id}, find=find)


def of_flow(job_id: JobId) -> Operation[Chosen]:
    """Choose a job, all that wait for it, and all that it has enqueued; raises JobNotFound."""
    found = yield from get_many([job_id])
    if job_id not in found:
        raise JobNotFound(f"no job {job_id}; it was never enqueued here, or has been removed")
    job = found[job_id]
    return Chosen(where={"flow": job_id}, org_id=job.org_id, job_type=job.job_type, job_id=job_id)


def find_flow(job_id: JobId) -> Operation[list[JobId]]:
    """Find the jobs of a flow that can be cancelled, followers before their parents.

    Otherwise the end of a parent would release a follower that is about to be cancelled itself.
    """
    known, level = {job_id: None}, [job_id]
    while level:
        found: list[JobId] = []
        for at in range(0, len(level), _WALKED_AT_ONCE):
            rows = yield Statement("find_dependents", {"ids": as_json(level[at : at + _WALKED_AT_ONCE])})
            found += [dependent for (dependent,) in rows if dependent not in known]
        level = list(dict.fromkeys(found))
        known |= dict.fromkeys(level)
    rows = yield Statement("pick_jobs_by_id", {"ids": as_json(list(known)), "after": None})
    live = {one for (one,) in rows}
    return [one for one in reversed(known) if one in live]


def pick(chosen: Chosen, after: JobId | None, limit: int) -> Operation[list[JobId]]:
    """Find the next of the chosen jobs that can be cancelled, oldest first."""
    if chosen.find is None:
        return []
    rows = yield Statement(chosen.find.name, {**chosen.find.params, "after": after, "limit": limit})
    return [job_id for (job_id,) in rows]


def note(chosen: Chosen, reason: str, found: int) -> Operation[None]:
    """Write the request into the audit, with the count of all jobs that were found."""
    detail = {"where": msgspec.to_builtins(chosen.where), "jobs": found, "reason": reason}
    yield Statement(
        "note_cancel_request",
        {
            "job_id": chosen.job_id,
            "job_type": chosen.job_type,
            "org_id": chosen.org_id,
            "detail": as_json(detail),
        },
    )


def refuse_more(chosen: Chosen, batch_id: JobId) -> Operation[Chosen]:
    """Close a batch to more jobs before its jobs are cancelled; return the choice with the batch's org."""
    rows = yield Statement("mark_batch_cancelled", {"id": batch_id})
    if not rows:
        raise not_found(batch_id)
    return msgspec.structs.replace(chosen, org_id=rows[0][0])
