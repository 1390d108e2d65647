"""What becomes of jobs: they are claimed, ended, rescued, promoted, cancelled and found."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest

from onward.core.failures.fingerprint import fingerprint
from onward.core.jobs.filters import JobFilter
from onward.core.jobs.ids import JobId
from onward.core.jobs.job import JobState
from onward.core.page import Page
from onward.core.policy.policies import DEFAULT_POLICIES
from onward.core.work.error_record import ErrorRecord
from onward.core.work.lease import Leases, Promoted
from onward.core.work.lifecycle import (
    Cancelled,
    End,
    Failed,
    RateLimited,
    Released,
    Skip,
    Snooze,
    Succeeded,
)
from onward.errors import WorkerLost
from onward.operations.jobs import cancel, inspect, listing, stats
from onward.operations.work import claim, finish, leases, rescue
from tests.connections.scenarios.steps import (
    HOUR,
    LEASE,
    NOW,
    QUEUE,
    Go,
    end,
    events,
    ids,
    look,
    put,
    register,
    take,
)

__all__ = ["SCENARIOS"]


def jobs_are_claimed_in_order_and_succeed(go: Go) -> list[JobId]:
    # R3, S0-15, S0-48, S0-49, S0-51, S1-20, S1-21, S2-14, S3-3, S3-9, S3-15, S3-21
    register(go)
    low, old, urgent = put(go, priority=9), put(go), put(go, priority=1)
    jobs = take(go, limit=2)
    assert [job.id for job in jobs] == [urgent.id, old.id]
    assert {(job.state, job.attempt, job.lease, job.worker_id) for job in jobs} == {("running", 1, 1, "w")}
    assert end(go, jobs[0], Succeeded({"sent": "é"})).held == {urgent.id}
    assert end(go, jobs[1], Skip("nothing to do")).held == {old.id}
    done, skipped = look(go, urgent.id), look(go, old.id)
    assert (done.state, done.result, done.outcome, done.ended_at) == (
        "succeeded",
        {"sent": "é"},
        "succeeded",
        NOW,
    )
    assert skipped.skipped
    assert events(go, urgent.id) == ["job.enqueued", "job.started", "job.succeeded"]
    assert [job.id for job in take(go)] == [low.id]
    assert take(go) == []
    return [low.id, old.id, urgent.id]


def any_priority_from_minus_1000_to_1000_has_its_place(go: Go) -> list[JobId]:  # R3, S3-3
    register(go)
    levels = [1000, -1, 5, -1000, 0, 10, 1]
    jobs = {level: put(go, priority=level).id for level in levels} | {5: put(go).id}
    first = take(go, limit=1)
    assert [(job.id, job.priority) for job in first] == [(jobs[-1000], -1000)]
    assert [job.priority for job in take(go, limit=9)] == [-1, 0, 1, 5, 5, 10, 1000]
    return list(jobs.values())


def a_failed_job_is_retried_and_then_buried(go: Go) -> list[JobId]:  # S1-10, S1-13, S1-14, S3-8, S3-14
    register(go)
    job_id = put(go).id
    end(go, take(go)[0], Failed({"message": "boom"}, after=timedelta(seconds=5)))
    waiting = look(go, job_id)
    assert waiting.retrying
    kind = fingerprint(waiting.job_type, ErrorRecord(message="boom"))
    boom = ErrorRecord(message="boom", fingerprint=kind, repeats=1)
    assert (waiting.run_at, waiting.error) == (NOW + timedelta(seconds=5), boom)
    assert go(rescue.promote(), at=NOW + timedelta(seconds=4)).next_due == NOW + timedelta(seconds=5)
    assert go(rescue.promote(), at=NOW + timedelta(seconds=5)) == Promoted({QUEUE: 1}, None)
    [job] = take(go, now=NOW + timedelta(seconds=6))
    assert (job.attempt, job.lease) == (2, 3)
    end(go, job, Failed({"message": "é"}, retryable=False))
    dead = look(go, job_id)
    assert dead.error is not None
    assert (dead.state, dead.error.reason, dead.error.message) == ("dead", "unrecoverable", "é")
    assert dead.error.fingerprint != boom.fingerprint
    past, last = go(inspect.attempts_of(job_id))
    assert (last.attempt, last.lease, last.outcome) == (2, 3, "failed")
    assert (past.attempt, past.lease, past.worker_id, past.outcome) == (1, 1, "w", "failed")
    assert (past.started_at, past.ended_at, past.error) == (NOW, NOW, boom)
    assert events(go, job_id) == [
        "job.enqueued", "job.started", "job.failed", "job.started", "job.failed", "job.deadlettered",
    ]  # fmt: skip
    return [job_id]


def what_goes_back_unfinished_burns_no_attempt(go: Go) -> list[JobId]:
    register(go)
    put(go), put(go), put(go)
    released, snoozed, limited = take(go)
    policy = DEFAULT_POLICIES.policy_of(released)
    leases = go(
        finish.finish(
            [
                End.of(released, Released(), policy),
                End.of(snoozed, Snooze(HOUR), policy),
                End.of(limited, RateLimited(HOUR, {"status": 429}), policy),
            ]
        )
    )
    assert leases == Leases(frozenset({released.id, snoozed.id, limited.id}), frozenset())
    after = [look(go, job.id) for job in (released, snoozed, limited)]
    assert [job.state for job in after] == ["queued", "scheduled", "scheduled"]
    assert [(job.attempt, job.lease, job.waits) for job in after] == [(0, 2, 0), (0, 2, 0), (0, 2, 1)]
    assert [len(go(inspect.attempts_of(job.id))) for job in after] == [1, 1, 1]
    return [job.id for job in after]


def a_stale_lease_is_refused(go: Go) -> list[JobId]:
    register(go)
    put(go)
    [stale] = take(go)
    end(go, stale, Released())
    [fresh] = take(go)
    for outcome in (Succeeded("stale"), Failed({"message": "stale"})):
        assert end(go, stale, outcome) == Leases(frozenset(), frozenset({stale.id}))
    assert look(go, fresh.id) == fresh
    assert end(go, fresh, Succeeded("fresh")).held == {fresh.id}
    assert end(go, fresh, Succeeded("twice")).lost == {fresh.id}
    assert look(go, fresh.id).result == "fresh"
    assert events(go, fresh.id).count("job.stale_result_rejected") == 3
    return [fresh.id]


def a_worker_extends_its_lease(go: Go) -> list[JobId]:
    register(go)
    put(go), put(go)
    kept, lost = take(go)
    end(go, lost, Released())
    go(cancel.cancel([kept.id], reason="enough"))
    answer = go(leases.extend("w", [kept.held_lease, lost.held_lease], lease=LEASE, idle=True))
    assert answer == Leases(frozenset({kept.id}), frozenset({lost.id}), frozenset({kept.id}))
    assert go(leases.extend("w", [], lease=LEASE)) == Leases(frozenset(), frozenset())
    with pytest.raises(WorkerLost):
        go(leases.extend("nobody", [], lease=LEASE))
    with pytest.raises(WorkerLost):
        go(claim.claim(QUEUE, 1, worker_id="nobody"))
    return [kept.id, lost.id]


def the_jobs_of_a_lost_worker_are_rescued(go: Go) -> list[JobId]:
    register(go)
    register(go, "alive")
    put(go), put(go, priority=6, max_attempts=1), put(go, priority=7)
    first, last = take(go, limit=2)
    [safe] = take(go, "alive")
    go(leases.extend("alive", [], lease=HOUR))
    assert go(rescue.rescue()).held == frozenset()
    later = NOW + LEASE
    assert go(rescue.rescue(), at=later).held == {first.id, last.id}
    assert (look(go, first.id).crashes, look(go, last.id).state) == (1, "dead")
    assert look(go, safe.id) == safe
    with pytest.raises(WorkerLost):
        go(leases.extend("w", [], lease=LEASE), at=later)
    assert [go(leases.retire(worker), at=later).changed for worker in ("alive", "nobody")] == [True, False]
    assert go(rescue.rescue(), at=later).held == {safe.id}
    return [first.id, last.id, safe.id]


def due_jobs_are_promoted(go: Go) -> list[JobId]:
    due, later, other = put(go, delay=LEASE), put(go, delay=HOUR), put(go, delay=LEASE, queue="other")
    assert go(rescue.promote()) == Promoted({}, NOW + LEASE)
    assert go(rescue.promote(), at=NOW + LEASE) == Promoted({QUEUE: 1, "other": 1}, NOW + HOUR)
    assert [look(go, job.id).state for job in (due, later, other)] == ["queued", "scheduled", "queued"]
    return [due.id, later.id, other.id]


def waiting_and_running_jobs_are_cancelled(go: Go) -> list[JobId]:
    register(go)
    put(go), put(go)
    yields, resists = take(go)
    waiting, unknown = put(go, delay=HOUR).id, ids.make()
    asked = [yields.id, resists.id, waiting, unknown]
    states = go(cancel.cancel(asked, reason="é"))
    assert states == {yields.id: "running", resists.id: "running", waiting: "cancelled"}
    assert end(go, yields, Cancelled("asked")).held == {yields.id}
    assert end(go, resists, Failed({"message": "boom"})).cancel_requested == {resists.id}
    assert [look(go, job_id).state for job_id in asked[:3]] == ["cancelled"] * 3
    assert set(go(cancel.cancel(asked, reason="again")).values()) == {JobState.CANCELLED}
    requested = go(inspect.events_of(yields.id))[2]
    assert (requested.event, requested.actor_id, requested.detail) == (
        "job.cancel_requested",
        "é",
        {"reason": "é"},
    )
    return asked[:3]


def jobs_are_found_listed_and_counted(go: Go) -> list[JobId]:
    register(go)
    (
        put(go, org_id="o"),
        put(go, "report", org_id="o", subject="s"),
        put(go, delay=HOUR),
        put(go, queue="other"),
    )
    done, stuck = take(go)
    end(go, done, Succeeded())
    everything = go(listing.list_jobs(JobFilter(), limit=4)).items
    assert [job.id for job in everything] == sorted((job.id for job in everything), reverse=True)
    pages = [page := go(listing.list_jobs(JobFilter(), limit=3))]
    pages.append(go(listing.list_jobs(JobFilter(), limit=3, cursor=page.next_cursor)))
    assert [job for page in pages for job in page] == everything
    assert pages[1].next_cursor is None

    def listed(*, now: datetime = NOW, **narrow: Any) -> set[JobId]:
        return {job.id for job in go(listing.list_jobs(JobFilter(**narrow)), at=now)}

    assert listed(state=JobState.SUCCEEDED) == listed(job_type="mail", org_id="o") == {done.id}
    assert listed(subject="s") == listed(state=JobState.RUNNING) == {stuck.id}
    assert listed(state="stuck") == set()
    assert listed(state="stuck", now=NOW + LEASE) == {stuck.id}
    assert listed(created_before=NOW - HOUR) == set()
    assert len(listed(created_from=NOW - HOUR)) == 4
    counts = go(inspect.count())
    assert counts.live == {QUEUE: {"running": 1, "scheduled": 1}, "other": {"queued": 1}}
    assert counts.ended == {"succeeded": 1, "dead": 0, "cancelled": 0}
    assert go(inspect.get_many([])) == go(inspect.get_many([ids.make()])) == {}
    oldest = go(listing.list_jobs(JobFilter(tags=["vip"], category="default"), order="oldest"))
    assert oldest == Page([])
    several = go(listing.list_jobs(JobFilter(state=("succeeded", "queued")), order="oldest"))
    assert [job.state for job in several] == ["succeeded", "queued"]
    return [job.id for job in everything]


def figures_are_read(go: Go) -> list[JobId]:
    register(go)
    put(go), put(go, priority=9), put(go, queue="other")
    done, failed = take(go)
    end(go, done, Succeeded())
    end(go, failed, Failed({"error_class": "E"}, retryable=False))
    counts = go(stats.counts(HOUR))
    assert counts.live == {"queued": 1}
    assert counts.ended == {"succeeded": 1, "dead": 1, "cancelled": 0}
    assert [lag.queue for lag in go(stats.lags())] == ["other"]
    [times] = go(stats.durations("queue", HOUR)).items
    assert (times.name, times.jobs, times.run.p99) == (QUEUE, 2, timedelta())
    [failure] = go(stats.failures(20))
    assert (failure.job_id, failure.state, failure.next_at) == (failed.id, "dead", None)
    return [done.id, failed.id]


SCENARIOS: list[Callable[[Go], list[JobId]]] = [
    jobs_are_claimed_in_order_and_succeed,
    any_priority_from_minus_1000_to_1000_has_its_place,
    a_failed_job_is_retried_and_then_buried,
    what_goes_back_unfinished_burns_no_attempt,
    a_stale_lease_is_refused,
    a_worker_extends_its_lease,
    the_jobs_of_a_lost_worker_are_rescued,
    due_jobs_are_promoted,
    waiting_and_running_jobs_are_cancelled,
    jobs_are_found_listed_and_counted,
    figures_are_read,
]
