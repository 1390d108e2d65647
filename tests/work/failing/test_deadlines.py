"""No job waits beyond its deadline: it is due then, and dies there."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from onward import (
    Category,
    Client,
    Context,
    Failed,
    InvalidJob,
    InvalidSetting,
    NewJob,
    Onward,
    Outcome,
    RateLimited,
    RetryPolicy,
    Snooze,
)
from onward.core.work.lifecycle import Released
from onward.core.work.wait import Parked
from onward.results import Job

NOW = datetime(2026, 1, 2, tzinfo=UTC)
HOUR = timedelta(hours=1)
WAITS: list[Outcome] = [
    RateLimited(after="2h"),
    RateLimited(after="2h", counted=True),
    Snooze("3h"),
    Failed("again", after="300d"),
    Released(2 * HOUR),
    Parked(until=NOW + 9 * HOUR),
    Parked(event="never"),
]


def claimed(client: Client, **fields: Any) -> Job:
    client.enqueue(NewJob(job_type="t", **fields))
    client.worker.register("w", lease=9 * HOUR)
    [job] = client.worker.claim("q:default", worker_id="w")
    return job


@pytest.mark.parametrize("outcome", WAITS, ids=lambda outcome: type(outcome).__name__)
def test_a_wait_ends_at_the_deadline(client, outcome):  # R31, R12
    early = client.at(NOW)
    job = claimed(early, deadline=NOW + HOUR)
    early.worker.finish([job.end_with(outcome)]).require()
    assert client.jobs.get(job.id).run_at == NOW + HOUR
    assert client.at(NOW + HOUR).worker.promote().queues == {"q:default": 1}


@pytest.mark.parametrize("deadline", [None, NOW + 5 * HOUR])
def test_a_wait_before_the_deadline_is_as_long_as_it_was_to_be(client, deadline):  # R31
    early = client.at(NOW)
    job = claimed(early, deadline=deadline)
    early.worker.finish([job.end_with(Snooze(2 * HOUR))]).require()
    assert client.jobs.get(job.id).run_at == NOW + 2 * HOUR


def test_a_job_that_waited_until_its_deadline_dies_there(app):  # R31
    ran = []

    @app.job
    def late() -> None:
        ran.append(1)
        raise RateLimited(after="1h")

    handle = late.using(deadline="1s").enqueue()
    app.tick()
    app.tick(max_seconds=10)
    job = app.client.jobs.get(handle.id)
    assert (job.state, job.error.reason, ran) == ("dead", "deadline_passed", [1])


@pytest.mark.parametrize(
    "times", [{"delay": 2 * HOUR}, {"run_at": NOW + 2 * HOUR}, {"delay": timedelta(days=900)}], ids=str
)
def test_a_start_after_the_deadline_is_refused(client, times):  # R31
    early = client.at(NOW)
    wrong = NewJob(job_type="t", deadline=NOW + HOUR, **times)
    with pytest.raises(InvalidJob, match="after its deadline at 2026-01-02 01:00:00"):
        early.enqueue(wrong)
    with pytest.raises(InvalidJob, match="give an earlier run_at or a shorter delay"):
        early.enqueue_many([NewJob(job_type="t"), wrong])
    assert client.jobs.list().items == []


def test_so_is_one_of_a_job_type(app):  # R31
    @app.job(deadline="1h")
    def work() -> None: ...

    with pytest.raises(InvalidJob, match="after its deadline"):
        work.using(delay="2h").enqueue()
    with pytest.raises(InvalidJob, match="after its deadline"):
        app.enqueue_batch([work.using(run_at=datetime.now(UTC) + 2 * HOUR).build()])
    work.using(delay="30m").enqueue()


@pytest.mark.parametrize("way", ["one", "many", "for_org", "flow", "batch", "callback"])
def test_so_is_one_that_names_only_its_job_type(app, way):  # R31
    @app.job(deadline="1s")
    def work() -> None: ...

    new, client = NewJob(job_type="work", delay=HOUR), app.client
    ways: dict[str, Callable[[], object]] = {
        "one": lambda: client.enqueue(new),
        "many": lambda: client.enqueue_many([NewJob(job_type="t"), new]),
        "for_org": lambda: client.for_org("a").enqueue(new),
        "flow": lambda: client.enqueue_flow(NewJob(job_type="t").then(new)),
        "batch": lambda: client.batches.enqueue([new]),
        "callback": lambda: client.batches.enqueue([NewJob(job_type="t")], on_success=new),
    }
    with pytest.raises(InvalidJob, match="after its deadline"):
        ways[way]()
    assert client.jobs.list().items == []


def test_so_is_one_that_a_handler_enqueues(app):  # R31
    @app.job(deadline="1s")
    def work() -> None: ...

    @app.job
    def tries(ctx: Context) -> None:
        ctx.enqueue(NewJob(job_type="work", delay=HOUR))

    handle = tries.enqueue()
    app.tick()
    assert "after its deadline" in app.client.jobs.get(handle.id).error.message
    assert len(app.client.jobs.list().items) == 1


def test_how_often_a_rate_limit_may_be_waited_for_is_part_of_a_policy():  # R12
    policy = RetryPolicy(kind="fixed", base=HOUR, jitter=False, max_rate_limit_waits=1)
    app = Onward("sqlite://", categories=[Category(name="default", retry=policy)])
    assert app.policies.category("default").retry.max_rate_limit_waits == 1
    with pytest.raises(InvalidSetting, match="max_rate_limit_waits is -1"):
        RetryPolicy(kind="fixed", base=HOUR, max_rate_limit_waits=-1)


def test_a_job_of_such_a_policy_is_dead_sooner(app):  # R12
    @app.job(retry=RetryPolicy(kind="fixed", base=HOUR, jitter=False, max_rate_limit_waits=1))
    def limited() -> None:
        raise RateLimited(after=timedelta(microseconds=1))

    handle = limited.enqueue()
    app.tick()
    app.tick()
    job = app.client.jobs.get(handle.id)
    assert (job.state, job.error.reason, job.waits) == ("dead", "rate_limited_too_often", 1)
