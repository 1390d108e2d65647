"""The diagnosis of a stuck queue: one function for each kind of finding, over facts that were read before.

These functions use no clock and no database. Each obstacle is reported once, by the function
that checks for its cause.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta

from onward.core.inputs.plain_text import count
from onward.core.upkeep.diagnosis import Finding, fine, found, lasting, problem, quoted, ranked, warning
from onward.core.upkeep.facts import Facts, QueueSeen, WorkerSeen
from onward.core.upkeep.flow_findings import dead_followed
from onward.core.upkeep.limit_findings import limits_reached
from onward.core.upkeep.pause_findings import breaker_open, held, skipped
from onward.core.upkeep.queue_findings import queue_bound
from onward.core.upkeep.schedule_findings import silent_schedules
from onward.core.upkeep.worker_findings import (
    OVERDUE,
    last_seen,
    patience,
    servers,
    sharing_workers,
    ticks_of,
    who_works,
)

_STUCK_AFTER = timedelta(seconds=10)
_STORM = timedelta(minutes=10)
_LEAST_STORM = 3
_LEAST_GROWTH = 10
_LEAST_BURN = 10
_RESTART = timedelta(seconds=30)
_UNCLAIMED = timedelta(minutes=5)
_SHOWN = 10


def diagnose(facts: Facts) -> list[Finding]:
    """Return all findings, worst first; findings that report no problem come last."""
    return ranked(finding for check in _CHECKS for finding in check(facts))


def _holds(facts: Facts) -> Iterator[Finding]:
    queues = {queue.name for queue in facts.ready}
    types = {seen.job_type for seen in facts.types}
    for hold in facts.holds:
        waiting = {"queue": queues, "job_type": types}.get(hold.scope, {hold.name})
        yield held(hold, jobs_wait=hold.name in waiting)
    for skip in facts.skips:
        yield skipped(skip)


def _unserved(facts: Facts) -> Iterator[Finding]:
    counted_on = servers(facts.workers, facts.now)
    for queue in facts.ready if counted_on else ():
        if not any(worker.serves(queue.name) for worker in counted_on):
            served = sorted({name for worker in counted_on for name in worker.queues or ()})
            waits = facts.now - queue.oldest
            yield found(
                "unserved_queue",
                # The worker that serves this queue may be restarting.
                "problem" if waits > _RESTART else "warning",
                f"no worker serves queue {queue.name}, where {_jobs(queue)} wait",
                f"onward worker APP -q {quoted(queue.name)}",
                queue=queue.name,
                jobs=queue.jobs,
                oldest=queue.oldest,
                served=served,
            )


def _unknown_types(facts: Facts) -> Iterator[Finding]:
    counted_on = servers(facts.workers, facts.now)
    unknown: set[str] = set()
    for seen in facts.types:
        serving = [worker for worker in counted_on if worker.serves(seen.queue)]
        if serving and not any(worker.knows(seen.job_type) for worker in serving):
            unknown.add(seen.job_type)
    # A worker that lacks the handler releases the job, because a worker of another version may have the
    # handler.
    unknown |= {
        failure.job_type
        for failure in facts.failures
        if failure.error_class == "UnknownJobType"
        and not any(one.knows(failure.job_type) for one in counted_on)
    }
    for job_type in sorted(unknown):
        known = sorted({name for worker in counted_on for name in worker.job_types or ()})
        yield problem(
            "unknown_job_type",
            f"no worker has a handler for job type {job_type}; its jobs are given back, then die",
            f"deploy code that defines {job_type}, or cancel its jobs",
            job_type=job_type,
            known=known[:_SHOWN],
        )


def _unclaimed(facts: Facts) -> Iterator[Finding]:
    """Yield findings for jobs that wait in a served queue: no slot is free, or no worker claims them."""
    living = facts.living()
    for queue in facts.ready:
        wait = facts.now - queue.oldest
        serving = [worker for worker in living if worker.serves(queue.name)]
        if facts.gate or not serving or wait <= OVERDUE:
            continue
        free = sum(_free(worker, queue.name, facts) for worker in serving)
        evidence = {"queue": queue.name, "jobs": queue.jobs, "oldest": queue.oldest, "workers": len(serving)}
        if not free:
            yield warning(
                "limit_reached",
                f"every slot for queue {queue.name} is taken; "
                f"{_jobs(queue)} wait, the oldest for {lasting(wait)}",
                f"onward worker APP -q {quoted(queue.name)}",
                **evidence,
            )
        elif queue.name in facts.loads and facts.loads[queue.name].reached:
            yield queue_bound(queue, facts.loads[queue.name], lasting(wait))
        elif wait > _UNCLAIMED and not facts.holds and not facts.breakers:
            yield problem(
                "not_claimed",
                f"workers are free, yet a job of queue {queue.name} has waited for {lasting(wait)}; "
                "a worker is not claiming, or its event loop is blocked: see its log",
                f"onward worker APP -q {quoted(queue.name)}",
                free=free,
                **evidence,
            )


def _stuck(facts: Facts) -> Iterator[Finding]:
    silent = [one for one in facts.silent if one.since is None or facts.now - one.since > _STUCK_AFTER]
    if silent:
        jobs = sum(holder.jobs for holder in silent)
        yield problem(
            "stuck_jobs",
            f"{count(jobs, 'job', 'run')} on workers whose lease ran out, and no worker takes them back",
            "onward worker APP",
            jobs=jobs,
            workers=[holder.worker_id for holder in silent[:_SHOWN]],
        )


def _silent_schedule(facts: Facts) -> Iterator[Finding]:
    yield from silent_schedules(facts, patience(facts.workers, facts.now), servers(facts.workers, facts.now))
    if facts.overdue and facts.next_due is not None:
        late = facts.now - facts.next_due
        if late <= patience(facts.workers, facts.now):
            return
        yield problem(
            "silent_schedule",
            f"{count(facts.overdue, 'scheduled job')} should be ready, the oldest since {lasting(late)}; "
            "no worker promotes them",
            "onward tick APP" if ticks_of(facts.workers) else "onward worker APP",
            jobs=facts.overdue,
            oldest=facts.next_due,
            last_worker=last_seen(facts.workers, "worker"),
            last_tick=last_seen(facts.workers, "tick"),
        )


def _lease_storm(facts: Facts) -> Iterator[Finding]:
    lost = [
        worker
        for worker in facts.workers
        if not worker.lives(facts.now) and not worker.retired and facts.now - worker.lease_until <= _STORM
    ]
    if len(lost) >= _LEAST_STORM:
        yield warning(
            "lease_storm",
            f"{len(lost)} workers lost their lease in the last {lasting(_STORM)}: they were killed, or could "
            "not reach the database for longer than their lease",
            "onward worker APP --lease 2m",
            workers=[worker.id for worker in lost[:_SHOWN]],
            hosts=sorted({worker.host for worker in lost if worker.host}),
        )


def _dead(facts: Facts) -> Iterator[Finding]:
    jobs = sum(seen.jobs for seen in facts.dead)
    if not jobs:
        return
    kinds = [
        {"job_type": seen.job_type, "error_class": seen.error_class, "jobs": seen.jobs}
        for seen in facts.dead[:_SHOWN]
    ]
    worst = facts.dead[0]
    cause = f"mostly {worst.job_type}" + (f" ({worst.error_class})" if worst.error_class else "")
    nothing_waits = not facts.ready and not facts.running and facts.next_due is None
    ended = sum(facts.newest_ended.values())
    if nothing_waits and facts.newest_ended.get("dead", 0) == ended > 0:
        yield problem(
            "all_dead", f"nothing waits, and each of the last {count(ended, 'job')} died, {cause}",
            "onward dead list", jobs=jobs, types=kinds,
        )  # fmt: skip
    else:
        yield warning(
            "dead_letters", f"{count(jobs, 'dead job', 'wait')} to be resolved, {cause}", "onward dead list",
            jobs=jobs, types=kinds,
        )  # fmt: skip
    recent, before = (
        sum(getattr(seen, name) for seen in facts.dead) for name in ("last_hour", "hour_before")
    )
    if recent >= _LEAST_GROWTH and recent > 2 * before:
        yield warning(
            "dead_growth", f"{recent} jobs died in the last hour, {before} in the one before; {cause}",
            "onward dead list", last_hour=recent, hour_before=before, types=kinds,
        )  # fmt: skip


def _failing(facts: Facts) -> Iterator[Finding]:
    for failure in facts.failures[:_SHOWN]:
        if failure.error_class != "UnknownJobType":
            yield warning(
                "jobs_failing",
                f"{count(failure.jobs, 'job', 'wait', of=f'of type {failure.job_type}')} to run again after "
                f"{failure.error_class or 'an error'}",
                # Do not suggest an audit search: a rate-limited attempt is recorded under another event, and
                # some audit levels record no event.
                None if failure.job_id is None else f"onward doctor {failure.job_id}",
                job_type=failure.job_type,
                error_class=failure.error_class,
                jobs=failure.jobs,
                job_id=failure.job_id,
            )


def _breakers(facts: Facts) -> Iterator[Finding]:
    yield from map(breaker_open, facts.breakers)


def _burning(facts: Facts) -> Iterator[Finding]:
    for burn in facts.burns:
        allowed = 1 - burn.slo.target
        # Rounded, because in floating point 1 - 0.9 is a little less than a tenth.
        if burn.jobs < _LEAST_BURN or burn.late <= round(burn.jobs * allowed, 6):
            continue
        yield warning(
            "slo_burn",
            f"{burn.late} of {burn.jobs} jobs of category {burn.category} did not start within "
            f"{lasting(burn.slo.wait)} of when they were due; the target is that "
            f"{burn.slo.target * 100:.4g}% do",
            "onward worker APP",
            category=burn.category,
            jobs=burn.jobs,
            late=burn.late,
            target=burn.slo.target,
            burn_rate=round(burn.late / burn.jobs / allowed, 2),
        )


def _sinks(facts: Facts) -> Iterator[Finding]:
    for sink in facts.sinks:
        yield warning(
            "sink_failing",
            f"the alerts' sink {sink.name} did not take {count(sink.messages, 'message')}: {sink.error}",
            "onward alerts list",
            name=sink.name,
            messages=sink.messages,
            tries=sink.tries,
        )


def _clocks(facts: Facts) -> Iterator[Finding]:
    ahead = (facts.here - facts.now).total_seconds()
    if abs(ahead) > OVERDUE.total_seconds():
        way = "ahead of" if ahead > 0 else "behind"
        yield warning(
            "clock_skew",
            f"this machine's clock is {abs(ahead):.0f} s {way} the database's, which decides what is due",
            "timedatectl set-ntp true",
            ahead_seconds=round(ahead, 3),
        )


def _wakeups(facts: Facts) -> Iterator[Finding]:
    living = facts.living()
    if facts.listeners == 0 and living:
        yield warning(
            "no_wakeups",
            f"{count(len(living), 'worker', 'live')}, and no connection listens for new work; they poll",
            "restart the workers; see in their log why they lost their wake-ups",
            workers=len(living),
        )


def _queues(facts: Facts) -> Iterator[Finding]:
    waiting = sum(queue.jobs for queue in facts.ready)
    oldest = min((queue.oldest for queue in facts.ready), default=None)
    if oldest is None:
        yield fine("queues", "no ready job is waiting", next_due=facts.next_due)
    else:
        yield fine(
            "queues",
            f"{count(waiting, 'ready job')} in {count(len(facts.ready), 'queue')}, "
            f"the oldest has been due for {lasting(facts.now - oldest)}",
            queues={queue.name: queue.jobs for queue in facts.ready},
            oldest=oldest,
        )


_CHECKS: tuple[Callable[[Facts], Iterator[Finding]], ...] = (
    _holds, who_works, sharing_workers, _unserved, _unknown_types, _unclaimed, _stuck, _silent_schedule,
    _breakers, _dead, dead_followed, limits_reached, _failing, _burning, _lease_storm, _sinks, _clocks,
    _wakeups, _queues,
)  # fmt: skip


def _free(worker: WorkerSeen, queue: str, facts: Facts) -> int:
    """Return how many jobs of a queue a worker could claim now; one if it does not report its slots."""
    own = [seen for seen in facts.running if seen.worker_id == worker.id]
    slots = worker.concurrency
    free = 1 if slots is None else slots - sum(seen.jobs for seen in own)
    most = (worker.queues or {}).get(queue)
    if most is not None:
        free = min(free, most - sum(seen.jobs for seen in own if seen.queue == queue))
    return max(free, 0)


def _jobs(queue: QueueSeen) -> str:
    return count(queue.jobs, "job")
