"""The settings and declared policies of an application: one value that its clients and workers share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from fnmatch import fnmatchcase
from typing import Any, Literal, TypedDict, Unpack, get_args

from onward.core.failures.alert import Alert, Sink
from onward.core.failures.app_rules import Classification
from onward.core.failures.breaker import BreakerSettings
from onward.core.inputs.checks import span
from onward.core.inputs.duration import Duration, duration
from onward.core.inputs.fields import check_text
from onward.core.jobs.job import Job
from onward.core.limits.limit import Limit
from onward.core.limits.queue_policy import QueueRule
from onward.core.policy.category import (
    CATEGORIES,
    Q_CRITICAL,
    Q_DEADLETTER,
    Category,
    category,
    strict_retry,
    strictly,
)
from onward.core.policy.retention import Retention
from onward.core.records.usage import Usage
from onward.core.secrets.redaction import REDACTION, Redaction
from onward.core.secrets.secret_policy import SecretPolicy, Secrets
from onward.core.work.error_record import ErrorRecord
from onward.core.work.lifecycle import End, Failed, Outcome, RateLimited, Succeeded
from onward.core.work.retry import RetryPolicy
from onward.errors import InvalidSetting

Mode = Literal["off", "optional", "required"]
AuditLevel = Literal["off", "ends", "full"]

AUDIT_LEVELS: tuple[AuditLevel, ...] = ("off", "ends", "full")

_MODES: tuple[Mode, ...] = get_args(Mode)
_CATEGORY = "category:"
_LONGEST_QUEUE = 200
_LEAST_SECRET = 32


class Settings(TypedDict, total=False):
    """The keyword arguments of `Onward()` besides its database."""

    tenancy: Mode
    contract: Mode
    profile: Literal["strict"] | None
    audit: AuditLevel
    audit_chain: bool
    meter_runs: bool
    dry_run: bool | None
    artifacts: str
    artifact_inline_bytes: int
    artifact_secret: str
    categories: Iterable[Category]
    routes: Mapping[str, str]
    secrets: SecretPolicy
    secrets_reason: str
    redact: Redaction
    alerts: Iterable[Sink | Callable[[Alert], object]]
    alert_throttle: Duration
    retention: Retention
    maintenance: bool


def check_secret(secret: Any) -> None:
    """Raise InvalidSetting for a secret that can't sign links to artifacts; an empty text means no secret."""
    if not isinstance(secret, str):
        raise InvalidSetting(f"the secret of artifact links is a {type(secret).__name__}; give a str")
    try:
        size = len(secret.encode())
    except UnicodeEncodeError:
        raise InvalidSetting(
            "the secret of artifact links has half a surrogate pair; decode its source as UTF-8"
        ) from None
    if 0 < size < _LEAST_SECRET:
        raise InvalidSetting(f"the secret of artifact links is too short; give {_LEAST_SECRET} bytes or more")


