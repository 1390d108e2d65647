"""The origin of the running code: its org, its actor, its request, or the job whose handler it is.

Jobs that this code enqueues inherit the origin, and what it does through a client is confined to the
origin's org and project. What the code names itself takes precedence over a context, but never over the job
whose handler it is. A context variable carries the origin, also into tasks and `to_thread`.
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
from onward.core.jobs.scope import Scope
from onward.core.policy.contract import check_child, check_may, check_within, complete
from onward.core.policy.policies import DEFAULT_POLICIES, Policies
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

APPLICATION: ContextVar[Policies | None] = ContextVar("onward_application", default=None)
"""The policies of the application whose worker runs this code: it decides what its handlers may do.

It has no part in the jobs of another application.
"""

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
    if APPLICATION.get() not in {None, policies, DEFAULT_POLICIES} and policies is not DEFAULT_POLICIES:
        # The parent is in the tables of another application.
        unset.pop("parent_id", None)
    child = msgspec.structs.replace(new, **unset)
    if origin.job is not None:
        check_may(origin.job, "enqueue", APPLICATION.get() or policies)
        check_child(child, origin.job, policies)
    return child


def names_another_parent(new: NewJob, *, confined: bool) -> bool:
    """Whether a job has a parent whose org has to be read.

    It is known of the job whose handler runs here. Outside of handlers only a confined client is asked.
    """
    if not isinstance(new, NewJob) or new.parent_id is None:
        return False
    job = _job()
    return confined if job is None else new.parent_id != job.id


def ambient_actor() -> Actor | None:
    """Return the actor of the running code, for an action whose client has none."""
    if AMBIENT.get() is None:
        return None
    origin = _current()
    if origin is None or origin.actor_type is None:
        return None
    return Actor(origin.actor_type, origin.actor_id)


def scope_of_code(bound: Scope, policies: Policies) -> Scope:
    """Return the scope of a call: what its client binds, and else the org and project of the running code.

    Raise NotAllowed if the code is a handler's, and its job belongs to another org or project.
    """
    if AMBIENT.get() is None:
        return bound
    origin = _current() or Origin()
    if origin.job is not None:
        check_within(bound, origin.job, policies)
        check_within(Scope(origin.org_id, origin.project_id), origin.job, policies)
    own = Scope(None if policies.settings.tenancy == "off" else origin.org_id, origin.project_id)
    org_id = bound.org_id or own.org_id
    # A project belongs to its org, so that a client of another org does not take it over.
    project_id = own.project_id if org_id == own.org_id else None
    return Scope(org_id, bound.project_id or project_id)


def scope_of_handler(bound: Scope, policies: Policies) -> Scope:
    """Return the scope of an enqueue: what a context names only fills in what a new job leaves out."""
    return bound if _job() is None else scope_of_code(bound, policies)


def check_change(policies: Policies) -> None:
    """Raise NotAllowed if the running code is the handler of a job that may change no other job."""
    job = _job()
    if job is not None:
        check_may(job, "domain", APPLICATION.get() or policies)


def _job() -> Job | None:
    """Return the job whose handler runs here."""
    current = AMBIENT.get()
    return current.job if isinstance(current, Origin) else current


def _current() -> Origin | None:
    current = AMBIENT.get()
    return Origin.of(current) if isinstance(current, Job) else current
