"""The policies of an application: its settings and its registry, and what they come to for one job."""

from __future__ import annotations

from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any, Unpack

from onward.core.inputs.fields import check_text
from onward.core.jobs.job import Job
from onward.core.policy.category import (
    CATEGORIES,
    DEFAULT_CATEGORY,
    Q_CRITICAL,
    Q_DEADLETTER,
    Category,
    category,
    strict_retry,
    strictly,
)
from onward.core.policy.registry import Registry
from onward.core.policy.settings import SettingOptions, Settings
from onward.core.records.usage import Usage
from onward.core.secrets.secret_policy import Secrets
from onward.core.work.error_record import ErrorRecord
from onward.core.work.lifecycle import End, Failed, Outcome, RateLimited, Succeeded
from onward.core.work.retry import RetryPolicy
from onward.errors import InvalidSetting

_CATEGORY = "category:"
_LONGEST_QUEUE = 200


# Compared by identity, because it is part of the cache key of checked job shapes.
@dataclass(frozen=True, eq=False)
class Policies:
    """The settings and the registry of one application, which its clients and workers share."""

    settings: Settings = field(default_factory=Settings)
    registry: Registry = field(default_factory=Registry)

    @classmethod
    def of(cls, **options: Unpack[SettingOptions]) -> Policies:
        """Return the policies for the arguments of `Onward()`, with their categories and sinks registered."""
        named: dict[str, Any] = dict(options)
        own, sinks = named.pop("categories", ()), named.pop("alerts", ())
        policies = cls(Settings.of(**named), Registry(sinks=list(sinks)))
        for one in (*CATEGORIES.values(), *own):
            policies.add_category(one)
        for pattern, queue in policies.settings.routes:
            policies.check_route(pattern, queue)
        for name in policies.settings.retention.by_category:
            policies.category(name)
        return policies

    def add_category(self, own: Category) -> Category:
        """Add a category, or replace the preset of its name; return it as the profile changes it."""
        if not isinstance(own, Category):
            raise InvalidSetting(f"{own!r:.80} is no category; give Category(name=…)")
        strict = self.settings.strict
        if strict and own.queue == Q_CRITICAL and own.name != "critical":
            raise InvalidSetting(f"category {own.name}: {Q_CRITICAL} is kept for the category critical")
        added = self.registry.categories[own.name] = strictly(own) if strict else own
        return added

    def add_retry(self, job_type: str, own: RetryPolicy) -> None:
        """Add the retry policy of a job type, as the profile changes it."""
        self.registry.retries[job_type] = strict_retry(own) if self.settings.strict else own

    def category(self, name: str | None) -> Category:
        """Return a category by name, the default one for None; the error for an unknown name suggests one."""
        return category(DEFAULT_CATEGORY if name is None else name, self.registry.categories)

    def category_of(self, job: Job) -> Category:
        """Return the category of a stored job; the default category if its own is unknown."""
        categories = self.registry.categories
        return categories.get(job.category) or categories["default"]

    def policy_of(self, job: Job) -> RetryPolicy:
        """Return the retry policy of a job: that of its type, else that of its category."""
        retries = self.registry.retries
        own = retries.get(job.job_type) if retries else None
        return own or self.category_of(job).retry

    def end_of(self, job: Job, outcome: Outcome, dice: float, usage: tuple[Usage, ...] = ()) -> End:
        """Settle a claimed job by the policies of its type and category."""
        known = self.registry.actions
        actions = known.get(job.job_type) if known else None
        if isinstance(outcome, Succeeded):
            # The common case: a success needs neither a retry policy nor redaction.
            return End.of_success(job, outcome, usage, actions)
        outcome = self._completed(job, outcome)
        return End.of(job, outcome, self.policy_of(job), dice, usage, actions, self.settings.redact)

    def _completed(self, job: Job, outcome: Outcome) -> Outcome:
        """Return the outcome with what the application decides: whether a rate limit counts, and hints."""
        own = self.registry.classification
        match outcome:
            case Failed(error, retryable, after):
                return Failed(own.completed(ErrorRecord.of(error)), retryable, after)
            case RateLimited(after, error, counted):
                known = own.completed(ErrorRecord.of(error))
                counts = self.category_of(job).rate_limit_burns_attempt if counted is None else counted
                return RateLimited(after, known, counts)
        return outcome

    def secrets_of(self, job_type: str) -> Secrets:
        """Return the policy for secrets in payloads of this job type."""
        own = self.registry.secrets.get(job_type)
        return own or Secrets(self.settings.secrets, self.settings.secrets_reason)

    def queue_of(self, job_type: str, name: str | None) -> str:
        """Return the queue for a job that names none: from the first matching route, else its category."""
        name = DEFAULT_CATEGORY if name is None else name
        for pattern, queue in self.settings.routes:
            if pattern == f"{_CATEGORY}{name}" or fnmatchcase(job_type, pattern):
                return queue
        return self.category(name).queue

    def check_route(self, pattern: str, queue: str) -> None:
        """Raise InvalidSetting for a route with an invalid pattern, or to a queue its jobs may not use."""
        if not pattern:
            raise InvalidSetting("a route has an empty pattern; give a job type, 'mail.*' or 'category:name'")
        try:
            check_text("queue", queue, longest=_LONGEST_QUEUE)
        except ValueError as error:
            raise InvalidSetting(f"route {pattern!r}: {error}") from None
        name = pattern.removeprefix(_CATEGORY) if pattern.startswith(_CATEGORY) else None
        if name is not None:
            self.category(name)
        if queue == Q_DEADLETTER:
            raise InvalidSetting(f"route {pattern!r}: {Q_DEADLETTER} shows the dead; no job waits in it")
        if self.settings.strict and queue == Q_CRITICAL and name != "critical":
            raise InvalidSetting(
                f"route {pattern!r}: {Q_CRITICAL} is kept for the category critical; give another queue"
            )


DEFAULT_POLICIES = Policies()
"""The policies of an application that configures nothing."""
