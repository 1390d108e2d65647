"""Every name that a user imports from `onward`."""

from __future__ import annotations

from importlib.metadata import version

from onward.app import Onward, Tick
from onward.client import Client
from onward.client_async import AsyncClient
from onward.core.category import Category, category
from onward.core.classify import Retry, Unrecoverable
from onward.core.filters import Counts, JobFilter, Page
from onward.core.idempotency import canonical_json, dedupe_key, job_key, key_from_template, stable_hash
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
from onward.core.retry import RetryPolicy
from onward.errors import *  # noqa: F403
from onward.errors import __all__ as _errors
from onward.handlers.context import Context
from onward.handlers.handle import Handle
from onward.handlers.job_type import JobType
from onward.operations.control import Controls, Gate, Pause
from onward.operations.inspect import Attempt, Event
from onward.operations.rescue import Promoted, Swept
from onward.operations.watch import Look, Watch
from onward.operations.work import Leases
from onward.stores.migrations import Plan

__all__ = [
    "AsyncClient",
    "Attempt",
    "Cancelled",
    "Category",
    "Client",
    "Context",
    "Controls",
    "Counts",
    "Enqueued",
    "Event",
    "Failed",
    "Gate",
    "Handle",
    "Job",
    "JobFilter",
    "JobState",
    "JobType",
    "Leases",
    "Look",
    "Lost",
    "NewJob",
    "Onward",
    "Outcome",
    "Page",
    "Pause",
    "Plan",
    "Promoted",
    "RateLimited",
    "Released",
    "Retry",
    "RetryPolicy",
    "Skip",
    "Snooze",
    "Succeeded",
    "Swept",
    "Tick",
    "Unrecoverable",
    "Watch",
    "canonical_json",
    "category",
    "dedupe_key",
    "job_key",
    "key_from_template",
    "stable_hash",
]
__all__ += _errors  # noqa: PLE0605

__version__ = version("onward")
