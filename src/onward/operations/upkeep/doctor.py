"""What a diagnosis reads from the database: few statements, each bounded, however many jobs there are.

Counts stop at a cap and samples at a limit; nothing here writes or waits for a lock.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any, TypeVar

import msgspec

from onward.core.failures.breaker import QUEUE, Breaker
from onward.core.jobs.ids import JobId, first_id_at
from onward.core.jobs.job import Job, JobState, instant, micros
from onward.core.jobs.payload import decode
from onward.core.limits.pause import Controls, Gate, Pause
from onward.core.policy.policies import Policies
from onward.core.upkeep.facts import (
    Burn,
    DatabaseSeen,
    DeadSeen,
    Facts,
    FailureSeen,
    FollowedDead,
    Hold,
    HolderSeen,
    JobFacts,
    QueueSeen,
    RunningSeen,
    ScheduleSeen,
    SinkSeen,
    TypeSeen,
    VacuumHolder,
)
from onward.core.upkeep.worker_findings import OVERDUE
from onward.core.work.claim import ReadyQueues
from onward.errors import JobNotFound
from onward.operations.failures import breakers, dead_letters
from onward.operations.flows import graph, signals
from onward.operations.jobs import inspect
from onward.operations.limits import limit_facts, pauses, queues
from onward.operations.statement import Operation, Row, Scalar, Statement, as_json
from onward.operations.work import effects, polls
from onward.operations.work.workers import list_workers

T = TypeVar("T")

LISTENER = "onward wake-ups"
"""The application name on PostgreSQL of the connections by which workers listen for new work."""

_CAP = 1000
_MOST_WORKERS = 500
_MOST_HOLDERS = 500
_MOST_QUEUES = 100
_SAMPLED_QUEUES = 20
_SAMPLE = 200
_MOST_RUNNING = 5000
_NEWEST_DEAD = 2000
_NEWEST_ENDED = 50
_MOST_FAULTS = 20
_HOUR = timedelta(hours=1)
_MICROSECOND = timedelta(microseconds=1)


def gather(policies: Policies, here: datetime) -> Operation[Facts]:
    """Read what holds jobs back; `here` is the time by this process's clock."""
    ready_queues = yield from polls.ready_queues()
    at = ready_queues.now
    controls = yield from pauses.controls()
    # A worker of one org does not keep the jobs of the others going.
    workers = [one for one in (yield from list_workers(_MOST_WORKERS)).items if one.may_run(None, None)]
    ready = yield from _ready(ready_queues)
    types = yield from _types(ready)
    overdue = yield from _overdue(ready_queues)
    return Facts(
        now=at,
        here=here,
        holds=_holds(controls),
        skips=sorted(controls.skips, key=lambda skip: skip.job_type),
        workers=workers,
        ready=ready,
        loads=(yield from queues.loads_of({queue.name for queue in ready})),
        types=types,
        running=(yield from _running()),
        silent=(yield from _silent(policies, at)),
        next_due=ready_queues.next_due,
        overdue=overdue,
        schedules=(yield from _schedules(at)),
        failures=(yield from _failures()),
        dead=(yield from _dead(at)),
        dead_followed=(yield from _dead_followed()),
        newest_ended=(yield from _newest_ended()),
        burns=(yield from _burns(policies, types, at)),
        breakers=(yield from _open_breakers()),
        permits=(yield from limit_facts.permits_awaited()),
        sinks=(yield from _sinks()),
    )


def inspect_database(at: datetime, *, kind: Any, table: str) -> Operation[DatabaseSeen]:
    """Read what the database reports about itself."""
    [row] = yield Statement("inspect_database", {"listener": LISTENER, "now": micros(at)})
    version, schema, live, dead, autovacuum, listeners, holders = row
    return DatabaseSeen(
        kind=kind,
        version=version,
        schema=schema,
        live_rows=live,
        dead_rows=dead,
        autovacuum=None if autovacuum is None else bool(autovacuum),
        listeners=listeners,
        vacuum_holders=msgspec.convert(decode(holders), list[VacuumHolder]) if holders else (),
        table=table,
    )


def check_integrity() -> Operation[list[str]]:
    """Look for damage; reads whole tables on SQLite."""
    rows = yield Statement("check_integrity", {"limit": _MOST_FAULTS})
    return [fault for (fault,) in rows]


