"""The registry of an application: what its definitions add to its settings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Protocol

from onward.core.failures.alert import Sink
from onward.core.failures.app_rules import Classification
from onward.core.failures.breaker import BreakerSettings
from onward.core.jobs.job import NewJob
from onward.core.limits.limit import Limit
from onward.core.limits.queue_policy import QueuePolicy
from onward.core.policy.category import CATEGORIES, Category
from onward.core.secrets.secret_policy import Secrets
from onward.core.work.retry import RetryPolicy
from onward.errors import InvalidSetting


class KnownType(Protocol):
    """What clients and operations know of a job type that the application defines."""

    def check(self, payload: Mapping[str, Any]) -> None:
        """Raise InvalidArguments for a payload that the handler's signature does not accept."""
        ...

    def effective(self, payload: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the arguments with which a payload takes effect, as JSON values, defaults filled in."""
        ...

    def fill(self, new: NewJob) -> NewJob:
        """Return a checked job of this type, its unset fields filled in as an enqueue of the type would."""
        ...

    def fill_run(self, new: NewJob) -> tuple[NewJob, timedelta | None]:
        """Return the same for the runs of a schedule, which have own keys and deadlines.

        The second value is the time from a run to its deadline.
        """
        ...


@dataclass(frozen=True, kw_only=True, eq=False)
class Registry:
    """What an application has defined so far, by name; retries, actions and secrets by job type."""

    categories: dict[str, Category] = field(default_factory=lambda: dict(CATEGORIES))
    retries: dict[str, RetryPolicy] = field(default_factory=dict)
    actions: dict[str, Mapping[str, str]] = field(default_factory=dict)
    job_types: dict[str, KnownType] = field(default_factory=dict)
    secrets: dict[str, Secrets] = field(default_factory=dict)
    breakers: dict[str, BreakerSettings] = field(default_factory=dict)
    limits: dict[str, Limit] = field(default_factory=dict)
    queues: dict[str, QueuePolicy] = field(default_factory=dict)
    sinks: list[Sink] = field(default_factory=list)
    classification: Classification = field(default_factory=Classification)

    def add_breaker(self, name: str, settings: BreakerSettings) -> None:
        """Add the breaker of a provider or queue; raise InvalidSetting if it has one."""
        if name in self.breakers:
            raise InvalidSetting(f"breaker() has been called for {name!r} before; declare it once")
        self.breakers[name] = settings

    def add_queue(self, name: str, policy: QueuePolicy) -> QueuePolicy:
        """Add the policy of a queue and return it; raise InvalidSetting if it has one."""
        if name in self.queues:
            raise InvalidSetting(f"queue() has been called for {name!r} before; declare it once")
        self.queues[name] = policy
        return policy
