"""Turns what a handler returned or raised into the outcome of its attempt."""

from __future__ import annotations

from collections.abc import Awaitable, Collection
from datetime import UTC, datetime, timedelta
from difflib import get_close_matches
from inspect import isawaitable, iscoroutine
from typing import Any

from msgspec.structs import replace

from onward.core.failures.classify import classify, describe
from onward.core.jobs.job import Job
from onward.core.policy.policies import Policies
from onward.core.work.error_record import ErrorRecord
from onward.core.work.lifecycle import Failed, Outcome, Released, Succeeded
from onward.errors import InvalidJob

_UNKNOWN = "UnknownJobType"
_UNKNOWN_DELAY = timedelta(seconds=10)
# A release raises the lease of a job, and so does its next claim.
_LEASES = 2


def outcome_of(end: Any, job: Job, policies: Policies) -> Outcome:
    """Return the outcome for a value that a handler returned, or an error that it raised."""
    if isinstance(end, BaseException):
        hider = policies.settings.redact.hider(job.payload)
        return classify(end, hider, policies.registry.classification, datetime.now(UTC))
    return _not_awaited(end) if isawaitable(end) else Succeeded(end)


def invalid_arguments(error: InvalidJob) -> Outcome:
    """Return the outcome of a job whose payload does not fit its handler."""
    rule = "invalid_arguments"
    return Failed(replace(describe(error), rule=rule, reason=rule), retryable=False)


def unknown_for(job: Job) -> timedelta:
    """Return the time since workers have found no handler for a job.

    A claim in between starts it anew: some worker knew the job type, even if it recorded no error.
    """
    last = job.error
    met = last.detail if last is not None and last.error_class == _UNKNOWN else {}
    since = met.get("since")
    if not isinstance(since, int | float) or met.get("lease") != job.lease - _LEASES:
        return timedelta()
    return timedelta(seconds=max(0.0, claimed_at(job).timestamp() - since))


def unknown(job: Job, length: timedelta, longest: timedelta, known: Collection[str]) -> Outcome:
    """Return the outcome of a job without a handler here, which no live worker has known for `length`.

    `known` are the job types with a handler here.
    It is released, because another version of the program may know it, and is dead after `longest`.
    """
    since = (claimed_at(job) - length).timestamp()
    near = get_close_matches(job.job_type, known, 1)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    message = (
        f"no handler here for job type {job.job_type!r}.{hint} If another application enqueued it, "
        "give the two applications names (Onward(name=…))"
    )
    error = ErrorRecord(
        _UNKNOWN, message, rule="unknown_job_type", detail={"since": since, "lease": job.lease}
    )
    if length >= longest:
        return Failed(replace(error, reason="unknown_job_type"), retryable=False)
    return Released(_UNKNOWN_DELAY, error)


def claimed_at(job: Job) -> datetime:
    """Return the instant of the claim, by the database's clock."""
    return job.started_at or job.created_at


def _not_awaited(result: Awaitable[Any]) -> Outcome:
    """Return the failure of a handler that returned an awaitable: it has done nothing yet."""
    if iscoroutine(result):
        result.close()
    message = f"the handler returned a {type(result).__name__} that was not awaited; write `return await …`"
    return Failed(ErrorRecord("NotAwaited", message, rule="not_awaited"), retryable=False)