def gather_job(
    job_id: JobId, policies: Policies, at: datetime | None, *, confined: bool
) -> Operation[JobFacts]:
    """Read where a job stands and what delays it; a confined client learns nothing about others."""
    job = (yield from inspect.get_many([job_id])).get(job_id)
    if job is None:
        raise JobNotFound(f"no job {job_id}; it was never enqueued here, or has been removed")
    holds = _holds((yield from pauses.controls()))
    done = yield from effects.list_effects(job_id)
    resolution = None
    if job.state == JobState.DEAD:
        letter = yield from dead_letters.get_letter(job_id)
        resolution = None if letter.resolution is None else str(letter.resolution)
    awaited = (yield from graph.awaited(job_id)) if job.state == JobState.BLOCKED else []
    waits = (yield from signals.list_awaited(job_id=job_id)) if job.state == JobState.SCHEDULED else ()
    known = JobFacts(
        job=job,
        signal=waits[0] if waits else None,
        awaited=awaited,
        now=at or job.created_at,
        holds=holds,
        effects=done.items,
        resolution=resolution,
        dry_run=policies.settings.dry_run,
    )
    if confined:
        return known
    ready_queues = yield from polls.ready_queues()
    found = (yield from list_workers(_MOST_WORKERS)).items
    workers = [worker for worker in found if worker.may_run(job.org_id, job.project_id)]
    own = {f"{QUEUE}{job.queue}", *(worker.providers.get(job.job_type) for worker in workers)}
    held = [one for one in (yield from _open_breakers()) if one.name in own]
    ahead = yield from _ahead(job)
    load = (yield from queues.load_of(job.queue)) if job.state == JobState.QUEUED else None
    blocked = job.state == JobState.BLOCKED
    permit, holders = (yield from limit_facts.permits_of(job_id)) if blocked else (None, [])
    return msgspec.structs.replace(
        known, now=ready_queues.now, workers=workers, ahead=ahead, load=load, breakers=held, permit=permit,
        holders=holders,
    )  # fmt: skip


def _open_breakers() -> Operation[list[Breaker]]:
    return [one for one in (yield from breakers.list_breakers()) if one.state != "closed"]


def _holds(controls: Controls) -> list[Hold]:
    gate = controls.gate
    closed = [] if gate is None else [Hold("gate", "", gate.reason, _actor(gate), gate.closed_at)]
    paused = sorted(controls.pauses, key=lambda pause: (pause.scope, pause.name))
    return closed + [Hold(one.scope, one.name, one.reason, _actor(one), one.paused_at) for one in paused]


def _actor(by: Gate | Pause) -> str | None:
    return ":".join(part for part in (by.actor_type, by.actor_id) if part) or None


def _ready(ready_queues: ReadyQueues) -> Operation[list[QueueSeen]]:
    if not ready_queues.queues:
        return []
    rows = yield Statement("list_ready_queues", {"limit": _MOST_QUEUES, "cap": _CAP})
    return [QueueSeen(queue, jobs, instant(oldest)) for queue, jobs, oldest in rows if oldest is not None]


def _types(ready: Sequence[QueueSeen]) -> Operation[list[TypeSeen]]:
    found: list[TypeSeen] = []
    for queue in sorted(ready, key=lambda one: one.oldest)[:_SAMPLED_QUEUES]:
        rows = yield Statement("sample_ready", {"queue": queue.name, "limit": _SAMPLE})
        found += [
            TypeSeen(queue.name, kind, category, jobs, instant(at)) for kind, category, jobs, at in rows
        ]
    return found


def _overdue(ready_queues: ReadyQueues) -> Operation[int]:
    before = ready_queues.now - OVERDUE
    if ready_queues.next_due is None or ready_queues.next_due >= before:
        return 0
    [(jobs,)] = yield Statement("count_overdue", {"before": micros(before), "cap": _CAP})
    return int(jobs)


