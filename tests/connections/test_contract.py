"""One contract for every kind of connection: the caller's transaction decides, and nothing else differs."""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from onward.connections import parameters, require_tables, run
from onward.core.filters import JobFilter
from onward.core.ids import IdMaker, JobId
from onward.core.job import Enqueued, Job, JobState, NewJob
from onward.core.lifecycle import (
    Cancelled,
    End,
    Failed,
    Outcome,
    RateLimited,
    Released,
    Skipped,
    Snoozed,
    Succeeded,
)
from onward.errors import DuplicateJob, OnwardError, PayloadRejected, PayloadTooLarge, WorkerLost
from onward.operations import control, enqueue, inspect, rescue, work
from onward.operations.statement import Row, Statement
from onward.stores.postgres import PostgresStore
from onward.stores.postgres_async import AsyncPostgresStore
from onward.stores.sqlite import AsyncSqliteStore, SqliteStore
from tests.connections.kinds import KINDS, Address, Caller, Kind, open_caller

Go = Callable[[Any], Any]

LEASE = timedelta(seconds=30)
HOUR = timedelta(hours=1)
QUEUE = "q:default"
NOW = datetime.now(UTC).replace(microsecond=123_456)

ids = IdMaker(time.time_ns, os.urandom)


def put(go: Go, job_type: str = "mail", **fields: Any) -> Enqueued:
    enqueued: Enqueued = go(enqueue.enqueue(NewJob(job_type=job_type, **fields), ids.make(), now=NOW))
    return enqueued


def take(go: Go, worker: str = "w", *, now: datetime = NOW, limit: int = 10) -> list[Job]:
    jobs: list[Job] = go(work.claim(QUEUE, limit, worker_id=worker, now=now))
    return jobs


def end(go: Go, job: Job, outcome: Outcome, *, now: datetime = NOW) -> work.Leases:
    leases: work.Leases = go(work.finish([End.of(job, outcome, rescue.policy_of(job), 0.5)], now=now))
    return leases


def look(go: Go, job_id: JobId) -> Job:
    job: Job = go(inspect.get_many([job_id]))[job_id]
    return job


def events(go: Go, job_id: JobId) -> list[str]:
    return [event.event for event in go(inspect.events_of(job_id))]


def register(go: Go, worker: str = "w") -> None:
    go(work.register(worker, lease=LEASE, info={"host": "é"}, now=NOW))


# Scenarios: each runs in the caller's transaction and gives the ids of jobs to be found after a commit.


def a_key_is_held_within_its_org(go: Go) -> list[JobId]:
    first = put(go, key="k", org_id="o")
    again = put(go, key="k", org_id="o", payload={"ignored": True})
    other_org, no_org, no_key = put(go, key="k", org_id="o2"), put(go, key="k"), put(go)
    assert (first.created, first.state) == (True, JobState.QUEUED)
    assert again == Enqueued(first.id, JobState.QUEUED, created=False)
    assert (other_org.created, no_org.created, no_key.created) == (True, True, True)
    with pytest.raises(DuplicateJob, match=first.id):
        put(go, key="k", org_id="o", on_conflict="raise")
    return [first.id, other_org.id, no_org.id, no_key.id]


def a_key_is_free_again_when_its_job_has_ended(go: Go) -> list[JobId]:
    register(go)
    first, lasting = put(go, key="k", unique="active"), put(go, key="f", unique="forever")
    for job in take(go):
        end(go, job, Succeeded())
    second = put(go, key="k")
    assert (second.created, second.id == first.id) == (True, False)
    assert put(go, key="f") == Enqueued(lasting.id, JobState.SUCCEEDED, created=False)
    return [first.id, lasting.id, second.id]


