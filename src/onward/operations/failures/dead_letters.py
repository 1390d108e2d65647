"""Dead letters: jobs that died, and how each death was resolved: replayed, discarded or fixed, only once.

A death is identified by the job's lease. A job that was replayed and dies again has a new lease, so its new
death is unresolved.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import timedelta
from typing import Any

from onward.core.bulk import Bulk
from onward.core.failures.dead_letter import DeadFilter, DeadLetter, Edit, Resolution
from onward.core.inputs.checks import check_kind, whole_number
from onward.core.inputs.fields import check_reason
from onward.core.jobs.diff import diff, masked_path, options_diff, patched
from onward.core.jobs.ids import AnyJobId, JobId, normalise_id
from onward.core.jobs.job import COLUMNS as JOB_COLUMNS
from onward.core.jobs.job import Job, JobState, NewJob, instant
from onward.core.jobs.payload import decode
from onward.core.page import MOST_PER_PAGE, Cursor, Page, cut, read_id_cursor
from onward.core.policy.policies import Policies
from onward.core.secrets.patterns import MASK
from onward.errors import AlreadyResolved, InvalidSetting, JobNotFound, PayloadRejected
from onward.operations.failures.dead_filter import conditions, listing
from onward.operations.flows.followers import give_up, hand_over
from onward.operations.jobs.new_rows import COLUMNS, new_row
from onward.operations.statement import Operation, Row, Rows, Scalar, Statement, as_json

NO_TIME = timedelta()

_MICROSECOND = timedelta(microseconds=1)
_WIDTH = len(JOB_COLUMNS)


def list_letters(
    where: DeadFilter, *, limit: int = 50, cursor: Cursor | None = None
) -> Operation[Page[DeadLetter]]:
    """Read a page of dead jobs, newest first."""
    whole_number("limit", limit, 1, MOST_PER_PAGE)
    page = {"below": read_id_cursor("dead", cursor), "limit": limit + 1}
    letters = [_letter(row) for row in (yield listing({**conditions(where), **page}))]
    return cut("dead", letters, limit, lambda letter: (letter.job.id,))


def get_letter(job_id: JobId) -> Operation[DeadLetter]:
    """Read a dead job and its resolution; raises JobNotFound."""
    rows = yield Statement("get_dead_letter", {"id": job_id})
    if not rows:
        raise JobNotFound(
            f"no dead job {job_id}; it has not ended, ended in another state, or was never enqueued here"
        )
    return _letter(rows[0])


def origin(successor_id: JobId) -> Operation[DeadLetter | None]:
    """Find the dead job that this one was made to replace; None if there is none."""
    rows = yield Statement("find_origin", {"id": successor_id})
    return _letter(rows[0]) if rows else None


def history(job_id: JobId) -> Operation[Page[Resolution]]:
    """Read how each death of a job was resolved, oldest first; an unresolved death has no line."""
    return Page([_resolution(row) for row in (yield Statement("list_resolutions", {"id": job_id}))])


def replay(
    ids: Collection[AnyJobId],
    *,
    reason: str,
    policies: Policies,
    reset_attempts: bool = True,
    delay: timedelta = NO_TIME,
    every: timedelta = NO_TIME,
) -> Operation[Bulk]:
    """Let dead jobs run again under their own ids, from the first attempt or for one more.

    The first is due after `delay`, each further one `every` later than the one before.
    """
    check_kind("reset_attempts", reset_attempts, bool, "give True or False")
    wanted = _normalised(ids)
    params = _params(wanted, reason, policies) | {
        "reset": int(reset_attempts),
        "delay": delay // _MICROSECOND,
        "every": every // _MICROSECOND,
    }
    rows = (yield Statement("replay_dead_letters", params)) if wanted else []
    return (yield from _answer(wanted, rows))


def discard(ids: Collection[AnyJobId], *, reason: str, policies: Policies) -> Operation[Bulk]:
    """Leave jobs dead for good: they no longer wait for an operator."""
    wanted = _normalised(ids)
    params = _params(wanted, reason, policies)
    rows = (yield Statement("discard_dead_letters", params)) if wanted else []
    # Followers that waited for a replay need not wait any more.
    yield from give_up([job_id for (job_id,) in rows])
    return (yield from _answer(wanted, rows))


def fix(
    job_id: JobId, edit: Edit, successor_id: JobId, *, reason: str, policies: Policies
) -> Operation[DeadLetter]:
    """Store an edited copy of a dead job, checked like any new job; the dead job stays as it is."""
    hidden = check_reason(reason, hide=policies.settings.redact.redact_text)
    edit.check()
    job = (yield from get_unresolved(job_id)).job
    row, changes = planned(job, edit, successor_id, policies)
    params: dict[str, Scalar | Rows] = {
        "id": job_id,
        "lease": job.lease,
        "jobs": Rows(COLUMNS, [row]),
        "successor": successor_id,
        "diff": as_json(changes),
        "reason": hidden,
        "detail": as_json({"reason": hidden, "successor_id": successor_id}),
    }
    rows = yield Statement("fix_dead_letter", params)
    if not rows:
        # Another process was first: raise with what it did.
        yield from get_unresolved(job_id)
        raise AlreadyResolved(f"job {job_id} was changed by another process meanwhile; read it again")
    yield from hand_over(job_id, successor_id)
    return DeadLetter.of(job, _resolution(rows[0]))


def planned(
    job: Job, edit: Edit, successor_id: JobId, policies: Policies
) -> tuple[tuple[Scalar, ...], list[dict[str, Any]]]:
    """Return the row of a fixed copy, checked like a new job, and its changes; raises if nothing changes."""
    edited = _edited(job, edit)
    row = new_row(edited, successor_id, policies)
    if (path := masked_path(edited.payload, job.payload)) is not None:
        raise PayloadRejected(
            f"payload at {path} holds {MASK}, which stands for a secret that was hidden from you; give the "
            "true value, or leave it as it is: Edit(patch={…}) changes only the fields that it names",
            path=path,
        )
    # Else the death's only resolution would be used up by a copy that can't run.
    if known := policies.registry.job_types.get(job.job_type):
        known.check(decode(str(row[COLUMNS.index("payload")])))
    changes = _changes(job, dict(zip(COLUMNS, row, strict=True)), policies)
    if not changes:
        raise InvalidSetting(f"the fix of job {job.id} changes nothing; edit its payload, or replay it")
    return row, changes


def get_unresolved(job_id: JobId) -> Operation[DeadLetter]:
    """Read an unresolved death; raises JobNotFound and AlreadyResolved."""
    letter = yield from get_letter(job_id)
    if letter.resolution is not None:
        became = letter.resolution.resolution
        other = f", by job {letter.successor_id}" if letter.successor_id else ""
        raise AlreadyResolved(
            f"job {job_id} was {became} already{other}; a dead letter can be resolved only once"
        )
    return letter


def _edited(job: Job, edit: Edit) -> NewJob:
    """Return the copy; it keeps the subject, the origin and the actor of the job."""
    edit.check()
    payload = patched(job.payload, edit.patch or {}) if edit.payload is None else dict(edit.payload)
    timeout = None if job.timeout_micros is None else timedelta(microseconds=job.timeout_micros)
    return NewJob(
        job_type=job.job_type, payload=payload, category=job.category, timeout=timeout, deadline=job.deadline,
        queue=job.queue if edit.queue is None else edit.queue,
        priority=job.priority if edit.priority is None else edit.priority,
        max_attempts=job.max_attempts if edit.max_attempts is None else edit.max_attempts,
        org_id=job.org_id, project_id=job.project_id, actor_type=job.actor_type, actor_id=job.actor_id,
        request_id=job.request_id, correlation_id=job.correlation_id, traceparent=job.traceparent,
        subject=job.subject, parent_id=job.id, batch_id=job.batch_id, tags=job.tags,
    )  # fmt: skip


def _changes(job: Job, row: Mapping[str, Any], policies: Policies) -> list[dict[str, Any]]:
    options = {name: row[name] for name in ("queue", "priority", "max_attempts")}
    before = {name: getattr(job, name) for name in options}
    changed = diff(job.payload, decode(row["payload"]), redaction=policies.settings.redact)
    return [*changed, *options_diff(before, options)]


def _params(ids: Collection[JobId], reason: str, policies: Policies) -> dict[str, Scalar | Rows]:
    hidden = check_reason(reason, hide=policies.settings.redact.redact_text)
    return {"ids": as_json(sorted(ids)), "reason": hidden, "detail": as_json({"reason": hidden})}


def _normalised(ids: Collection[AnyJobId]) -> set[JobId]:
    check_kind("ids", ids, list | tuple | set | frozenset, "give a list of job ids")
    return {normalise_id(job_id) for job_id in ids}


def _answer(ids: Collection[JobId], rows: Collection[Row]) -> Operation[Bulk]:
    """Return how many were resolved, and why not the others; a new statement sees what became of those."""
    done = frozenset(job_id for (job_id,) in rows)
    left = sorted(set(ids) - done)
    if not left:
        return Bulk(found=len(done), done=len(done))
    found = yield Statement("explain_refusals", {"ids": as_json(left)})
    whys = {job_id: _why(*facts) for job_id, *facts in found}
    refused = {job_id: whys.get(job_id, "no such job") for job_id in left}
    return Bulk(found=len(done) + len(left), done=len(done), refused=refused)


def _why(state: str, resolution: str | None, holder: JobId | None) -> str:
    if state != JobState.DEAD:
        return f"it is {state}, not dead"
    if resolution is not None:
        return f"it was {resolution} already"
    return (
        "it was changed by another process meanwhile" if holder is None else f"job {holder} has its key now"
    )


def _letter(row: Row) -> DeadLetter:
    resolved = row[_WIDTH:]
    return DeadLetter.of(Job.from_row(row[:_WIDTH]), None if resolved[0] is None else _resolution(resolved))


def _resolution(row: Row) -> Resolution:
    lease, resolution, at, actor_type, actor_id, reason, successor_id, changes = row
    return Resolution(
        lease, resolution, instant(at), actor_type, actor_id, reason, successor_id,
        None if changes is None else decode(changes),
    )  # fmt: skip
