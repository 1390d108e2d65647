"""Findings about jobs that are held or skipped on purpose: the gate, pauses, skips, budgets and breakers."""

from __future__ import annotations

from onward.core.failures.breaker import Breaker
from onward.core.limits.pause import TypeSkip
from onward.core.upkeep.diagnosis import Finding, found, positional, problem, quoted, warning
from onward.core.upkeep.facts import Hold


def held(hold: Hold, *, jobs_wait: bool = True) -> Finding:
    """Return the finding for a closed gate, a pause or a spent budget."""
    actor = f" by {hold.actor}" if hold.actor else ""
    why = f"{actor}: {hold.reason}"
    evidence = {"since": hold.since, "reason": hold.reason, "actor": hold.actor}
    name = quoted(hold.name)
    match hold.scope:
        case "gate":
            return problem(
                "gate_closed", f"the gate is closed{why}; no worker claims anything", "onward gate open",
                **evidence,
            )  # fmt: skip
        case "queue":
            return found(
                "queue_paused", "problem" if jobs_wait else "warning", f"queue {hold.name} is paused{why}",
                f"onward queues resume {positional(hold.name)}", queue=hold.name, **evidence,
            )  # fmt: skip
        case "job_type":
            return found(
                "job_type_paused", "problem" if jobs_wait else "warning",
                f"job type {hold.name} is paused{why}", f"onward queues resume --job-type {name}",
                job_type=hold.name, **evidence,
            )  # fmt: skip
        case "org":
            return warning(
                "org_paused", f"org {hold.name} is paused{why}", f"onward queues resume --org {name}",
                org_id=hold.name, **evidence,
            )  # fmt: skip
        case "budget":
            return warning(
                "budget_spent", f"org {hold.name}: {hold.reason}; its jobs wait for the next period",
                f"client.usage.set_budget({hold.name!r}, limit_micros=…, period=…)",
                org_id=hold.name, **evidence,
            )  # fmt: skip


def skipped(skip: TypeSkip) -> Finding:
    """Return the finding for a job type whose jobs succeed without a run."""
    actor = ":".join(part for part in (skip.actor_type, skip.actor_id) if part)
    return warning(
        "job_type_skipped",
        f"job type {skip.job_type} is skipped{f' by {actor}' if actor else ''}: {skip.reason}; "
        "its jobs succeed without a run",
        f"onward job-types unskip {positional(skip.job_type)}",
        job_type=skip.job_type,
        since=skip.skipped_at,
        reason=skip.reason,
        actor=actor or None,
    )


def breaker_open(breaker: Breaker) -> Finding:
    """Return the finding for a breaker that holds the jobs of a provider or a queue."""
    until = "until an operator closes it" if breaker.forced or breaker.until is None else "for a while"
    why = f": {breaker.reason}" if breaker.reason else ""
    return found(
        "breaker_open",
        "problem" if breaker.forced else "warning",
        f"the breaker {breaker.name} is {breaker.state}{why}; its jobs are held {until}",
        f"onward breakers close --reason … {positional(breaker.name)}",
        breaker=breaker.name,
        state=breaker.state,
        until=breaker.until,
        forced=breaker.forced,
    )