def many_jobs_go_in_at_once(go: Go) -> list[JobId]:
    held = put(go, key="held")
    new = [
        NewJob(job_type="a", key="x"),
        NewJob(job_type="b", key="x"),
        NewJob(job_type="c", key="held"),
        NewJob(job_type="d", delay=HOUR),
        NewJob(job_type="e", run_at=NOW + HOUR, key="later"),
        NewJob(job_type="f", run_at=NOW - HOUR),
    ]
    asked = ids.make_many(len(new))
    a, b, c, d, e, f = go(enqueue.enqueue_many(new, asked, now=NOW))
    assert (a, b) == (Enqueued(asked[0], JobState.QUEUED, True), Enqueued(asked[0], JobState.QUEUED, False))
    assert c == Enqueued(held.id, JobState.QUEUED, created=False)
    assert [x.state for x in (d, e, f)] == [JobState.SCHEDULED, JobState.SCHEDULED, JobState.QUEUED]
    assert look(go, d.id).run_at == look(go, e.id).run_at == NOW + HOUR
    plain = go(enqueue.enqueue_many([NewJob(job_type="g")] * 3, ids.make_many(3)))
    assert go(enqueue.enqueue_many([], [])) == []
    return [held.id, a.id, d.id, e.id, f.id, *(job.id for job in plain)]


def a_job_comes_back_equal(go: Go) -> list[JobId]:
    payload = {
        "é \"quoted\" \\ 'single' %s %(x)s :name ?1 $1 🦊\u2028": [
            1,
            -(2**63),
            2**64 - 1,
            0.1,
            1e300,
            True,
            None,
        ],
        "nested": {"": {"deep": [[], {}, "\t\n", "\u00e9e\u0301"]}},
    }
    texts = {
        name: f"{name}: é '%s' 🦊"
        for name in (
            "org_id",
            "project_id",
            "actor_type",
            "actor_id",
            "request_id",
            "correlation_id",
            "subject",
        )
    }
    parent, batch = ids.make_many(2)
    put_in = put(
        go, "é%s", payload=payload, category="default", queue="q:é", priority=1, max_attempts=3, key="🦊",
        tags=["é", "'"], parent_id=parent, batch_id=batch, deadline=NOW + HOUR, timeout=LEASE, **texts,
    )  # fmt: skip
    job = look(go, put_in.id)
    assert job.payload == payload
    assert {name: getattr(job, name) for name in texts} == texts
    assert (job.job_type, job.queue, job.priority, job.max_attempts, job.key) == ("é%s", "q:é", 1, 3, "🦊")
    assert (job.tags, job.parent_id, job.batch_id) == (["é", "'"], parent, batch)
    assert (job.deadline, job.timeout_micros, job.run_at, job.created_at) == (
        NOW + HOUR,
        30_000_000,
        NOW,
        NOW,
    )
    assert (job.rerun_requested, job.attempt, job.lease) == (False, 0, 0)
    return [job.id]


def the_database_tells_the_time(go: Go) -> list[JobId]:
    enqueued: Enqueued = go(enqueue.enqueue(NewJob(job_type="mail"), ids.make()))
    assert abs(look(go, enqueued.id).created_at - datetime.now(UTC)) < timedelta(minutes=1)
    return [enqueued.id]


def jobs_are_claimed_in_order_and_succeed(go: Go) -> list[JobId]:
    register(go)
    low, old, urgent = put(go, priority=9), put(go), put(go, priority=1)
    jobs = take(go, limit=2)
    assert [job.id for job in jobs] == [urgent.id, old.id]
    assert {(job.state, job.attempt, job.lease, job.worker_id) for job in jobs} == {("running", 1, 1, "w")}
    assert end(go, jobs[0], Succeeded({"sent": "é"})).held == {urgent.id}
    assert end(go, jobs[1], Skipped("nothing to do")).held == {old.id}
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


