"""Cancel many jobs: those of a filter, a subject or a batch, or a job with everything that follows from it.

They are found page by page, and each page is cancelled in a transaction of its own. The request is one line
of the audit, written with the first page; each job has a line of its own besides.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from onward.core.inputs.checks import check_kind, whole
from onward.core.inputs.fields import LONGEST, check_reason, check_text, check_texts
from onward.core.jobs.filters import JobFilter
from onward.core.jobs.ids import JobId
from onward.core.jobs.job import ENDED, JobState
from onward.core.policy.policies import DEFAULT_POLICIES, Policies
from onward.errors import InvalidSetting, JobNotFound
from onward.operations.flows.batch_add import not_found
from onward.operations.jobs.inspect import get_many
from onward.operations.statement import Operation, Scalar, Statement, as_json

AT_ONCE = 500
"""At most this many are cancelled in one transaction."""

_MOST = 1_000_000
_COUNTED_AT_ONCE = 10_000
_WALKED_AT_ONCE = 1000


@dataclass(frozen=True, slots=True)
class Stopped:
    """The states of jobs that were to be cancelled, which have follow-up work, and the limits they used."""

    states: Mapping[JobId, JobState]
    tied: frozenset[JobId] = frozenset()
    slots: frozenset[str] = frozenset()


class Chosen(msgspec.Struct, frozen=True, kw_only=True):
    """Which jobs are to be cancelled: how to find them, and how the audit describes them."""

    kind: str
    asked: dict[str, Any]
    params: dict[str, Any] = {}
    org_id: str | None = None
    job_type: str | None = None
    job_id: JobId | None = None


class CancelRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A request to cancel: which jobs, why, and at most how many."""

    chosen: Chosen
    reason: str
    limit: int = _MOST

    def __post_init__(self) -> None:
        """Raise for an invalid request, before any job is looked for."""
        whole("limit", self.limit, 1, _MOST)
        check_reason(self.reason)


class Picked(msgspec.Struct, frozen=True):
    """A page of ids, and whether there are more."""

    ids: list[JobId]
    more: bool


class CancelledMany(msgspec.Struct, frozen=True):
    """How many jobs were found, cancelled at once, and asked to stop because they run.

    `next_cursor` is where to continue; None means that nothing was left.
    """

    found: int = 0
    cancelled: int = 0
    requested: int = 0
    next_cursor: JobId | None = None

    def plus(self, picked: Picked, stopped: Stopped | None) -> CancelledMany:
        """Add the result of a page."""
        states = [] if stopped is None else [stopped.states.get(job_id) for job_id in picked.ids]
        return CancelledMany(
            self.found + len(picked.ids),
            self.cancelled + states.count(JobState.CANCELLED),
            self.requested + states.count(JobState.RUNNING),
            picked.ids[-1] if picked.more else None,
        )

    def joined(self, later: CancelledMany) -> CancelledMany:
        """Add the counts of what was found and cancelled afterwards."""
        return CancelledMany(
            self.found + later.found,
            self.cancelled + later.cancelled,
            self.requested + later.requested,
            later.next_cursor or self.next_cursor,
        )


def cancel(ids: Collection[JobId], *, reason: str) -> Operation[dict[JobId, JobState]]:
    """Cancel waiting jobs at once and ask running ones to stop; return the state of each known job."""
    stopped = yield from stop(ids, reason=reason)
    return dict(stopped.states)


def stop(ids: Collection[JobId], *, reason: str) -> Operation[Stopped]:
    """Cancel as `cancel` does; return also which jobs have follow-up work, and which limits they used."""
    reason = check_reason(reason)
    asked = as_json(sorted(ids))
    rows = yield Statement(
        "cancel_jobs",
        {"ids": asked, "error": as_json({"reason": reason})},
    )
    states = {job_id: JobState(state) for job_id, state, _, _ in rows}
    tied = frozenset(job_id for job_id, _, tied, _ in rows if tied)
    slots = frozenset(limit_key for *_, limit_key in rows if limit_key is not None)
    if len(states) < len(set(ids)):
        # A job that is not live has ended, perhaps after the statement began: a new statement sees it.
        rows = yield Statement("get_jobs", {"ids": asked})
        states = {row[0]: JobState(row[6]) for row in rows} | states
    return Stopped(states, tied, slots)


