"""The registry of an application: what its definitions add to its settings."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Protocol

from onward.core.failures.alert import Sink
from onward.core.failures.app_rules import Classification
from onward.core.failures.breaker import BreakerSettings
from onward.core.jobs.job import Enqueued, NewJob
from onward.core.jobs.job_types import DeclaredJobType
from onward.core.limits.limit import Limit
from onward.core.limits.queue_policy import QueuePolicy
from onward.core.policy.category import CATEGORIES, Category
from onward.core.secrets.secret_policy import Secrets
from onward.core.work.retry import RetryPolicy
from onward.errors import InvalidSetting

AroundEnqueue = Callable[[NewJob], Generator[NewJob, Enqueued, None]]
"""A function that yields the job to store instead of its own, and is sent what the enqueue came to."""


class KnownType(Protocol):
    """What clients and operations know of a job type that the application defines."""

    @property
    def declared(self) -> DeclaredJobType:
        """What the code says of the job type, for people."""
        ...

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
    around_enqueue: list[AroundEnqueue] = field(default_factory=list)

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

    def add_around_enqueue(self, function: AroundEnqueue) -> None:
        """Add a function around each enqueue; raise InvalidSetting unless it is a generator function."""
        if not inspect.isgeneratorfunction(function):
            raise InvalidSetting(
                f"around_enqueue() got {function!r:.80}, which does not yield; write `enqueued = yield new` "
                "in a plain def: it runs for sync and async enqueues"
            )
        self.around_enqueue.append(function)
