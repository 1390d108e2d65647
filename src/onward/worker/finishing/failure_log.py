"""Logs each attempt that ended with an error, with its exception, to the logger `onward.job`."""

from __future__ import annotations

import logging

from onward.core.inputs.duration import lasting
from onward.core.inputs.plain_text import one_line
from onward.core.jobs.job import Job, JobState
from onward.core.policy.policies import Policies
from onward.core.work.error_record import ErrorRecord
from onward.core.work.lifecycle import Transition
from onward.logs import HIDE, TRACEBACK, get_logger

log = get_logger("onward.job")


def log_failure(policies: Policies, job: Job, to: Transition, raised: BaseException | None) -> None:
    """Log an attempt that failed: as an error if its job is dead, as a mere note if a provider was busy.

    Logs nothing for an attempt without an error, or for a job that was cancelled.
    """
    error = to.error
    level = _level(to)
    if error is None or to.state is JobState.CANCELLED or not log.isEnabledFor(level):
        return
    log.log(
        level,
        "%s %s attempt %d/%d %s → %s",
        job.job_type,
        job.id,
        job.attempt,
        job.max_attempts,
        one_line(error.summary if error.message or not error.error_class else error.error_class),
        _what_follows(to, error),
        exc_info=raised,
        extra={
            "job_id": job.id,
            "job_type": job.job_type,
            "attempt": job.attempt,
            "outcome": "dead" if to.state is JobState.DEAD else to.outcome,
            HIDE: policies.settings.redact.hider(job.payload),
            TRACEBACK: error.traceback,
        },
    )


def _level(to: Transition) -> int:
    if to.state is JobState.DEAD:
        return logging.ERROR
    # The attempt was not counted: the provider said when to come back.
    return logging.INFO if to.outcome == "rate_limited" else logging.WARNING


def _what_follows(to: Transition, error: ErrorRecord) -> str:
    if to.state is JobState.DEAD:
        return f"{(error.reason or '').replace('_', ' ')}, dead letter"
    kind = "retryable" if to.outcome == "failed" else to.outcome.replace("_", " ")
    return f"{kind}, {f'next try in {lasting(to.delay)}' if to.delay else 'ready again'}"
