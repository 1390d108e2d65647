"""The record of effects: written only under the newest lease of a running job.

A refused write does not raise here: on SQLite its line in the audit would be rolled back.
"""

from __future__ import annotations

from typing import Any, Literal

from onward.core.inputs.checks import check_kind, whole_number
from onward.core.inputs.fields import check_reason, check_text
from onward.core.jobs.ids import JobId
from onward.core.jobs.job import Job, instant
from onward.core.jobs.payload import decode, encode
from onward.core.page import MOST_PER_PAGE, Cursor, Page, cut, read_cursor
from onward.core.policy.policies import Policies
from onward.core.secrets.redaction import redact_text
from onward.core.work.effect import MAX_RESULT_BYTES, Effect, payload_hash
from onward.core.work.lease import check_lease
from onward.errors import EffectNotFound
from onward.operations.statement import Operation, Row, Scalar, Statement, as_json

_LONGEST_NAME = 200


def check_name(name: str) -> str:
    """Raise for a name that no effect can have."""
    check_text("effect", name, longest=_LONGEST_NAME)
    return name


def begin(job: Job, name: str) -> Operation[Effect | None]:
    """Record that an effect is about to be done, unless it was; None if the lease was lost, which is audited.

    An effect that was begun before and never done is begun again, under its old key.
    """
    params = _of_run(job, name) | {"payload_hash": payload_hash(job.payload)}
    rows = yield Statement("begin_effect", params)
    return _effect(rows[0]) if rows else None


def keep(
    job: Job, name: str, result: Any, *, kind: Literal["once", "step"], after: Effect | None
) -> Operation[bool]:
    """Record that an effect was done, and its result; False if the lease was lost, which is audited.

    `after` is the record from before. An effect that was reset since then is still to be done again.
    """
    mark = payload_hash(job.payload)
    seen = 0 if after is None else after.generation
    changed = after is not None and after.payload_hash != mark
    text = encode(result, limit=MAX_RESULT_BYTES, what=f"the result of {name!r}")
    params = _of_run(job, name) | {
        "kind": kind,
        "payload_hash": mark,
        "seen": seen,
        "generation": seen + changed,
        "result": None if result is None else text,
    }
    return bool((yield Statement("keep_effect", params)))


def read(job_id: JobId, name: str) -> Operation[Effect | None]:
    """Read one effect of a job; None if there is no record of it."""
    rows = yield Statement("read_effect", {"job_id": job_id, "name": check_name(name)})
    return _effect(rows[0]) if rows else None


def list_effects(
    job_id: JobId, *, limit: int = MOST_PER_PAGE, cursor: Cursor | None = None
) -> Operation[Page[Effect]]:
    """Read a page of the effects of a job, in the order of their names."""
    whole_number("limit", limit, 1, MOST_PER_PAGE)
    [after] = read_cursor("effects", cursor, str) if cursor is not None else [""]
    rows = yield Statement("list_effects", {"job_id": job_id, "after": after, "limit": limit + 1})
    return cut("effects", [_effect(row) for row in rows], limit, lambda effect: (effect.name,))


def reset(job_id: JobId, name: str, policies: Policies, *, reason: str) -> Operation[Effect]:
    """Reset an effect, so that its job does it again, under a new key, the next time it gets there."""
    hidden = check_reason(reason, hide=policies.settings.redact.redact_text)
    params: dict[str, Scalar] = {
        "job_id": job_id,
        "name": check_name(name),
        "detail": as_json({"effect": policies.settings.redact.redact_text(name), "reason": hidden}),
    }
    rows = yield Statement("reset_effect", params)
    if not rows:
        raise EffectNotFound(
            f"no effect {name!r:.80} of job {job_id} is recorded; "
            f"`onward effects list {job_id}` lists those that are"
        )
    return _effect(rows[0])


def _of_run(job: Job, name: str) -> dict[str, Scalar]:
    check_kind("job", job, Job, "give a job that claim() gave you")
    check_lease(job.lease, job.attempt)
    return {
        "job_id": job.id,
        "lease": job.lease,
        "attempt": job.attempt,
        "name": check_name(name),
        "detail": as_json({"effect": redact_text(name)}),
    }


def _effect(row: Row) -> Effect:
    values: dict[str, Any] = dict(zip(Effect.__struct_fields__, row, strict=True))
    values["result"] = None if values["result"] is None else decode(values["result"])
    for name in ("begun_at", "done_at"):
        values[name] = None if values[name] is None else instant(values[name])
    return Effect(**values)
