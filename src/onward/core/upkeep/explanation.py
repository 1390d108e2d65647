"""The explanation why one job has not run, or has not had its effect: its state and its obstacles."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from msgspec.structs import replace

from onward.core.inputs.plain_text import count
from onward.core.jobs.job import Job, JobState
from onward.core.upkeep.diagnosis import (
    Finding,
    fine,
    found,
    lasting,
    positional,
    problem,
    quoted,
    ranked,
    stamp,
    warning,
)
from onward.core.upkeep.facts import JobFacts
from onward.core.upkeep.flow_findings import waits_for
from onward.core.upkeep.health import dry_run
from onward.core.upkeep.limit_findings import waits_for_permit
from onward.core.upkeep.pause_findings import breaker_open, held
from onward.core.upkeep.queue_findings import waits_for_queue
from onward.core.upkeep.wait_findings import waits_for_signal
from onward.core.upkeep.worker_findings import patience, servers
from onward.core.work.error_record import ErrorRecord

UNAUTHORISED = frozenset({"http_401", "http_403", "missing_scopes"})
"""The classification rules for a key that the provider refused."""

_FAILURES = frozenset({JobState.SCHEDULED, JobState.QUEUED, JobState.DEAD})


def explain(facts: JobFacts) -> list[Finding]:
    """Return findings on a job's state, what keeps it from running, and why it may have had no effect."""
    job = facts.job
    about = {"job_id": job.id, "job_type": job.job_type, "subject": job.subject}
    findings = (*_standing(facts), *_refused(facts), *_effects(facts))
    return ranked(replace(one, evidence={**one.evidence, **about}) for one in findings)


def _standing(facts: JobFacts) -> Iterator[Finding]:
    job = facts.job
    error = job.error or ErrorRecord()
    match job.state:
        case JobState.SCHEDULED:
            yield from _scheduled(facts)
        case JobState.QUEUED:
            yield from _queued(facts)
        case JobState.RUNNING:
            yield _running(facts)
        case JobState.BLOCKED:
            permit = facts.permit
            yield waits_for_permit(permit, facts.holders) if permit else waits_for(facts.awaited)
        case JobState.SUCCEEDED:
            yield _succeeded(job)
        case JobState.DEAD:
            yield _dead(job, facts.resolution)
        case JobState.CANCELLED:
            reason = error.reason or "no reason is kept"
            yield warning("cancelled", f"it was cancelled: {reason}", reason=reason)


def _scheduled(facts: JobFacts) -> Iterator[Finding]:
    job, left = facts.job, facts.job.run_at - facts.now
    if job.error is not None:
        yield warning(
            "retrying",
            f"it waits to run again after {_error(job)} (attempt {job.attempt} of {job.max_attempts})",
            **_failure(job),
        )
    if facts.signal is not None:
        yield waits_for_signal(facts.signal)
    elif left.total_seconds() > 0:
        when = f"it is due in {lasting(left)}, at {stamp(job.run_at)}"
        yield fine("waiting_for_time", when, run_at=job.run_at)
    elif -left > patience(facts.workers or (), facts.now):
        yield problem(
            "silent_schedule", f"it was due {lasting(-left)} ago, and no worker has made it ready",
            "onward worker APP", run_at=job.run_at
        )  # fmt: skip
    yield from _hindrances(facts)


def _queued(facts: JobFacts) -> Iterator[Finding]:
    job, waits = facts.job, facts.now - facts.job.run_at
    hindrances = list(_hindrances(facts))
    yield from hindrances
    if facts.ahead:
        yield fine(
            "behind_others",
            f"{count(facts.ahead, 'job', 'come', of=f'of queue {job.queue}')} before it "
            f"(priority {job.priority})",
            ahead=facts.ahead,
            priority=job.priority,
        )
    elif not hindrances:
        yield fine("next_in_line", f"it is ready since {lasting(waits)} and the next of its queue")