def a_failed_job_is_retried_and_then_buried(go: Go) -> list[JobId]:
    register(go)
    job_id = put(go).id
    end(go, take(go)[0], Failed({"message": "boom"}, after=timedelta(seconds=5)))
    waiting = look(go, job_id)
    assert waiting.retrying
    assert (waiting.run_at, waiting.error) == (NOW + timedelta(seconds=5), {"message": "boom"})
    assert go(rescue.promote(now=NOW + timedelta(seconds=4))).next_due == NOW + timedelta(seconds=5)
    assert go(rescue.promote(now=NOW + timedelta(seconds=5))) == rescue.Promoted({QUEUE: 1}, None)
    [job] = take(go, now=NOW + timedelta(seconds=6))
    assert (job.attempt, job.lease) == (2, 3)
    end(go, job, Failed({"message": "é"}, retryable=False))
    dead = look(go, job_id)
    assert (dead.state, dead.error) == ("dead", {"reason": "unrecoverable", "message": "é"})
    [past] = go(inspect.attempts_of(job_id))
    assert (past.attempt, past.lease, past.worker_id, past.outcome) == (1, 1, "w", "failed")
    assert (past.started_at, past.ended_at, past.error) == (NOW, NOW, {"message": "boom"})
    assert events(go, job_id) == [
        "job.enqueued", "job.started", "job.failed", "job.started", "job.deadlettered",
    ]  # fmt: skip
    return [job_id]


def what_goes_back_unfinished_burns_no_attempt(go: Go) -> list[JobId]:
    register(go)
    put(go), put(go), put(go)
    released, snoozed, limited = take(go)
    policy = rescue.policy_of(released)
    leases = go(
        work.finish(
            [
                End.of(released, Released(), policy),
                End.of(snoozed, Snoozed(HOUR), policy),
                End.of(limited, RateLimited(HOUR, {"status": 429}), policy),
            ],
            now=NOW,
        )
    )
    assert leases == work.Leases(frozenset({released.id, snoozed.id, limited.id}), frozenset())
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
        assert end(go, stale, outcome) == work.Leases(frozenset(), frozenset({stale.id}))
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
    go(control.cancel([kept.id], reason="enough", now=NOW))
    leases = go(work.extend("w", {kept.id: kept.lease, lost.id: lost.lease}, lease=LEASE, idle=True, now=NOW))
    assert leases == work.Leases(frozenset({kept.id}), frozenset({lost.id}), frozenset({kept.id}))
    assert go(work.extend("w", {}, lease=LEASE, now=NOW)) == work.Leases(frozenset(), frozenset())
    with pytest.raises(WorkerLost):
        go(work.extend("nobody", {}, lease=LEASE))
    with pytest.raises(WorkerLost):
        go(work.claim(QUEUE, 1, worker_id="nobody"))
    return [kept.id, lost.id]


def the_jobs_of_a_lost_worker_are_rescued(go: Go) -> list[JobId]:
    register(go)
    register(go, "alive")
    put(go), put(go, priority=6, max_attempts=1), put(go, priority=7)
    first, last = take(go, limit=2)
    [safe] = take(go, "alive")
    go(work.extend("alive", {}, lease=HOUR, now=NOW))
    assert go(rescue.rescue(now=NOW)).held == frozenset()
    later = NOW + LEASE
    assert go(rescue.rescue(now=later)).held == {first.id, last.id}
    assert (look(go, first.id).crashes, look(go, last.id).state) == (1, "dead")
    assert look(go, safe.id) == safe
    with pytest.raises(WorkerLost):
        go(work.extend("w", {}, lease=LEASE, now=later))
    assert [go(work.retire(worker, now=later)) for worker in ("alive", "nobody")] == [True, False]
    assert go(rescue.rescue(now=later)).held == {safe.id}
    return [first.id, last.id, safe.id]


def due_jobs_are_promoted(go: Go) -> list[JobId]:
    due, later, other = put(go, delay=LEASE), put(go, delay=HOUR), put(go, delay=LEASE, queue="other")
    assert go(rescue.promote(now=NOW)) == rescue.Promoted({}, NOW + LEASE)
    assert go(rescue.promote(now=NOW + LEASE)) == rescue.Promoted({QUEUE: 1, "other": 1}, NOW + HOUR)
    assert [look(go, job.id).state for job in (due, later, other)] == ["queued", "scheduled", "queued"]
    return [due.id, later.id, other.id]


