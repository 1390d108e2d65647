"""The policy of a family of jobs: their queue, how they are retried, how long their keys hold.

A job type names its category and may override any field. Applications add their own to the presets.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from difflib import get_close_matches
from types import MappingProxyType
from typing import Literal

from onward.core.inputs.duration import written
from onward.core.work.retry import RetryPolicy
from onward.errors import InvalidSetting

Q_CRITICAL = "q:critical"
Q_DEFAULT = "q:default"
Q_NOTIFICATIONS = "q:notifications"
Q_PLANNING = "q:planning"
Q_EXPORTS = "q:exports"
Q_MAINTENANCE = "q:maintenance"
Q_DEADLETTER = "q:deadletter"
QUEUES = (Q_CRITICAL, Q_DEFAULT, Q_NOTIFICATIONS, Q_PLANNING, Q_EXPORTS, Q_MAINTENANCE, Q_DEADLETTER)
"""The queues that every installation has; `q:deadletter` is a view of the dead jobs, no job waits in it."""

DEFAULT_CATEGORY = "default"
"""The category of a job that names none."""

MAX_PAYLOAD_BYTES = 1_048_576
"""The size limit of a payload, in bytes of JSON, unless its category sets another."""

Lifetime = timedelta | Literal["active", "forever"]
"""How long a key holds: for a time after the enqueue, until its job has ended, or for ever."""

OnConflict = Literal["return", "raise", "replace", "reset", "coalesce"]
"""What an enqueue does if another job holds its key."""

OnSubjectDelete = Literal["cancel", "delete", "keep"]
"""What happens to jobs whose subject is deleted."""

Scheduling = Literal["allow", "explicit", "deny"]
"""Whether a job may be enqueued for later: with `run_at` or `delay`, with `run_at` only, or not at all."""

Capability = Literal["domain", "enqueue", "audit", "artifact"]
"""What a handler may do: write domain tables, enqueue jobs, write audit events, store artifacts."""

CAPABILITIES: frozenset[Capability] = frozenset({"domain", "enqueue", "audit", "artifact"})


@dataclass(frozen=True, slots=True)
class Slo:
    """A service level objective: the share `target` of the jobs starts within `wait` after they are due."""

    wait: timedelta
    target: float = 0.99

    def __post_init__(self) -> None:
        """Raise InvalidSetting unless `wait` is positive and `target` lies between 0 and 1."""
        if not isinstance(self.wait, timedelta) or self.wait <= timedelta():
            raise InvalidSetting(f"an SLO's wait is {written(self.wait)}; give a positive timedelta")
        if not 0 < self.target < 1:
            raise InvalidSetting(f"an SLO's target is {self.target!r:.80}; give a share such as 0.99")


def _backoff(base: int, cap: timedelta, executions: int) -> RetryPolicy:
    return RetryPolicy(kind="exponential", base=timedelta(seconds=base), cap=cap, max_attempts=executions)


_MINUTE = timedelta(minutes=1)
_POISON_AFTER = 3
_DEFAULT = _backoff(5, 5 * _MINUTE, 5)


@dataclass(frozen=True, slots=True, kw_only=True)
class Category:
    """A named policy; with `key_lifetime=None` its jobs have no key unless the enqueue gives one.

    `scheduling=None` allows everything, and denies it in the strict profile. `capabilities=None` means all.
    """

    name: str
    retry: RetryPolicy = _DEFAULT
    queue: str = Q_DEFAULT
    key_lifetime: Lifetime | None = None
    unique_by: Literal["key", "subject"] = "key"
    on_conflict: OnConflict = "return"
    scheduling: Scheduling | None = None
    best_effort: bool | None = None
    capabilities: frozenset[Capability] | None = None
    needs_artifact: bool = False
    slo: Slo | None = None
    audit_retention: timedelta | None = None
    on_subject_delete: OnSubjectDelete = "keep"
    artifact_retention: timedelta | None = None
    max_payload_bytes: int = MAX_PAYLOAD_BYTES
    lease: timedelta | None = None
    inner_retry: RetryPolicy | None = None
    rate_limit_burns_attempt: bool = False
    alert: str = "job_dead"

    def __post_init__(self) -> None:
        """Raise InvalidSetting, with the field's name, for a value that makes no sense."""
        if not self.name or not self.queue:
            raise InvalidSetting(f"category {self.name!r} in queue {self.queue!r}: give both a name")
        if not isinstance(self.alert, str) or not self.alert.isidentifier():
            raise InvalidSetting(
                f"category {self.name}: alert is {self.alert!r:.80}; give a name such as 'job_dead'"
            )
        if self.max_payload_bytes < 1:
            raise InvalidSetting(
                f"category {self.name}: max_payload_bytes is {self.max_payload_bytes}; give 1 or more"
            )
        if self.queue == Q_DEADLETTER:
            raise InvalidSetting(f"category {self.name}: {Q_DEADLETTER} shows the dead; no job waits in it")
        self._check_words()
        for name in ("key_lifetime", "lease", "artifact_retention", "audit_retention"):
            span = getattr(self, name)
            if isinstance(span, timedelta) and span <= timedelta():
                raise InvalidSetting(
                    f"category {self.name}: {name} is {written(span)}; give a positive timedelta"
                )

    def _check_words(self) -> None:
        for name, known in _WORDS.items():
            value = getattr(self, name)
            if value not in known:
                choices = ", ".join(repr(word) for word in known if word)
                raise InvalidSetting(f"category {self.name}: {name} is {value!r:.80}; give one of {choices}")
        for word in self.capabilities or ():
            if word not in CAPABILITIES:
                choices = ", ".join(sorted(CAPABILITIES))
                raise InvalidSetting(
                    f"category {self.name}: no capability is named {word!r:.80}; there are {choices}"
                )


