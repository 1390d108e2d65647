"""The contract of an application: which fields a job must carry, and which queues and times it may use.

The checks need no database and depend only on a job's shape, so they run once for many equal jobs.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import msgspec

from onward.core.jobs.job import Job, NewJob
from onward.core.jobs.scope import Scope
from onward.core.policy.category import Q_CRITICAL, Q_DEADLETTER, Capability, Category
from onward.core.policy.derived_keys import derived_key
from onward.core.policy.policies import Policies
from onward.core.work.retry import LONGEST_DELAY
from onward.errors import ContractBroken, InvalidJob, NotAllowed

ACTOR_TYPES = ("user", "system", "api_key")


def complete(new: NewJob, policies: Policies, now: datetime) -> NewJob:
    """Return a job with the fields that a required contract can derive: correlation id and key."""
    if policies.settings.contract != "required" or not isinstance(new, NewJob):
        return new
    found: dict[str, Any] = {}
    if new.correlation_id is None:
        found["correlation_id"] = new.request_id
    by_subject = new.subject is not None and policies.category(new.category).unique_by == "subject"
    if new.key is None and not by_subject:
        found["key"], found["unique"] = derived_key(new, policies, now)
    return msgspec.structs.replace(new, **found) if found else new


def check_origin(  # noqa: PLR0917 - the order of a shape's fields
    policies: Policies,
    org_id: str | None,
    project_id: str | None,
    actor_type: str | None,
    actor_id: str | None,
    request_id: str | None,
) -> None:
    """Raise ContractBroken for a job without the org, actor or request that tenancy and contract require."""
    check_present(policies, org_id, project_id, actor_type, actor_id)
    if policies.settings.tenancy == "required" and org_id is None:
        raise _missing("org_id is", "tenancy", "org_id=…")
    if policies.settings.contract == "required":
        if org_id is None and policies.settings.tenancy != "off":
            raise _missing("org_id is", "contract", "org_id=…")
        if actor_type is None:
            raise _missing("actor_type and actor_id are", "contract", "actor='user:42'")
        if request_id is None:
            raise _missing("request_id is", "contract", "request_id=…")


def check_present(
    policies: Policies,
    org_id: str | None,
    project_id: str | None,
    actor_type: str | None,
    actor_id: str | None,
) -> None:
    """Raise ContractBroken for an invalid value; a missing one may still be inherited."""
    if policies.settings.tenancy == "off" and org_id is not None:
        raise ContractBroken(f"org_id is {org_id!r:.80}, and tenancy='off' knows no orgs; leave it out")
    if policies.settings.strict:
        _check_uuid("org_id", org_id)
        _check_uuid("project_id", project_id)
    if policies.settings.contract != "off":
        _check_actor(policies, actor_type, actor_id)


def _check_actor(policies: Policies, actor_type: str | None, actor_id: str | None) -> None:
    if (actor_type is None) != (actor_id is None):
        present, absent = ("actor_type", "actor_id") if actor_id is None else ("actor_id", "actor_type")
        raise ContractBroken(
            f"{present} is set and {absent} is not; the two name one actor: give actor='user:42', or neither"
        )
    if actor_type is not None and actor_type not in ACTOR_TYPES:
        raise ContractBroken(
            f"actor_type is {actor_type!r:.80}, and contract={policies.settings.contract!r} knows "
            f"{', '.join(ACTOR_TYPES)}; give one of these"
        )


def check_scheduling(category: Category, run_at: datetime | None, delay: timedelta | None) -> None:
    """Raise ContractBroken if the category forbids this `run_at` or `delay`; retries are not checked."""
    if run_at is None and not delay:
        return
    if category.scheduling == "deny":
        raise ContractBroken(
            f"category {category.name} may not be scheduled; leave out run_at and delay, "
            "or use a category with scheduling='allow'"
        )
    if category.scheduling == "explicit" and run_at is None:
        raise ContractBroken(
            f"category {category.name} is scheduled by an explicit run_at only; give that instead of a delay"
        )


def check_due(new: NewJob, now: datetime) -> None:
    """Raise InvalidJob for a job that would be due after its deadline: it could only die."""
    due_at, deadline = new.run_at, new.deadline
    if isinstance(new.delay, timedelta):
        due_at = now + min(new.delay, LONGEST_DELAY)
    # Values of another kind, and times without a zone, are refused with all other fields.
    if not isinstance(due_at, datetime) or not isinstance(deadline, datetime):
        return
    if due_at.tzinfo and deadline.tzinfo and due_at > deadline:
        raise InvalidJob(
            f"the job is due at {due_at}, after its deadline at {deadline}; "
            "give an earlier run_at or a shorter delay, or a later deadline"
        )


def check_queue(policies: Policies, category: str, queue: str) -> None:
    """Raise ContractBroken for a queue that the job may not wait in."""
    if queue == Q_DEADLETTER:
        raise ContractBroken(f"{Q_DEADLETTER} shows the dead, no job waits in it; give another queue")
    if policies.settings.strict and queue == Q_CRITICAL and category != "critical":
        raise ContractBroken(
            f"{Q_CRITICAL} is kept for the category critical, and this job is of {category}; "
            "give category='critical' or another queue"
        )


def check_may(job: Job, capability: Capability, policies: Policies) -> None:
    """Raise NotAllowed if the category of a running job does not grant its handler this capability."""
    allowed = policies.category_of(job).capabilities
    if allowed is not None and capability not in allowed:
        raise NotAllowed(
            f"job {job.id} is of category {job.category}, which may not: {capability}; "
            f"it has {', '.join(sorted(allowed)) or 'nothing'}"
        )


def owes_artifact(job: Job, policies: Policies) -> bool:
    """Whether the job must leave an artifact, in this run or in an earlier one."""
    return policies.category_of(job).needs_artifact


def artifact_missing(job: Job) -> str:
    """Return the error message for a job that has left no artifact."""
    return f"a job of category {job.category} must leave an artifact; call ctx.artifact(…)"


def check_stored(job: Job, policies: Policies) -> None:
    """Raise ContractBroken for a stored job whose row does not meet the contract of this application."""
    check_origin(policies, job.org_id, job.project_id, job.actor_type, job.actor_id, job.request_id)


def check_child(new: NewJob, job: Job, policies: Policies) -> None:
    """Raise NotAllowed for a job of another org or project than those of the running job."""
    if policies.settings.tenancy != "off" and job.org_id is not None and new.org_id != job.org_id:
        raise _beyond(job, "org", job.org_id, new.org_id, "enqueue")
    if job.project_id is not None and new.project_id != job.project_id:
        raise _beyond(job, "project", job.project_id, new.project_id, "enqueue")


def check_within(scope: Scope, job: Job, policies: Policies) -> None:
    """Raise NotAllowed if a handler would act for another org or project than those of its job."""
    if (
        policies.settings.tenancy != "off"
        and job.org_id is not None
        and scope.org_id not in {None, job.org_id}
    ):
        raise _beyond(job, "org", job.org_id, scope.org_id, "act")
    if job.project_id is not None and scope.project_id not in {None, job.project_id}:
        raise _beyond(job, "project", job.project_id, scope.project_id, "act")


def check_operator(policies: Policies, actor_type: str | None) -> None:
    """Raise ContractBroken for an operator's action without the actor that a required contract wants.

    The actor may be of any type: that of a command is `cli`.
    """
    if policies.settings.contract == "required" and actor_type is None:
        raise ContractBroken(
            "the action has no actor, and contract='required'; call it on client.acting_as('user:42'), "
            "or within app.context(actor='user:42')"
        )


def _beyond(job: Job, what: str, own: str, other: str | None, verb: str) -> NotAllowed:
    return NotAllowed(
        f"job {job.id} runs for {what} {own!r} and may not {verb} for {what} {other!r:.80}; "
        f"have that {what}'s own job do it"
    )


def _missing(field: str, setting: str, option: str) -> ContractBroken:
    return ContractBroken(
        f"{field} missing, and {setting}='required'; "
        f"give .using({option}), or enqueue within app.context({option})"
    )


def _check_uuid(name: str, value: str | None) -> None:
    if value is None:
        return
    try:
        canonical = str(UUID(value))
    except ValueError:
        canonical = None
    if canonical != value:
        advice = "give a UUID" if canonical is None else f"give {canonical}, its one way to be written"
        raise ContractBroken(f"{name} is {value!r:.80}, and profile='strict' takes UUIDs; {advice}")
