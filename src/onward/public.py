"""Every name that a user imports from `onward`."""

from __future__ import annotations

from importlib.metadata import version

from onward.app import Onward, Tick
from onward.client import Client
from onward.client_async import AsyncClient
from onward.core.artifact import Artifact, ArtifactPage, Pruned, Verified
from onward.core.category import Category, Slo, category
from onward.core.classify import Retry, Unrecoverable
from onward.core.filters import Counts, JobFilter, Page
from onward.core.idempotency import (
    canonical_json,
    dedupe_key,
    job_key,
    key_from_template,
    notification_key,
    stable_hash,
)
from onward.core.job import Enqueued, Job, JobState, NewJob
from onward.core.lifecycle import (
    Cancelled,
    Failed,
    Lost,
    Outcome,
    RateLimited,
    Released,
    Skip,
    Snooze,
    Succeeded,
)
from onward.core.redaction import Redaction
from onward.core.retry import RetryPolicy
from onward.errors import *  # noqa: F403
from onward.errors import __all__ as _errors
from onward.handlers.context import Context
from onward.handlers.handle import Handle
from onward.handlers.job_type import JobType
from onward.handlers.keying import NotificationKey
from onward.operations.audit import AuditFilter, AuditPage, AuditRecord
from onward.operations.control import Controls, Gate, Pause
from onward.operations.dead_letter import DeadLetter, DeadLetterPage, Resolution, Resolved
from onward.operations.inspect import Attempt, Event
from onward.operations.keys import Key, KeyPage
from onward.operations.rescue import Promoted, Swept
from onward.operations.subjects import Dropped
from onward.operations.usage import Budget, UsageEvent, UsageTotal
from onward.operations.watch import Look, Watch
from onward.operations.work import Leases
from onward.stores.migrations import Plan

__all__ = [
    "Artifact",
    "ArtifactPage",
    "AsyncClient",
    "Attempt",
    "AuditFilter",
    "AuditPage",
    "AuditRecord",
    "Budget",
    "Cancelled",
    "Category",
    "Client",
    "Context",
    "Controls",
    "Counts",
    "DeadLetter",
    "DeadLetterPage",
    "Dropped",
    "Enqueued",
    "Event",
    "Failed",
    "Gate",
    "Handle",
    "Job",
    "JobFilter",
    "JobState",
    "JobType",
    "Key",
    "KeyPage",
    "Leases",
    "Look",
    "Lost",
    "NewJob",
    "NotificationKey",
    "Onward",
    "Outcome",
    "Page",
    "Pause",
    "Plan",
    "Promoted",
    "Pruned",
    "RateLimited",
    "Redaction",
    "Released",
    "Resolution",
    "Resolved",
    "Retry",
    "RetryPolicy",
    "Skip",
    "Slo",
    "Snooze",
    "Succeeded",
    "Swept",
    "Tick",
    "Unrecoverable",
    "UsageEvent",
    "UsageTotal",
    "Verified",
    "Watch",
    "canonical_json",
    "category",
    "dedupe_key",
    "job_key",
    "key_from_template",
    "notification_key",
    "stable_hash",
]
__all__ += _errors  # noqa: PLE0605

__version__ = version("onward")
