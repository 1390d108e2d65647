"""Print one line for each attempt that ended without an error, which no log has; never the payload."""

from __future__ import annotations

from onward.cli.views.text import say, short
from onward.core.inputs.duration import lasting
from onward.core.inputs.plain_text import one_line as clean
from onward.core.jobs.job import Job, JobState
from onward.core.work.lifecycle import Transition


def say_attempt(job: Job, to: Transition) -> None:
    """Print the line of an attempt, unless it failed: the log has a line about that."""
    if to.error is None or to.state is JobState.CANCELLED:
        say(_described(job, to))


def _described(job: Job, to: Transition) -> str:
    named = f"{clean(job.job_type)} {short(job.id)} attempt {job.attempt}/{job.max_attempts}"
    match to.state:
        case JobState.SUCCEEDED:
            return f"✓ {named}" + (" skipped" if to.outcome == "skipped" else "")
        case JobState.CANCELLED:
            return f"· {named} cancelled"
    again = f"next try in {lasting(to.delay)}" if to.delay else "ready again"
    return f"· {named} {to.outcome}, {again}"
