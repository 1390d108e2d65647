"""What happens to the jobs of a subject, such as `booking:42`, when the subject is deleted."""

from __future__ import annotations

from typing import Any

from onward.core.inputs.fields import LONGEST, check_reason, check_text
from onward.core.jobs.history import Dropped
from onward.core.jobs.ids import JobId
from onward.core.jobs.job import ENDED, JobState
from onward.core.policy.category import CATEGORIES, OnSubjectDelete
from onward.core.policy.policies import Policies
from onward.errors import InvalidSetting
from onward.operations.flows.batches import end_idle
from onward.operations.flows.followers import forget
from onward.operations.jobs.cancel import cancel
from onward.operations.statement import Operation, Statement, as_json

_POLICIES = ("cancel", "delete", "keep")


def drop_subject(
    subject: str,
    policies: Policies,
    *,
    policy: OnSubjectDelete | None = None,
    reason: str = "its subject was deleted",
) -> Operation[Dropped]:
    """Cancel, delete or keep the jobs of a subject, each by the policy of its category, or all by `policy`.

    Nothing is ever removed from the audit.
    """
    check_text("subject", subject, longest=LONGEST["subject"])
    reason = check_reason(reason)
    if policy is not None and policy not in _POLICIES:
        raise InvalidSetting(f"policy is {policy!r:.80}; give one of {', '.join(_POLICIES)}")
    rows = yield Statement("find_subject_jobs", {"subject": subject})
    default = CATEGORIES["default"]
    found = {
        job_id: (
            policy or policies.registry.categories.get(category, default).on_subject_delete,
            JobState(state),
        )
        for job_id, category, state, _ in rows
    }
    by: dict[str, Any] = {"reason": reason}
    going = [job_id for job_id, (do, _) in found.items() if do == "delete"]
    deleted = yield from delete(going, **by)
    if running := [job_id for job_id in going if found[job_id][1] == JobState.RUNNING]:
        deleted |= yield from _doom([job_id for job_id in running if job_id not in deleted], **by)
    # A deleted job never ends, so its batch is checked here.
    if left := {batch_id for job_id, _, _, batch_id in rows if job_id in deleted} - {None}:
        yield from end_idle(left)
    # A running job is asked to stop, and deleted at its end.
    ending = [job_id for job_id, (do, state) in found.items() if do != "keep" and state not in ENDED]
    ending = [job_id for job_id in ending if job_id not in deleted]
    cancelled = frozenset((yield from cancel(ending, **by)) if ending else ())
    return Dropped(cancelled, deleted, frozenset(found) - cancelled - deleted)


def _doom(ids: list[JobId], *, reason: str) -> Operation[frozenset[JobId]]:
    """Mark running jobs to be deleted at their end; delete those that run no longer, and return them.

    Their keys are free at once: a new request must not be answered by a job that will be gone.
    """
    yield Statement("free_keys", {"ids": as_json(ids)})
    rows = yield Statement("doom_jobs", {"ids": as_json(ids)})
    doomed = {job_id for (job_id,) in rows}
    return (yield from delete([job_id for job_id in ids if job_id not in doomed], reason=reason))


def delete(ids: list[JobId], *, reason: str) -> Operation[frozenset[JobId]]:
    """Remove jobs that do not run, with their keys, effects and earlier runs."""
    if not ids:
        return frozenset()
    params = {"ids": as_json(ids), "detail": as_json({"reason": reason})}
    deleted = frozenset([job_id for (job_id,) in (yield Statement("delete_jobs", params))])
    yield from forget(deleted)
    return deleted
