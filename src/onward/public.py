"""Every name that a user imports from `onward`."""

from __future__ import annotations

from importlib.metadata import version

from onward.app import Onward, Tick
from onward.client import Client
from onward.client_async import AsyncClient
from onward.core.alert import Alert, Sink
from onward.core.artifact import Artifact, ArtifactPage, Pruned, Verified
from onward.core.batch import Batch
from onward.core.breaker import Breaker, BreakerSettings
from onward.core.category import Category, Slo, category
from onward.core.classification.classify import Retry, RuleBroken, Unrecoverable
from onward.core.doctor.diagnosis import Finding
from onward.core.effect import Effect
from onward.core.filters import Counts, JobFilter, Page
from onward.core.flow import Flow, group
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
from onward.core.limit import Limit
from onward.core.queue_rule import QueueRule
from onward.core.redaction import Redaction
from onward.core.retention import Retention
from onward.core.retry import RetryPolicy
from onward.core.scheduling.schedule import Schedule, ScheduleRun
from onward.core.sizes import SizeReport
from onward.core.wait import Awaited, Parked, Sent, Signal
from onward.errors import *  # noqa: F403
from onward.errors import __all__ as _errors
from onward.handlers.batch import BatchHandle, OpenBatch
from onward.handlers.context import Context
from onward.handlers.following import FlowHandle
from onward.handlers.handle import Handle
from onward.handlers.job_type import JobType
from onward.handlers.keying import NotificationKey
from onward.handlers.transaction import Transaction
from onward.handlers.transaction_async import AsyncTransaction
from onward.operations.alerts import GroupedAlert, WaitingSend
from onward.operations.audit import AuditFilter, AuditPage, AuditRecord
from onward.operations.batch_jobs import EnqueuedBatch
from onward.operations.batches import BatchPage
from onward.operations.cancelling import CancelledMany
from onward.operations.control import Controls, Gate, Pause
from onward.operations.dead_bulk import FixPreview, ResolvedMany
from onward.operations.dead_groups import DeadGroup, GroupPage
from onward.operations.dead_letter import DeadLetter, DeadLetterPage, Resolution, Resolved
from onward.operations.graph import Graph, Link
from onward.operations.inspect import Attempt, Event
from onward.operations.keys import Key, KeyPage
from onward.operations.limits import LimitSeen
from onward.operations.maintenance import PruneRound
from onward.operations.queues import Queue
from onward.operations.rescue import Promoted, Swept
from onward.operations.ruled_claim import RuledClaim
from onward.operations.subjects import Dropped
from onward.operations.usage import Budget, UsageEvent, UsageTotal
from onward.operations.watch import Look, Watch
from onward.operations.work import Leases
from onward.sinks.function import CallableSink
from onward.sinks.log import LogSink
from onward.sinks.slack import SlackSink
from onward.sinks.smtp import SmtpSink
from onward.sinks.webhook import WebhookSink, verify_signature
from onward.stores.migrations import Plan

__all__ = [
    "Alert",
    "Artifact",
    "ArtifactPage",
    "AsyncClient",
    "AsyncTransaction",
    "Attempt",
    "AuditFilter",
    "AuditPage",
    "AuditRecord",
    "Awaited",
    "Batch",
    "BatchHandle",
    "BatchPage",
    "Breaker",
    "BreakerSettings",
    "Budget",
    "CallableSink",
    "Cancelled",
    "CancelledMany",
    "Category",
    "Client",
    "Context",
    "Controls",
    "Counts",
    "DeadGroup",
    "DeadLetter",
    "DeadLetterPage",
    "Dropped",
    "Effect",
    "Enqueued",
    "EnqueuedBatch",
    "Event",
    "Failed",
    "Finding",
    "FixPreview",
    "Flow",
    "FlowHandle",
    "Gate",
    "Graph",
    "GroupPage",
    "GroupedAlert",
    "Handle",
    "Job",
    "JobFilter",
    "JobState",
    "JobType",
    "Key",
    "KeyPage",
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
    "Promoted",
    "PruneRound",
    "Pruned",
    "Queue",
    "QueueRule",
    "RateLimited",
    "Redaction",
    "Released",
    "Resolution",
    "Resolved",
    "ResolvedMany",
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
    "Verified",
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
