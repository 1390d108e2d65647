"""Findings about schedules: no worker fires them, their occurrences are late, or their runs fail."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import timedelta
from difflib import get_close_matches

from onward.core.policy.built_in import BUILT_IN
from onward.core.upkeep.diagnosis import Finding, lasting, positional, problem, warning
from onward.core.upkeep.facts import Facts, ScheduleSeen, WorkerSeen


def silent_schedules(facts: Facts, patience: timedelta, servers: Sequence[WorkerSeen]) -> Iterator[Finding]:
    """Yield the worst finding of each schedule; `servers` are the workers expected to run jobs."""
    for one in facts.schedules:
        due = None if one.next_at is None else one.next_at + one.warm_up
        built_in = one.job_type in BUILT_IN
        if due is not None and facts.now - due > patience:
            # Without workers another finding reports it, and Onward's own schedules would only add noise.
            if servers or not built_in:
                yield _not_fired(one, facts.now - due, servers)
        elif one.outcome in {"dead", "refused"}:
            why = f": {one.error}" if one.error else ""
            yield _last_run(one, f"the last run of schedule {one.name} was {one.outcome}{why}")
        elif one.late and not built_in and one.occurrence is not None and one.fired_at is not None:
            drift = one.fired_at - one.occurrence
            if drift > patience:
                yield _last_run(
                    one, f"the last occurrence of schedule {one.name} was fired {lasting(drift)} late"
                )


def _not_fired(one: ScheduleSeen, late: timedelta, servers: Sequence[WorkerSeen]) -> Finding:
    title = f"schedule {one.name} is due for {lasting(late)}, and no worker fires it"
    remedy = "onward worker APP"
    if servers and not any(worker.knows(one.job_type) for worker in servers):
        title += f": no worker knows the job type {one.job_type}"
        known = sorted({name for worker in servers for name in worker.job_types or ()})
        if one.source == "database" and (near := get_close_matches(one.job_type, known, 1)):
            title += f"; {near[0]} is one"
            remedy = f"onward schedules remove --reason … {positional(one.name)}"
    elif servers and one.source == "code" and not any(worker.defines(one.name) for worker in servers):
        title += ": no worker's code defines it any more"
        remedy = f"onward schedules remove --reason … {positional(one.name)}"
    return problem(
        "silent_schedule",
        title,
        remedy,
        schedule=one.name,
        job_type=one.job_type,
        next_at=one.next_at,
        source=one.source,
    )


def _last_run(one: ScheduleSeen, title: str) -> Finding:
    return warning(
        "silent_schedule", title, f"onward schedules show {positional(one.name)}", schedule=one.name,
        job_type=one.job_type, occurrence=one.occurrence,
        fired_at=one.fired_at, outcome=one.outcome, job_id=one.job_id,
    )  # fmt: skip
