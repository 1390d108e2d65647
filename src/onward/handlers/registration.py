"""Adds a job type to its application: to its handlers and to the registry of its policies."""

from __future__ import annotations

from onward.core.limits.limit import add_limit
from onward.core.policy.built_in import BUILT_IN
from onward.core.policy.policies import Policies
from onward.errors import InvalidSetting
from onward.handlers.definition import AnyJobFunction
from onward.handlers.handler import Handler


def register(
    job_type: AnyJobFunction,
    handlers: dict[str, Handler],
    jobs: dict[str, AnyJobFunction],
    policies: Policies,
) -> None:
    """Add a job type; raise InvalidSetting if its name is taken."""
    registry = policies.registry
    if job_type.name in BUILT_IN:
        raise InvalidSetting(f"{job_type.name!r} is a job type of Onward's own; give this one another name=")
    known = handlers.get(job_type.name)
    if known is not None:
        raise InvalidSetting(
            f"the job type {job_type.name!r} is defined already, by {known.reference}; "
            "give this one another name="
        )
    if job_type.handler.limit is not None:
        add_limit(registry.limits, job_type.handler.limit, job_type.name)
    if job_type.handler.retry is not None:
        policies.add_retry(job_type.name, job_type.handler.retry)
    registry.job_types[job_type.name] = job_type.handler.declared
    registry.checks[job_type.name] = job_type.handler.arguments
    if job_type.handler.actions is not None:
        registry.actions[job_type.name] = job_type.handler.actions
    if job_type.handler.secrets is not None:
        registry.secrets[job_type.name] = job_type.handler.secrets
    handlers[job_type.name] = job_type.handler
    jobs[job_type.name] = job_type
