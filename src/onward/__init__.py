"""Onward: a durable job queue that lives in the database you already have."""

from __future__ import annotations

from importlib.metadata import version

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
from onward.operations.inspect import Attempt, Event
from onward.operations.rescue import Promoted
from onward.operations.work import Leases
from onward.stores.migrations import Plan

__all__ = [
    "AsyncClient",
    "Attempt",
    "Cancelled",
    "Category",
    "Client",
    "Counts",
    "Enqueued",
    "Event",
    "Failed",
    "Job",
    "JobFilter",
    "JobState",
    "Leases",
    "Lost",
    "NewJob",
    "Outcome",
    "Page",
    "Plan",
    "Promoted",
    "RateLimited",
    "Released",
    "Retry",
    "RetryPolicy",
    "Skip",
    "Snooze",
    "Succeeded",
    "Unrecoverable",
    "canonical_json",
    "category",
    "dedupe_key",
    "job_key",
    "key_from_template",
    "stable_hash",
]
__all__ += _errors  # noqa: PLE0605

__version__ = version("onward")