def waiting_and_running_jobs_are_cancelled(go: Go) -> list[JobId]:
    register(go)
    put(go), put(go)
    yields, resists = take(go)
    waiting, unknown = put(go, delay=HOUR).id, ids.make()
    asked = [yields.id, resists.id, waiting, unknown]
    states = go(control.cancel(asked, reason="é", actor_type="user", actor_id="u", now=NOW))
    assert states == {yields.id: "running", resists.id: "running", waiting: "cancelled"}
    assert end(go, yields, Cancelled("asked")).held == {yields.id}
    assert end(go, resists, Failed({"message": "boom"})).cancel_requested == {resists.id}
    assert [look(go, job_id).state for job_id in asked[:3]] == ["cancelled"] * 3
    assert set(go(control.cancel(asked, reason="again")).values()) == {JobState.CANCELLED}
    requested = go(inspect.events_of(yields.id))[2]
    assert (requested.event, requested.actor_id, requested.detail) == (
        "job.cancel_requested",
        "u",
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
    everything = go(inspect.list_jobs(JobFilter(), limit=4)).jobs
    assert [job.id for job in everything] == sorted((job.id for job in everything), reverse=True)
    pages = [page := go(inspect.list_jobs(JobFilter(), limit=3))]
    pages.append(go(inspect.list_jobs(JobFilter(), limit=3, cursor=page.next_cursor)))
    assert [job for page in pages for job in page.jobs] == everything
    assert pages[1].next_cursor is None

    def listed(*, now: datetime = NOW, **narrow: Any) -> set[JobId]:
        return {job.id for job in go(inspect.list_jobs(JobFilter(**narrow), now=now)).jobs}

    assert listed(state=JobState.SUCCEEDED) == listed(job_type="mail", org_id="o") == {done.id}
    assert listed(subject="s") == listed(state=JobState.RUNNING) == {stuck.id}
    assert listed(state="stuck") == set()
    assert listed(state="stuck", now=NOW + LEASE) == {stuck.id}
    assert listed(created_before=NOW - HOUR) == set()
    assert len(listed(created_from=NOW - HOUR)) == 4
    counts = go(inspect.count())
    assert counts.live == {QUEUE: {"running": 1, "scheduled": 1}, "other": {"queued": 1}}
    assert counts.ended == {"succeeded": 1, "dead": 0, "cancelled": 0}
    assert go(inspect.count("o")).total(JobState.RUNNING) == 1
    assert go(inspect.get_many([])) == go(inspect.get_many([ids.make()])) == {}
    return [job.id for job in everything]


SCENARIOS = [
    a_key_is_held_within_its_org,
    a_key_is_free_again_when_its_job_has_ended,
    many_jobs_go_in_at_once,
    a_job_comes_back_equal,
    the_database_tells_the_time,
    jobs_are_claimed_in_order_and_succeed,
    a_failed_job_is_retried_and_then_buried,
    what_goes_back_unfinished_burns_no_attempt,
    a_stale_lease_is_refused,
    a_worker_extends_its_lease,
    the_jobs_of_a_lost_worker_are_rescued,
    due_jobs_are_promoted,
    waiting_and_running_jobs_are_cancelled,
    jobs_are_found_listed_and_counted,
]


@pytest.fixture(params=KINDS, ids=lambda kind: kind.name)
def caller(request, address):
    kind: Kind = request.param
    with open_caller(kind, address) as caller:
        yield caller


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
def test_the_callers_transaction_decides(caller: Caller, scenario, observer):
    database = caller.kind.database
    caller.begin()
    scenario(caller.go)
    caller.rollback()
    assert observer.rows(database) == {}

    caller.begin()
    job_ids = scenario(caller.go)
    seen = caller.go(inspect.get_many(job_ids))
    assert observer.rows(database) == {}
    caller.commit()

    def outside(operation):
        return run(operation, observer.connection(database))

    assert outside(inspect.get_many(job_ids)) == seen
    assert seen.keys() == set(job_ids)
    assert all(outside(inspect.events_of(job_id))[0].event == "job.enqueued" for job_id in job_ids)


STORES: list[Callable[[Address], Any]] = [
    lambda address: SqliteStore(address.path),
    lambda address: AsyncSqliteStore(address.path),
    lambda address: PostgresStore(address.url),
    lambda address: AsyncPostgresStore(address.url),
]


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
@pytest.mark.parametrize("open_store", STORES, ids=["sqlite", "sqlite-async", "postgres", "postgres-async"])
def test_a_store_keeps_the_same_contract(open_store, scenario, address, observer):
    with asyncio.Runner() as runner:

        def settled(result):
            return runner.run(result) if asyncio.iscoroutine(result) else result

        store = open_store(address)
        try:
            job_ids = scenario(lambda operation: settled(store.run(lambda: operation)))
        finally:
            settled(store.close())
    found = run(inspect.get_many(job_ids), observer.connection(store.database))
    assert found.keys() == set(job_ids)


class Counting:
    """Counts the statements that reach a connection."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner
        self.statements = 0

    def fetch(self, statement: Statement) -> Sequence[Row]:
        self.statements += 1
        rows: Sequence[Row] = self.inner.fetch(statement)
        return rows


class Plain:
    """Not JSON."""


HOSTILE = {
    "NaN": float("nan"),
    "infinity": [float("-inf")],
    "NUL": "a\0b",
    "NUL in a key": {"\0": 1},
    "a lone surrogate": "\ud800",
    "too large a number": 2**70,
    "bytes": b"x",
    "an object": Plain(),
    "too deep": json.loads("[" * 100 + "]" * 100),
}


def test_a_hostile_payload_is_refused_before_any_sql(caller: Caller, observer):
    caller.begin()
    counting = caller.adapted = Counting(caller.adapted)
    for name, value in HOSTILE.items():
        for key in (None, "k"):
            with pytest.raises(PayloadRejected):
                put(caller.go, payload={name: [value]}, key=key)
    with pytest.raises(PayloadTooLarge):
        put(caller.go, payload={"large": "x" * 10_000_000})
    good = [NewJob(job_type="good", payload={"n": n}) for n in range(3)]
    with pytest.raises(PayloadRejected):
        caller.go(
            enqueue.enqueue_many([*good, NewJob(job_type="bad", payload={"x": b"x"})], ids.make_many(4))
        )
    assert counting.statements == 0
    put(caller.go, "good")
    caller.commit()
    assert observer.rows(caller.kind.database) == {"live": 1, "audit": 1}


def test_a_database_error_reaches_the_caller_as_it_is(caller: Caller, observer):
    caller.begin()
    job_id = put(caller.go).id
    with pytest.raises(Exception, match=r"(?i)unique|duplicate") as caught:
        caller.go(enqueue.enqueue(NewJob(job_type="mail"), job_id))
    assert not isinstance(caught.value, OnwardError)
    caller.rollback()
    assert observer.rows(caller.kind.database) == {}


def test_the_tables_are_asked_for_once(caller: Caller, observer):
    caller.begin()
    caller.go(require_tables(caller.adapted))
    if caller.adapted.identity is not None:
        assert list(require_tables(caller.adapted)) == []
    caller.rollback()


def test_numbered_marks_are_spelt_out_where_python_takes_them_for_names(address, observer, monkeypatch):
    monkeypatch.setattr(parameters, "_MISTAKES_NUMBERS_FOR_NAMES", True)
    with open_caller(KINDS[0], address) as caller:
        for scenario in SCENARIOS:
            caller.begin()
            scenario(caller.go)
            caller.rollback()
    assert observer.rows("sqlite") == {}