def _schedules(at: datetime) -> Operation[list[ScheduleSeen]]:
    """Find the schedules that have a problem."""
    params = {"before": micros(at - OVERDUE), "recent": micros(at - _HOUR), "limit": _MOST_QUEUES}
    rows = yield Statement("find_troubled_schedules", params)
    return [
        ScheduleSeen(
            name=name,
            job_type=job_type,
            source=source,
            next_at=None if next_at is None else instant(next_at),
            warm_up=warm_up * _MICROSECOND,
            occurrence=None if occurrence is None else instant(occurrence),
            fired_at=None if fired_at is None else instant(fired_at),
            late=bool(late),
            outcome=outcome,
            error=error,
            job_id=job_id,
        )
        for (
            name,
            job_type,
            source,
            next_at,
            warm_up,
            occurrence,
            fired_at,
            late,
            outcome,
            error,
            job_id,
        ) in rows
    ]


def _running() -> Operation[list[RunningSeen]]:
    rows = yield Statement("sample_running", {"limit": _MOST_RUNNING})
    return [RunningSeen(worker_id or "", queue, jobs) for worker_id, queue, jobs in rows]


def _silent(policies: Policies, at: datetime) -> Operation[list[HolderSeen]]:
    leases = {one.name: one.lease for one in policies.registry.categories.values() if one.lease}
    params: dict[str, Scalar] = {
        "patient": as_json(sorted(leases)),
        "limit": _MOST_HOLDERS,
        "cap": _CAP,
        "now": micros(at),
    }
    rows = yield Statement("find_silent_holders", params)
    longest = max(leases.values(), default=timedelta())
    return list(_holders(rows, at - longest))


def _holders(rows: Sequence[Row], before: datetime) -> Iterator[HolderSeen]:
    for worker_id, until, seen, jobs, patient in rows:
        over = seen is None or instant(seen) < before
        if held := jobs + (patient if over else 0):
            yield HolderSeen(worker_id, None if until is None else instant(until), held)


def _failures() -> Operation[list[FailureSeen]]:
    rows = yield Statement("sample_failures", {"limit": _SAMPLE})
    return [FailureSeen(*row) for row in rows]


def _dead(at: datetime) -> Operation[list[DeadSeen]]:
    hours = {"hour": micros(at - _HOUR), "before": micros(at - 2 * _HOUR)}
    rows = yield Statement("sample_dead", {**hours, "limit": _NEWEST_DEAD})
    return [
        DeadSeen(kind, error_class, jobs, int(last), int(before), instant(newest))
        for kind, error_class, jobs, last, before, newest in rows
    ]


def _dead_followed() -> Operation[list[FollowedDead]]:
    rows = yield Statement("sample_dead_followed", {"newest": _NEWEST_DEAD, "limit": _MOST_FAULTS})
    return [FollowedDead(*row) for row in rows]


def _newest_ended() -> Operation[dict[str, int]]:
    rows = yield Statement("sample_ended", {"limit": _NEWEST_ENDED})
    return dict(rows)  # type: ignore[arg-type]


def _burns(policies: Policies, types: Sequence[TypeSeen], at: datetime) -> Operation[list[Burn]]:
    found: list[Burn] = []
    for category in policies.registry.categories.values():
        if (slo := category.slo) is None:
            continue
        about: dict[str, Scalar] = {"category": category.name, "wait": slo.wait // _MICROSECOND}
        sample: dict[str, Scalar] = {"since": first_id_at(at - _HOUR), "limit": _NEWEST_DEAD}
        [(jobs, late)] = yield Statement("measure_slo", {**about, **sample})
        waiting = 0
        for queue in sorted({seen.queue for seen in types if seen.category == category.name}):
            params: dict[str, Scalar] = {
                "queue": queue,
                "category": category.name,
                "cap": _CAP,
                "before": micros(at - slo.wait),
            }
            [(more,)] = yield Statement("count_late", params)
            waiting += more
        found.append(Burn(category.name, slo, jobs + waiting, int(late) + waiting))
    return found


def _sinks() -> Operation[list[SinkSeen]]:
    rows = yield Statement("list_failing_sinks", {"limit": _CAP})
    return [SinkSeen(*row) for row in rows]


def _ahead(job: Job) -> Operation[int | None]:
    if job.state != JobState.QUEUED:
        return None
    place: dict[str, Scalar] = {
        "queue": job.queue,
        "priority": job.priority,
        "run_at": micros(job.run_at),
        "id": job.id,
    }
    [(ahead,)] = yield Statement("count_ahead", {**place, "cap": _CAP})
    return int(ahead)
