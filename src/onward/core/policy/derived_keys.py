"""Keys that are made of a job's arguments, and how long they hold.

They are made of the arguments as they take effect: what a default fills in counts like what the caller wrote.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from onward.core.inputs.checks import span, zoned
from onward.core.jobs.job import NewJob
from onward.core.jobs.keys import bucket_start, bucketed_key, job_key
from onward.core.policy.category import Lifetime
from onward.core.policy.policies import Policies
from onward.errors import InvalidJob

NOTIFICATION = "notification"
"""The category whose derived keys have a bucket of time."""

_BUCKET = timedelta(hours=1)


def effective_arguments(new: NewJob, policies: Policies) -> Mapping[str, Any]:
    """Return the arguments with which the job will run; the payload itself if its job type is unknown."""
    known = policies.registry.job_types.get(new.job_type)
    return new.payload if known is None else known.effective(new.payload)


def arguments_key(new: NewJob, policies: Policies) -> str:
    """Make a key of the job's type, org, project and arguments."""
    return job_key(new.job_type, new.org_id, new.project_id, effective_arguments(new, policies))


def derived_key(new: NewJob, policies: Policies, now: datetime) -> tuple[str, Lifetime | None]:
    """Return the key of a job whose contract requires one, and how long it holds.

    The key of a scheduled notification has the bucket of its time: the same one for another day is another.
    """
    key = arguments_key(new, policies)
    if new.category != NOTIFICATION or (new.run_at is None and new.delay is None):
        return key, new.unique
    start = bucket_start(due(new, now), _BUCKET)
    return bucketed_key(key, start), lifetime_past(start + _BUCKET, new, policies, now)


def due(new: NewJob, now: datetime) -> datetime:
    """Return when a job is to run first."""
    if new.run_at is not None:
        return zoned("run_at", new.run_at, error=InvalidJob)
    return now if new.delay is None else now + span("delay", new.delay, error=InvalidJob)


def lifetime_past(end: datetime, new: NewJob, policies: Policies, now: datetime) -> Lifetime | None:
    """Return how long a key is held: at least until `end`, that of its bucket.

    An explicit `unique` of the enqueue is kept, and so is a longer lifetime of the category. A shorter
    lifetime would let a notification be sent again in the same bucket.
    """
    usual = policies.category(new.category).key_lifetime or "active"
    if new.unique is not None or usual == "forever":
        return new.unique
    least = end - now
    return None if isinstance(usual, timedelta) and usual >= least else max(least, timedelta())