def _hindrances(facts: JobFacts) -> Iterator[Finding]:
    """Yield a finding for everything that keeps a job from being claimed now."""
    job = facts.job
    own = {"gate": "", "queue": job.queue, "job_type": job.job_type, "org": job.org_id, "budget": job.org_id}
    for hold in facts.holds:
        if hold.name == own[hold.scope]:
            yield held(hold)
    yield from map(breaker_open, facts.breakers)
    if facts.load is not None and (waits := waits_for_queue(facts.load)):
        yield waits
    if facts.workers is not None:
        yield from _unserved(facts)


def _unserved(facts: JobFacts) -> Iterator[Finding]:
    job = facts.job
    counted_on = servers(facts.workers or (), facts.now)
    serving = [worker for worker in counted_on if worker.serves(job.queue)]
    if not counted_on:
        yield problem("no_worker", "no worker lives", "onward worker APP")
    elif not serving:
        yield problem(
            "unserved_queue", f"no worker serves its queue {job.queue}",
            f"onward worker APP -q {quoted(job.queue)}", queue=job.queue
        )  # fmt: skip
    elif not any(worker.knows(job.job_type) for worker in serving):
        yield problem(
            "unknown_job_type", f"no worker has a handler for its type {job.job_type}",
            f"deploy code that defines {job.job_type}, or cancel the job"
        )  # fmt: skip


def _running(facts: JobFacts) -> Finding:
    job = facts.job
    since = job.started_at or job.created_at
    about: dict[str, Any] = {"worker": job.worker_id, "started_at": since}
    holder = next((one for one in facts.workers or () if one.id == job.worker_id), None)
    if facts.workers is not None and (holder is None or not holder.lives(facts.now)):
        return problem(
            "stuck_jobs",
            f"it runs on worker {job.worker_id}, whose lease ran out; no worker has taken it back",
            "onward worker APP", **about,
        )  # fmt: skip
    if job.cancel_requested_at is not None:
        ago = lasting(facts.now - job.cancel_requested_at)
        return warning("cancel_requested", f"it was asked {ago} ago to give way, and still runs", **about)
    return fine("running", f"it runs on worker {job.worker_id} since {lasting(facts.now - since)}", **about)


def _succeeded(job: Job) -> Finding:
    if job.skipped:
        reason = job.result.get("reason") if isinstance(job.result, dict) else None
        return found("skipped", "ok", f"it was skipped: {reason}", reason=reason)
    return fine("succeeded", "it has succeeded", ended_at=job.ended_at)


def _dead(job: Job, resolution: str | None) -> Finding:
    if resolution is not None:
        return warning("resolved", f"it died of {_error(job)}, and was {resolution}", **_failure(job))
    error = job.error or ErrorRecord()
    advice = f"; {error.hint}" if error.hint else ""
    return problem(
        "dead", f"it is dead ({error.reason or 'no reason'}) after {_error(job)}{advice}",
        f"onward dead replay {job.id} --reason …", **_failure(job)
    )  # fmt: skip


def _refused(facts: JobFacts) -> Iterator[Finding]:
    """Yield a finding if the provider refused the API key: no retry helps before an operator renews it."""
    job, rule = facts.job, facts.job.error and facts.job.error.rule
    if job.state in _FAILURES and rule in UNAUTHORISED:
        yield problem(
            "unauthorised", f"the provider refused the key or what it may ({rule}); renew it, then replay",
            f"onward dead replay {job.id} --reason …", **_failure(job)
        )  # fmt: skip


def _effects(facts: JobFacts) -> Iterator[Finding]:
    job = facts.job
    for effect in facts.effects:
        if effect.kind == "once" and effect.is_done_over(job.payload):
            yield fine(
                "effect_done",
                f"its effect {effect.name} was done before: no run repeats it",
                f"onward effects reset --reason … {job.id} {positional(effect.name)}",
                effect=effect.name,
                done_at=effect.done_at,
            )
    if facts.dry_run:
        yield dry_run()


def _error(job: Job) -> str:
    error = job.error or ErrorRecord()
    return ": ".join(part for part in (error.error_class or "an error", (error.message or "")[:200]) if part)


def _failure(job: Job) -> dict[str, Any]:
    facts = {} if job.error is None else job.error.facts()
    return {name: facts[name] for name in ("error_class", "reason", "rule", "hint", "link") if name in facts}
