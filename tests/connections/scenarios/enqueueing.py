"""How jobs come in: keys, many at once, and every field as it was given."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest

from onward.core.flows.batch import NewBatch
from onward.core.jobs.ids import JobId
from onward.core.jobs.job import Enqueued, JobState, NewJob
from onward.core.work.lifecycle import Succeeded
from onward.errors import DuplicateJob
from onward.operations.flows import batch_create
from onward.operations.jobs import enqueue
from tests.connections.scenarios.steps import HOUR, LEASE, NOW, Go, end, ids, look, put, register, take

__all__ = ["SCENARIOS"]


def a_key_is_held_within_its_org(go: Go) -> list[JobId]:  # S2-4, S2-25
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


def many_jobs_go_in_at_once(go: Go) -> list[JobId]:  # S2-27
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
    a, b, c, d, e, f = go(enqueue.enqueue_many(new, asked))
    assert (a, b) == (Enqueued(asked[0], JobState.QUEUED, True), Enqueued(asked[0], JobState.QUEUED, False))
    assert c == Enqueued(held.id, JobState.QUEUED, created=False)
    assert [x.state for x in (d, e, f)] == [JobState.SCHEDULED, JobState.SCHEDULED, JobState.QUEUED]
    assert look(go, d.id).run_at == look(go, e.id).run_at == NOW + HOUR
    plain = go(enqueue.enqueue_many([NewJob(job_type="g")] * 3, ids.make_many(3)))
    assert go(enqueue.enqueue_many([], [])) == []
    return [held.id, a.id, d.id, e.id, f.id, *(job.id for job in plain)]


def a_job_comes_back_equal(go: Go) -> list[JobId]:
    # S0-8, S0-10, S0-12, S0-14, S1-6, S1-14, S1-34, S2-3, S2-7, S2-10, S2-27, S3-2
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
    origin = NewJob(job_type="batch", org_id=texts["org_id"])
    go(batch_create.open_batch(NewBatch(id=batch, origin=origin)))
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
    enqueued: Enqueued = go(enqueue.enqueue(NewJob(job_type="mail"), ids.make()), at=None)
    assert abs(look(go, enqueued.id).created_at - datetime.now(UTC)) < timedelta(minutes=1)
    return [enqueued.id]


SCENARIOS: list[Callable[[Go], list[JobId]]] = [
    a_key_is_held_within_its_org,
    a_key_is_free_again_when_its_job_has_ended,
    many_jobs_go_in_at_once,
    a_job_comes_back_equal,
    the_database_tells_the_time,
]