# Compared by identity, because it is part of the cache key of checked job shapes.
@dataclass(frozen=True, kw_only=True, eq=False)
class Rules:
    """The settings of one application; its categories and retry policies are added as it defines them."""

    tenancy: Mode = "optional"
    contract: Mode = "off"
    strict: bool = False
    audit: AuditLevel = "full"
    audit_chain: bool = False
    meter_runs: bool = False
    dry_run: bool = False
    artifacts: str | None = None
    artifact_inline_bytes: int = 16_384
    artifact_secret: str | None = field(default=None, repr=False)
    categories: dict[str, Category] = field(default_factory=lambda: dict(CATEGORIES))
    retries: dict[str, RetryPolicy] = field(default_factory=dict)
    actions: dict[str, Mapping[str, str]] = field(default_factory=dict)
    checks: dict[str, Callable[[Mapping[str, Any]], object]] = field(default_factory=dict)
    breakers: dict[str, BreakerSettings] = field(default_factory=dict)
    limits: dict[str, Limit] = field(default_factory=dict)
    queues: dict[str, QueueRule] = field(default_factory=dict)
    retention: Retention = field(default_factory=Retention)
    maintenance: bool = True
    routes: tuple[tuple[str, str], ...] = ()
    secrets: SecretPolicy = "reject"
    secrets_reason: str | None = None
    secrets_by_type: dict[str, Secrets] = field(default_factory=dict)
    redact: Redaction = REDACTION
    alerts: list[Sink] = field(default_factory=list)
    alert_throttle: timedelta = timedelta(minutes=5)
    classification: Classification = field(default_factory=Classification)

    def __post_init__(self) -> None:
        """Raise InvalidSetting, with the setting's name, for a value that makes no sense."""
        for name, known in (("tenancy", _MODES), ("contract", _MODES), ("audit", AUDIT_LEVELS)):
            value = getattr(self, name)
            if value not in known:
                choices = ", ".join(map(repr, known))
                raise InvalidSetting(f"{name} is {value!r:.80}; give one of {choices}")
        for name in ("dry_run", "maintenance"):
            if not isinstance(value := getattr(self, name), bool):
                raise InvalidSetting(f"{name} is {value!r:.80}; give True or False")
        if not isinstance(self.retention, Retention):
            raise InvalidSetting(f"retention is {self.retention!r:.80}; give Retention(succeeded='7d', …)")
        Secrets.of(self.secrets, self.secrets_reason)
        if self.artifact_secret is not None:
            check_secret(self.artifact_secret)
        if not isinstance(self.redact, Redaction):
            raise InvalidSetting(f"redact is a {type(self.redact).__name__}; give Redaction(names=…)")

    @classmethod
    def of(cls, **settings: Unpack[Settings]) -> Rules:
        """Return the value for these settings; the strict profile requires tenancy and contract."""
        given: dict[str, Any] = dict(settings)
        profile = given.pop("profile", None)
        if profile not in {None, "strict"}:
            raise InvalidSetting(f"profile is {profile!r:.80}; give 'strict', or leave it out")
        strict = profile == "strict"
        if strict:
            for name in ("tenancy", "contract"):
                if given.setdefault(name, "required") != "required":
                    raise InvalidSetting(f"profile='strict' needs {name}='required'; leave {name} out")
        if "alert_throttle" in given:
            throttle = duration("alert_throttle", given["alert_throttle"])
            given["alert_throttle"] = span("alert_throttle", throttle)
        own = given.pop("categories", ())
        routes = tuple(given.pop("routes", {}).items())
        rules = cls(strict=strict, routes=routes, **given)
        for one in (*CATEGORIES.values(), *own):
            rules.add(one)
        for pattern, queue in routes:
            rules.check_route(pattern, queue)
        for name in rules.retention.by_category:
            rules.category(name)
        return rules

    def add(self, own: Category) -> Category:
        """Add a category, or replace the preset of its name; return it as the profile changes it."""
        if not isinstance(own, Category):
            raise InvalidSetting(f"{own!r:.80} is no category; give Category(name=…)")
        if self.strict and own.queue == Q_CRITICAL and own.name != "critical":
            raise InvalidSetting(f"category {own.name}: {Q_CRITICAL} is kept for the category critical")
        added = self.categories[own.name] = strictly(own) if self.strict else own
        return added

    def add_retry(self, job_type: str, own: RetryPolicy) -> None:
        """Add the retry policy of a job type, as the profile changes it."""
        self.retries[job_type] = strict_retry(own) if self.strict else own

    def category(self, name: str) -> Category:
        """Return a category by name; the error for an unknown name suggests the nearest one."""
        return category(name, self.categories)

    def category_of(self, job: Job) -> Category:
        """Return the category of a stored job; the default category if its own is unknown."""
        return self.categories.get(job.category) or self.categories["default"]

    def policy_of(self, job: Job) -> RetryPolicy:
        """Return the retry policy of a job: that of its type, else that of its category."""
        own = self.retries.get(job.job_type) if self.retries else None
        return own or self.category_of(job).retry

    def end_of(self, job: Job, outcome: Outcome, dice: float, usage: tuple[Usage, ...] = ()) -> End:
        """Settle a claimed job by the policies of its type and category."""
        actions = self.actions.get(job.job_type) if self.actions else None
        if isinstance(outcome, Succeeded):
            # The common case: a success needs neither a retry policy nor redaction.
            return End.of_success(job, outcome, usage, actions)
        outcome = self._completed(job, outcome)
        return End.of(job, outcome, self.policy_of(job), dice, usage, actions, self.redact)

    def _completed(self, job: Job, outcome: Outcome) -> Outcome:
        """Return the outcome with what the application decides: whether a rate limit counts, and hints."""
        match outcome:
            case Failed(error, retryable, after):
                return Failed(self.classification.completed(ErrorRecord.of(error)), retryable, after)
            case RateLimited(after, error, counted):
                known = self.classification.completed(ErrorRecord.of(error))
                counts = self.category_of(job).rate_limit_burns_attempt if counted is None else counted
                return RateLimited(after, known, counts)
        return outcome

    def secrets_of(self, job_type: str) -> Secrets:
        """Return the policy for secrets in payloads of this job type."""
        return self.secrets_by_type.get(job_type) or Secrets(self.secrets, self.secrets_reason)

    def queue_of(self, job_type: str, name: str) -> str:
        """Return the queue for a job that names none: from the first matching route, else its category."""
        for pattern, queue in self.routes:
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
        if self.strict and queue == Q_CRITICAL and name != "critical":
            raise InvalidSetting(
                f"route {pattern!r}: {Q_CRITICAL} is kept for the category critical; give another queue"
            )


DEFAULT_RULES = Rules()
"""The settings of an application that configures nothing."""
