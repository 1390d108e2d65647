"""The names that applications write: everything that is imported from `onward`.

What is only ever returned is in `onward.results`, every error in `onward.errors`.
"""

from __future__ import annotations

from importlib.metadata import version

from onward.app import Onward
from onward.clients.client import AsyncClient
from onward.clients.sync.client import Client
from onward.core.failures.alert import Sink
from onward.core.failures.dead_letter import DeadFilter, Edit
from onward.core.failures.handler_errors import Retry, RuleBroken, Unrecoverable
from onward.core.flows.flow import group
from onward.core.jobs.filters import JobFilter
from onward.core.jobs.job import JobState, NewJob
from onward.core.jobs.keys import (
    canonical_json,
    dedupe_key,
    job_key,
    key_from_template,
    notification_key,
    stable_hash,
)
from onward.core.limits.limit import Limit
from onward.core.policy.category import Category, Slo, category
from onward.core.policy.retention import Retention
from onward.core.records.audit import AuditFilter
from onward.core.secrets.redaction import Redaction
from onward.core.work.lifecycle import (
    Cancelled,
    Failed,
    Outcome,
    RateLimited,
    Released,
    Skip,
    Snooze,
    Succeeded,
)
from onward.core.work.retry import RetryPolicy
from onward.errors import (
    BatchFailed,
    DuplicateJob,
    InvalidJob,
    InvalidSetting,
    JobFailed,
    JobNotEnded,
    JobNotFound,
    LeaseLost,
    NotAllowed,
    OnwardError,
    PayloadRejected,
    StoreError,
    WaitTimedOut,
)
from onward.handlers.context.context import Context
from onward.handlers.handles.handle import Handle
from onward.handlers.job_keys import NotificationKey
from onward.handlers.job_type import JobType
from onward.sinks.function import CallableSink
from onward.sinks.log import LogSink
from onward.sinks.slack import SlackSink
from onward.sinks.smtp import SmtpSink
from onward.sinks.webhook import WebhookSink, verify_signature

__all__ = [
    "AsyncClient",
    "AuditFilter",
    "BatchFailed",
    "CallableSink",
    "Cancelled",
    "Category",
    "Client",
    "Context",
    "DeadFilter",
    "DuplicateJob",
    "Edit",
    "Failed",
    "Handle",
    "InvalidJob",
    "InvalidSetting",
    "JobFailed",
    "JobFilter",
    "JobNotEnded",
    "JobNotFound",
    "JobState",
    "JobType",
    "LeaseLost",
    "Limit",
    "LogSink",
    "NewJob",
    "NotAllowed",
    "NotificationKey",
    "Onward",
    "OnwardError",
    "Outcome",
    "PayloadRejected",
    "RateLimited",
    "Redaction",
    "Released",
    "Retention",
    "Retry",
    "RetryPolicy",
    "RuleBroken",
    "Sink",
    "Skip",
    "SlackSink",
    "Slo",
    "SmtpSink",
    "Snooze",
    "StoreError",
    "Succeeded",
    "Unrecoverable",
    "WaitTimedOut",
    "WebhookSink",
    "canonical_json",
    "category",
    "dedupe_key",
    "group",
    "job_key",
    "key_from_template",
    "notification_key",
    "stable_hash",
    "verify_signature",
]

__version__ = version("onward")
