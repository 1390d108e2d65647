"""The origin of the running code: its org, its actor, its request, or the job whose handler it is.

Jobs that this code enqueues inherit the origin. A context variable carries it, also into tasks and
`to_thread`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Any

import msgspec

from onward.core.jobs.actor import Actor
from onward.core.jobs.job import Job, NewJob
from onward.core.policy.contract import check_child, complete
from onward.core.policy.policies import Policies
from onward.errors import InvalidJob


class Origin(msgspec.Struct, frozen=True, kw_only=True):
    """The fields that an enqueued job inherits; `job` is the job whose handler runs here."""

    org_id: str | None = None
    project_id: str | None = None
    actor_type: str | None = None
    actor_id: str | None = None
    request_id: str | None = None
    correlation_id: str | None = None
    traceparent: str | None = None
    parent_id: str | None = None
    job: Job | None = None

    @classmethod
    def of(cls, job: Job) -> Origin:
        """Return the origin that the children of a job inherit."""
        return cls(
            org_id=job.org_id,
            project_id=job.project_id,
            actor_type=job.actor_type,
            actor_id=job.actor_id,
            request_id=job.request_id,
            correlation_id=job.correlation_id or job.id,
            traceparent=job.traceparent,
            parent_id=job.id,
            job=job,
        )


AMBIENT: ContextVar[Origin | Job | None] = ContextVar("onward_ambient", default=None)
"""A worker sets the job itself: few handlers need the Origin, so it is not built for every job."""

_FIELDS = (
    "org_id", "project_id", "request_id", "correlation_id", "traceparent", "parent_id",
)  # fmt: skip


@contextmanager
def ambient(**fields: str | None) -> Iterator[None]:
    """Make the jobs that are enqueued within inherit these fields, and those of the contexts around."""
    outer = _current() or Origin()
    values = {name: value for name, value in fields.items() if value is not None}
    token = AMBIENT.set(msgspec.structs.replace(outer, **values))
    try:
        yield
    finally:
        AMBIENT.reset(token)


@contextmanager
def running(job: Job) -> Iterator[None]:
    """Make the jobs that are enqueued within children of `job`."""
    current = _current()
    if current is not None and current.job is not None and current.job.id == job.id:
        yield
        return
    token = AMBIENT.set(job)
    try:
        yield
    finally:
        AMBIENT.reset(token)


def running_job() -> Job | None:
    """Return the job whose handler runs here; None outside of handlers."""
    current = AMBIENT.get()
    return current if current is None or isinstance(current, Job) else current.job


def inherit(jobs: Sequence[NewJob], policies: Policies) -> Sequence[NewJob]:
    """Return jobs with unset fields filled in by their job types, and inherited.

    Raise InvalidArguments for a payload that its job type does not accept, and NotAllowed if the running job
    may not enqueue one.
    """
    if policies.registry.job_types:
        jobs = _typed(jobs, policies)
    if AMBIENT.get() is None and policies.settings.contract != "required":
        return jobs
    now = datetime.now(UTC)
    return [complete(filled(new, policies), policies, now) for new in jobs]


def _typed(jobs: Sequence[NewJob], policies: Policies) -> Sequence[NewJob]:
    """Return the jobs; those of known types that were made without their type are filled in by it."""
    known = policies.registry.job_types
    made: list[NewJob] = []
    for at, new in enumerate(jobs):
        untyped = isinstance(new, NewJob) and not new.typed
        try:
            made.append(known[new.job_type].fill(new) if untyped and new.job_type in known else new)
        except InvalidJob as error:
            if len(jobs) > 1:
                error.args = (f"jobs[{at}]: {error}",)
            raise
    return made


def filled(new: NewJob, policies: Policies) -> NewJob:
    """Return a job with unset fields inherited; raise NotAllowed if the running job may not enqueue it."""
    origin = _current()
    if origin is None or not isinstance(new, NewJob):
        return new
    unset: dict[str, Any] = {name: getattr(origin, name) for name in _FIELDS if getattr(new, name) is None}
    # Type and id identify one actor together, so neither is inherited alone.
    if new.actor_type is None and new.actor_id is None:
        unset |= {"actor_type": origin.actor_type, "actor_id": origin.actor_id}
    if policies.settings.tenancy == "off":
        unset.pop("org_id", None)
    child = msgspec.structs.replace(new, **unset)
    if origin.job is not None:
        check_child(child, origin.job, policies)
    return child


def ambient_actor() -> Actor | None:
    """Return the actor of the running code, for an action whose client has none."""
    if AMBIENT.get() is None:
        return None
    origin = _current()
    if origin is None or origin.actor_type is None:
        return None
    return Actor(origin.actor_type, origin.actor_id)


def ambient_org(policies: Policies) -> str | None:
    """Return the org of the running code, for an action that names none; None if tenancy is off."""
    origin = _current()
    return None if origin is None or policies.settings.tenancy == "off" else origin.org_id


def _current() -> Origin | None:
    current = AMBIENT.get()
    return Origin.of(current) if isinstance(current, Job) else current