_WORDS: Mapping[str, tuple[str | None, ...]] = {
    "scheduling": (None, "allow", "explicit", "deny"),
    "unique_by": ("key", "subject"),
    "on_conflict": ("return", "raise", "replace", "reset", "coalesce"),
    "on_subject_delete": ("cancel", "delete", "keep"),
}


_WEEK = timedelta(days=7)
_MONTH = timedelta(days=30)

_PRESETS = (
    Category(name="default", retry=_DEFAULT, key_lifetime=_WEEK),
    Category(name="critical", retry=_DEFAULT, queue=Q_CRITICAL, key_lifetime=_WEEK),
    Category(name="audit_enrichment", retry=_DEFAULT, key_lifetime=_WEEK),
    Category(
        name="notification",
        retry=_backoff(5, 30 * _MINUTE, 10),
        queue=Q_NOTIFICATIONS,
        key_lifetime=_WEEK,
    ),
    Category(
        name="planning",
        retry=_backoff(5, 2 * _MINUTE, 3),
        queue=Q_PLANNING,
        key_lifetime=_MONTH,
    ),
    Category(
        name="import_export",
        retry=_backoff(5, 10 * _MINUTE, 5),
        queue=Q_EXPORTS,
        key_lifetime=_MONTH,
    ),
    Category(name="maintenance", retry=_DEFAULT, queue=Q_MAINTENANCE, key_lifetime=_WEEK),
)

CATEGORIES: Mapping[str, Category] = MappingProxyType({preset.name: preset for preset in _PRESETS})
"""Every preset by its name."""


def strict_retry(policy: RetryPolicy) -> RetryPolicy:
    """Return a retry policy for the strict profile, which always sets `poison_after`."""
    return policy if policy.poison_after is not None else replace(policy, poison_after=_POISON_AFTER)


def strictly(policy: Category) -> Category:
    """Return a category for the strict profile: unset scheduling is denied; five presets have own terms."""
    policy = replace(policy, retry=strict_retry(policy.retry))
    granted = policy.capabilities
    match policy.name:
        case "maintenance":
            return replace(policy, scheduling=policy.scheduling or "allow")
        case "notification":
            scheduling: Scheduling = "deny" if policy.scheduling == "deny" else "explicit"
            return replace(policy, scheduling=scheduling, best_effort=policy.best_effort is not False)
        case "audit_enrichment":
            own = frozenset[Capability]({"audit", "artifact"})
            return replace(policy, scheduling="deny", capabilities=own)
        case "planning":
            # An application that lets plans write domain tables must declare its own category of this name.
            own = frozenset[Capability]({"enqueue", "audit", "artifact"}) if granted is None else granted
            return replace(policy, scheduling="deny", capabilities=own, needs_artifact=True)
        case "import_export":
            return replace(policy, scheduling="deny", needs_artifact=True)
    return replace(policy, scheduling=policy.scheduling or "deny")


def category(name: str, among: Mapping[str, Category] = CATEGORIES) -> Category:
    """Return a category by name, from the presets by default; the error for an unknown name suggests one."""
    try:
        return among[name]
    except KeyError:
        near = get_close_matches(name, among, 1)
        advice = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(among)}"
        raise InvalidSetting(f"no category is named {name!r}; {advice}") from None
