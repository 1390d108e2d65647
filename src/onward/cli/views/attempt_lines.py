"""Print one line for each attempt that ended: its job, its outcome and what comes next; never the payload."""

from __future__ import annotations

from onward.cli.views.text import lasting, say, short
from onward.core.inputs.plain_text import one_line as clean
from onward.core.jobs.job import Job, JobState
from onward.core.work.error_record import ErrorRecord
from onward.core.work.lifecycle import Transition

_LONGEST = 200


def say_failure(job: Job, to: Transition) -> None:
    """Print the line of an attempt that ended with an error; nothing for any other attempt."""
    if to.error is not None and to.state != JobState.CANCELLED:
        say(describe_attempt(job, to))


def say_attempt(job: Job, to: Transition) -> None:
    """Print the line of an attempt, whatever its outcome."""
    say(describe_attempt(job, to))


def describe_attempt(job: Job, to: Transition) -> str:
    """Return one line that describes an attempt and its outcome."""
    named = f"{clean(job.job_type)} {short(job.id)} attempt {job.attempt}/{job.max_attempts}"
    error = to.error or ErrorRecord()
    summary = clean(error.summary, _LONGEST)
    match to.state:
        case JobState.SUCCEEDED:
            return f"✓ {named}" + (" skipped" if to.outcome == "skipped" else "")
        case JobState.DEAD:
            return f"☠ {named} {summary} → {clean(error.reason or '').replace('_', ' ')}, dead letter"
        case JobState.CANCELLED:
            return f"· {named} cancelled"
    again = f"next try in {lasting(to.delay)}" if to.delay else "ready again"
    if to.error is None:
        return f"· {named} {to.outcome}, {again}"
    kind = "retryable" if to.outcome == "failed" else to.outcome.replace("_", " ")
    return f"✗ {named} {summary} → {kind}, {again}"
