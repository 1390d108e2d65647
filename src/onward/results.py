"""What calls return: for annotations and `isinstance`; an application makes none of these itself."""

from __future__ import annotations

from onward.core.bulk import Bulk, Changed
from onward.core.failures.alert import Alert, GroupedAlert, WaitingSend
from onward.core.failures.breaker import Breaker, BreakerSettings
from onward.core.failures.dead_letter import DeadGroup, DeadLetter, FixPreview, Resolution
from onward.core.flows.batch import Batch, EnqueuedBatch
from onward.core.flows.flow import Flow
from onward.core.flows.graph import Graph, Link
from onward.core.jobs.filters import Counts
from onward.core.jobs.history import Attempt, Cancellation, Dropped, Event
from onward.core.jobs.job import Enqueued, Job
from onward.core.jobs.job_types import KnownJobType
from onward.core.jobs.ledger import Key
from onward.core.jobs.stats import Durations, Failure, QueueLag, StateCounts
from onward.core.limits.limit_use import LimitSeen
from onward.core.limits.pause import Controls, Gate, Pause, TypeSkip
from onward.core.limits.queue_policy import Queue, QueuePolicy
from onward.core.page import Page
from onward.core.records.artifact import Artifact, ArtifactsPruned, ArtifactsVerified
from onward.core.records.audit import AuditRecord
from onward.core.records.chain import AuditPruned, AuditVerified, Fault, Sealed
from onward.core.records.usage import Budget, UsageEvent, UsageTotal
from onward.core.schedules.schedule import Schedule, ScheduleRun
from onward.core.upkeep.diagnosis import Finding
from onward.core.upkeep.maintenance import Plan, PruneRound
from onward.core.upkeep.sizes import SizeReport
from onward.core.work.claim import Due, Instructions, PolicyClaim, QueuePosition, ReadyQueues
from onward.core.work.effect import Effect
from onward.core.work.error_record import ErrorRecord
from onward.core.work.job_end import JobEnd
from onward.core.work.lease import JobLease, Leases, Promoted, Swept
from onward.core.work.lifecycle import Lost
from onward.core.work.progress import Progress
from onward.core.work.tick import Tick
from onward.core.work.wait import Awaited, Parked, Sent, Signal
from onward.handlers.context.sync.transaction import Transaction
from onward.handlers.context.transaction import AsyncTransaction
from onward.handlers.handles.batch_handle import BatchHandle, OpenBatch
from onward.handlers.handles.flow_handle import FlowHandle

__all__ = [
    "Alert",
    "Artifact",
    "ArtifactsPruned",
    "ArtifactsVerified",
    "AsyncTransaction",
    "Attempt",
    "AuditPruned",
    "AuditRecord",
    "AuditVerified",
    "Awaited",
    "Batch",
    "BatchHandle",
    "Breaker",
    "BreakerSettings",
    "Budget",
    "Bulk",
    "Cancellation",
    "Changed",
    "Controls",
    "Counts",
    "DeadGroup",
    "DeadLetter",
    "Dropped",
    "Due",
    "Durations",
    "Effect",
    "Enqueued",
    "EnqueuedBatch",
    "ErrorRecord",
    "Event",
    "Failure",
    "Fault",
    "Finding",
    "FixPreview",
    "Flow",
    "FlowHandle",
    "Gate",
    "Graph",
    "GroupedAlert",
    "Instructions",
    "Job",
    "JobEnd",
    "JobLease",
    "Key",
    "KnownJobType",
    "Leases",
    "LimitSeen",
    "Link",
    "Lost",
    "OpenBatch",
    "Page",
    "Parked",
    "Pause",
    "Plan",
    "PolicyClaim",
    "Progress",
    "Promoted",
    "PruneRound",
    "Queue",
    "QueueLag",
    "QueuePolicy",
    "QueuePosition",
    "ReadyQueues",
    "Resolution",
    "Schedule",
    "ScheduleRun",
    "Sealed",
    "Sent",
    "Signal",
    "SizeReport",
    "StateCounts",
    "Swept",
    "Tick",
    "Transaction",
    "TypeSkip",
    "UsageEvent",
    "UsageTotal",
    "WaitingSend",
]