def of_filter(where: JobFilter) -> Chosen:
    """Choose the jobs that match a filter; raise for an empty filter, which would match every job."""
    check_kind("where", where, JobFilter, "give a JobFilter, such as JobFilter(job_type='mail')")
    asked = {name: value for name, value in msgspec.structs.asdict(where).items() if value is not None}
    if not asked:
        raise InvalidSetting("an empty JobFilter means every job there is; say which are to be cancelled")
    params = where.params(None)
    outcome, unresolved = params.pop("outcome"), params.pop("unresolved")
    if params["state"] in ENDED or outcome is not None or unresolved is not None:
        raise InvalidSetting(
            f"state {where.state or where.queue!r} is of jobs that have ended, which can't be cancelled"
        )
    return Chosen(kind="filter", asked=asked, params=params, org_id=where.org_id, job_type=where.job_type)


def of_subject(subject: str, org_id: str | None = None) -> Chosen:
    """Choose the jobs of a subject."""
    check_text("subject", subject, longest=LONGEST["subject"])
    check_texts({"org_id": org_id})
    params = {"subject": subject, "org_id": org_id}
    return Chosen(kind="subject", asked={"subject": subject}, params=params, org_id=org_id)


def of_batch(batch_id: JobId) -> Chosen:
    """Choose the jobs of a batch."""
    return Chosen(kind="batch", asked={"batch": batch_id}, params={"batch_id": batch_id})


def of_flow(job_id: JobId) -> Operation[Chosen]:
    """Choose a job, all that wait for it, and all that it has enqueued; raises JobNotFound."""
    found = yield from get_many([job_id])
    if job_id not in found:
        raise JobNotFound(f"no job {job_id}; it was never enqueued here, or has been removed")
    job = found[job_id]
    return Chosen(
        kind="flow", asked={"flow": job_id}, org_id=job.org_id, job_type=job.job_type, job_id=job_id
    )


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


def pick(request: CancelRequest, so_far: CancelledMany, *, count: bool = False) -> Operation[Picked]:
    """Find the next page of the chosen jobs, oldest first, to be cancelled or only to be counted."""
    size = min(_COUNTED_AT_ONCE if count else AT_ONCE, request.limit - so_far.found)
    page: dict[str, Scalar] = {"after": so_far.next_cursor, "limit": size + 1}
    rows = yield _picking(request, page)
    return Picked([job_id for (job_id,) in rows[:size]], len(rows) > size)


def _picking(request: CancelRequest, page: Mapping[str, Scalar]) -> Statement:
    params = {**request.chosen.params, **page}
    if request.chosen.kind == "subject":
        return Statement("pick_jobs_of_subject", params)
    if request.chosen.kind == "batch":
        return Statement("pick_jobs_of_batch", params)
    return Statement("pick_jobs", params)


def cancel_page(
    request: CancelRequest,
    ids: Collection[JobId],
    *,
    found: int | None = None,
    policies: Policies = DEFAULT_POLICIES,
) -> Operation[Stopped]:
    """Cancel a page of jobs; `found`, the count of all, comes with the first page and audits the request."""
    chosen, said = request.chosen, check_reason(request.reason, hide=policies.settings.redact.redact_text)
    if found is not None:
        detail = {"asked": msgspec.to_builtins(chosen.asked), "jobs": found, "reason": said}
        yield Statement(
            "note_cancel_request",
            {
                "job_id": chosen.job_id,
                "job_type": chosen.job_type,
                "org_id": chosen.org_id,
                "detail": as_json(detail),
            },
        )
    if not ids:
        return Stopped({})
    return (yield from stop(ids, reason=said))


def refuse_more(request: CancelRequest, batch_id: JobId) -> Operation[CancelRequest]:
    """Close a batch to more jobs before its jobs are cancelled; return the request with the batch's org."""
    rows = yield Statement("mark_batch_cancelled", {"id": batch_id})
    if not rows:
        raise not_found(batch_id)
    chosen = msgspec.structs.replace(request.chosen, org_id=rows[0][0])
    return msgspec.structs.replace(request, chosen=chosen)
