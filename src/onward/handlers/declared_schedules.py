"""Schedules of job types: those that `@app.job(cron=…)` defines, and those that are added at run time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from onward.core.jobs.job import NewJob
from onward.core.policy.policies import Policies
from onward.core.schedules.schedule import NewSchedule, ScheduleOptions, job_of, unknown_type
from onward.errors import ContractBroken, InvalidArguments, InvalidSetting
from onward.handlers.enqueue_options import Defaults, Request, check_names
from onward.handlers.signature import Signature
from onward.operations.schedules.schedules import checked_schedule
from onward.origin import filled

if TYPE_CHECKING:
    from onward.handlers.job_type import JobType


def schedule_in_code(
    name: str, options: Defaults, request: Request, signature: Signature, policies: Policies
) -> NewSchedule | None:
    """Return the schedule that a job type defines, under the job type's name; None if it has none."""
    declared = {key: value for key, value in options.items() if key in ScheduleOptions.__annotations__}
    if not declared:
        return None
    if declared.get("cron") is None and declared.get("every") is None:
        raise InvalidSetting(
            f"job type {name!r}: {', '.join(declared)} is for a schedule; give cron= or every= too"
        )
    try:
        payload = signature.payload((), {})
        return checked_schedule(
            name, _new(request, payload, policies), declared, policies, allowed=request.allowed, source="code"
        )
    except InvalidArguments as error:
        raise InvalidSetting(
            f"job type {name!r}: its schedule enqueues it without arguments: {error}. Give its parameters "
            f"defaults, or add the schedule by app.schedule(…, {name}, payload={{…}})"
        ) from None
    except ContractBroken as error:
        raise ContractBroken(
            f"job type {name!r}: its schedule's jobs would be refused: {error}. Supply the missing options "
            f"with app.schedule(…, {name}.using(…), cron=…)"
        ) from None


def schedule_of(
    name: str,
    job: JobType[..., Any] | NewJob | str,
    payload: Mapping[str, Any] | None,
    options: Mapping[str, Any],
    policies: Policies,
    *,
    jobs: Mapping[str, JobType[..., Any]],
) -> NewSchedule:
    """Return a schedule to add at run time, for a job, a job type or the name of a job type."""
    check_names("schedule()", options, ScheduleOptions.__annotations__)
    if isinstance(job, NewJob):
        return checked_schedule(name, job_of(job, payload, ()), options, policies)
    job = _job_type(name, job, jobs)
    request, arguments = job.request_for(dict(payload or {}))
    new = _new(request, arguments, policies)
    # A run does not inherit the actor of the code that adds the schedule, only its org and project.
    here = filled(new, policies)
    new = replace(new, org_id=here.org_id, project_id=here.project_id)
    return checked_schedule(name, new, options, policies, allowed=request.allowed)


def _job_type(name: Any, job: Any, jobs: Mapping[str, JobType[..., Any]]) -> JobType[..., Any]:
    from onward.handlers.job_type import JobType

    if isinstance(name, str) and isinstance(job, JobType):
        return job
    if isinstance(name, str) and isinstance(job, str):
        if job not in jobs:
            raise unknown_type(job, jobs)
        return jobs[job]
    raise InvalidSetting(
        f"schedule() was given {name!r:.80} and {job!r:.80}; give the schedule's name (a str), then a job "
        "type, a job type's name, or NewJob(job_type=…, payload=…)"
    )


def _new(request: Request, payload: dict[str, Any], policies: Policies) -> NewJob:
    return request.for_runs().build(payload, policies)
