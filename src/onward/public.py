"""The public API: every name that an application imports from `onward`."""

from __future__ import annotations

from importlib.metadata import version

from onward.app import Onward, Tick
from onward.clients.client import AsyncClient
from onward.clients.sync.client import Client
from onward.core.bulk import Bulk, Changed
from onward.core.failures.alert import Alert, GroupedAlert, Sink, WaitingSend
from onward.core.failures.breaker import Breaker, BreakerSettings
from onward.core.failures.dead_letter import (
    DeadFilter,
    DeadGroup,
    DeadLetter,
    Edit,
    FixPreview,
    Resolution,
)
from onward.core.failures.handler_errors import Retry, RuleBroken, Unrecoverable
from onward.core.flows.batch import Batch, EnqueuedBatch
from onward.core.flows.flow import Flow, group
from onward.core.flows.graph import Graph, Link
from onward.core.jobs.filters import Counts, JobFilter
from onward.core.jobs.history import Attempt, Cancellation, Dropped, Event
from onward.core.jobs.job import Enqueued, Job, JobState, NewJob
from onward.core.jobs.keys import (
    canonical_json,
    dedupe_key,
    job_key,
    key_from_template,
    notification_key,
    stable_hash,
)
from onward.core.jobs.ledger import Key
from onward.core.limits.limit import Limit
from onward.core.limits.limit_use import LimitSeen
from onward.core.limits.pause import Controls, Gate, Pause
from onward.core.limits.queue_policy import Queue, QueueRule
from onward.core.page import Page
from onward.core.policy.category import Category, Slo, category
from onward.core.policy.retention import Retention
from onward.core.records.artifact import Artifact, ArtifactPage, ArtifactsPruned, ArtifactsVerified
from onward.core.records.audit import AuditFilter, AuditRecord
from onward.core.records.usage import Budget, UsageEvent, UsageTotal
from onward.core.schedules.schedule import Schedule, ScheduleRun
from onward.core.secrets.redaction import Redaction
from onward.core.upkeep.diagnosis import Finding
from onward.core.upkeep.maintenance import Plan, PruneRound
from onward.core.upkeep.sizes import SizeReport
from onward.core.work.claim import Look, RuledClaim, Watch
from onward.core.work.effect import Effect
from onward.core.work.error_record import ErrorRecord
from onward.core.work.lease import Leases, Promoted, Swept
from onward.core.work.lifecycle import (
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
from onward.core.work.progress import Progress, Report
from onward.core.work.retry import RetryPolicy
from onward.core.work.wait import Awaited, Parked, Sent, Signal
from onward.errors import *  # noqa: F403
from onward.errors import __all__ as _errors
from onward.handlers.context.context import Context
from onward.handlers.context.sync.transaction import Transaction
from onward.handlers.context.transaction import AsyncTransaction
from onward.handlers.handles.batch_handle import BatchHandle, OpenBatch
from onward.handlers.handles.flow_handle import FlowHandle
from onward.handlers.handles.handle import Handle
from onward.handlers.job_keys import NotificationKey
from onward.handlers.job_type import JobType
from onward.sinks.function import CallableSink
from onward.sinks.log import LogSink
from onward.sinks.slack import SlackSink
from onward.sinks.smtp import SmtpSink
from onward.sinks.webhook import WebhookSink, verify_signature

__all__ = [
    "Alert",
    "Artifact",
    "ArtifactPage",
    "ArtifactsPruned",
    "ArtifactsVerified",
    "AsyncClient",
    "AsyncTransaction",
    "Attempt",
    "AuditFilter",
    "AuditRecord",
    "Awaited",
    "Batch",
    "BatchHandle",
    "Breaker",
    "BreakerSettings",
    "Budget",
    "Bulk",
    "CallableSink",
    "Cancellation",
    "Cancelled",
    "Category",
    "Changed",
    "Client",
    "Context",
    "Controls",
    "Counts",
    "DeadFilter",
    "DeadGroup",
    "DeadLetter",
    "Dropped",
    "Edit",
    "Effect",
    "Enqueued",
    "EnqueuedBatch",
    "ErrorRecord",
    "Event",
    "Failed",
    "Finding",
    "FixPreview",
    "Flow",
    "FlowHandle",
    "Gate",
    "Graph",
    "GroupedAlert",
    "Handle",
    "Job",
    "JobFilter",
    "JobState",
    "JobType",
    "Key",
    "Leases",
    "Limit",
    "LimitSeen",
    "Link",
    "LogSink",
    "Look",
    "Lost",
    "NewJob",
    "NotificationKey",
    "Onward",
    "OpenBatch",
    "Outcome",
    "Page",
    "Parked",
    "Pause",
    "Plan",
    "Progress",
    "Promoted",
    "PruneRound",
    "Queue",
    "QueueRule",
    "RateLimited",
    "Redaction",
    "Released",
    "Report",
    "Resolution",
    "Retention",
    "Retry",
    "RetryPolicy",
    "RuleBroken",
    "RuledClaim",
    "Schedule",
    "ScheduleRun",
    "Sent",
    "Signal",
    "Sink",
    "SizeReport",
    "Skip",
    "SlackSink",
    "Slo",
    "SmtpSink",
    "Snooze",
    "Succeeded",
    "Swept",
    "Tick",
    "Transaction",
    "Unrecoverable",
    "UsageEvent",
    "UsageTotal",
    "WaitingSend",
    "Watch",
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
__all__ += _errors  # noqa: PLE0605

__version__ = version("onward")
