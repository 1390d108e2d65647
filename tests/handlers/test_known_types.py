"""A client of an application fills in jobs of types that the application knows, and checks their payloads."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from onward import Category, Client, InvalidJob, Limit, NewJob, Onward
from onward.errors import InvalidArguments
from onward.results import Job
from tests.jobs.keys.test_held_keys import open_transaction
from tests.policy.contract.conftest import make_app

__all__ = ["make_app"]

AT = datetime(2030, 1, 1, 9, tzinfo=UTC)


@pytest.fixture
def app(make_app: Any) -> Onward:
    app: Onward = make_app(categories=[Category(name="slow", queue="q:slow")])

    @app.job(
        category="slow", priority=2, timeout="30s", max_attempts=9, deadline="1d", key="report_{day}",
        unique="7d", on_conflict="replace", limit=Limit(3),
    )  # fmt: skip
    def report(day: str, pages: int = 1) -> None:
        raise NotImplementedError

    @app.job(debounce="1h")
    def refresh(n: int = 0) -> None:
        raise NotImplementedError

    return app


def fields(job: Job) -> dict[str, Any]:
    names = (
        "category", "queue", "priority", "max_attempts", "timeout_micros", "key", "payload", "state",
    )  # fmt: skip
    return {name: getattr(job, name) for name in names} | {"has deadline": job.deadline is not None}


def test_a_client_fills_in_what_a_job_type_declares(app):  # S4-21
    made = app.jobs["report"].enqueue("monday").refresh()
    app.client.keys.forget("report_monday", reason="a test")
    own = app.client.jobs.get(app.client.enqueue(NewJob(job_type="report", payload={"day": "monday"})).id)
    assert fields(own) == fields(made)
    assert (own.queue, own.priority, own.timeout_micros, own.key) == (
        "q:slow",
        2,
        30_000_000,
        "report_monday",
    )


def test_what_a_job_says_itself_is_kept(app):
    new = NewJob(
        job_type="report", payload={"day": "monday"}, queue="q:own", priority=5, category="default",
        key="own", max_attempts=1, timeout=timedelta(seconds=1), deadline=AT, unique="active",
        on_conflict="return",
    )  # fmt: skip
    job = app.client.jobs.get(app.client.enqueue(new).id)
    assert (job.queue, job.priority, job.category, job.key, job.max_attempts, job.timeout_micros) == (
        "q:own", 5, "default", "own", 1, 1_000_000,
    )  # fmt: skip
    assert job.deadline == AT


def test_every_way_to_enqueue_fills_in_alike(app, tmp_path):
    def new(day: str) -> NewJob:
        return NewJob(job_type="report", payload={"day": day})

    client = app.client
    ids = [
        client.for_org("acme").enqueue(new("a")).id,
        *[one.id for one in client.enqueue_many([new("b"), new("c")])],
        *[one.id for one in client.enqueue_flow(new("d").then(new("e")))],
    ]
    client.batches.enqueue([new("f")], name="six")
    ids += [job.id for job in client.jobs.list().items if job.payload == {"day": "f"}]
    jobs = [client.jobs.get(job_id) for job_id in ids]
    assert [job.key for job in jobs] == [f"report_{day}" for day in "abcdef"]
    assert {(job.queue, job.priority) for job in jobs} == {("q:slow", 2)}
    assert jobs[0].org_id == "acme"


def test_a_job_in_a_callers_transaction_is_filled_in_and_a_refused_one_leaves_it_usable(app):  # S4-10
    app.client.migrate()
    with open_transaction(app.client) as tx:
        tx.execute("BEGIN")
        with pytest.raises(InvalidArguments, match='needs the argument "day"'):
            app.within(tx).enqueue(NewJob(job_type="report"))
        enqueued = app.within(tx).enqueue(NewJob(job_type="report", payload={"day": "monday"}))
        tx.commit()
    job = app.client.jobs.get(enqueued.id)
    assert (job.queue, job.priority, job.key) == ("q:slow", 2, "report_monday")


def test_a_payload_that_does_not_fit_is_refused_before_anything_is_stored(app):  # S4-10
    for payload, why in (
        ({"day": 3}, 'argument "day": expected str, got int'),
        ({}, 'needs the argument "day"'),
        ({"dya": "x"}, 'no argument "dya". Did you mean "day"'),
    ):
        with pytest.raises(InvalidArguments, match=why):
            app.client.enqueue(NewJob(job_type="report", payload=payload))
    fine = NewJob(job_type="report", payload={"day": "monday"})
    with pytest.raises(InvalidArguments, match=r"jobs\[1\]: report\(\) needs"):
        app.client.enqueue_many([fine, NewJob(job_type="report")])
    with pytest.raises(InvalidJob, match="payload is a list"):
        app.client.enqueue(NewJob(job_type="report", payload=[1]))  # type: ignore[arg-type]
    assert app.client.jobs.list().items == []


def test_a_burst_of_a_job_type_holds_for_its_jobs_too(app):
    first, again = (app.client.enqueue(NewJob(job_type="refresh", payload={"n": n})) for n in (1, 2))
    assert (again.id, again.change) == (first.id, "debounced")


def test_a_schedule_of_a_job_fills_in_what_its_type_declares(app):
    app.client.schedules.add("named", "report", payload={"day": "x"}, every="1h")
    app.client.schedules.add("made", NewJob(job_type="report", payload={"day": "x"}), every="1h")
    app.schedule("typed", app.jobs["report"], payload={"day": "x"}, every="1h")
    assert len({app.client.schedules.get(name).job for name in ("named", "made", "typed")}) == 1
    job = app.client.jobs.get(app.client.schedules.run_now("made").id)
    assert (job.queue, job.priority, job.max_attempts, job.deadline is None) == ("q:slow", 2, 9, False)
    with pytest.raises(InvalidArguments, match='needs the argument "day"'):
        app.client.schedules.add("wrong", "report", every="1h")


def test_a_client_without_an_application_knows_no_types(app):
    bare = Client(store=app.client.store)
    job = bare.jobs.get(bare.enqueue(NewJob(job_type="report", payload={"any": "thing"})).id)
    assert (job.queue, job.category, job.priority, job.key) == ("q:default", "default", 5, None)


@pytest.mark.anyio
async def test_an_async_client_fills_in_alike(app):
    enqueued = await app.aclient.enqueue(NewJob(job_type="report", payload={"day": "monday"}))
    job = await app.aclient.jobs.get(enqueued.id)
    await app.aclose()
    assert (job.queue, job.priority, job.key) == ("q:slow", 2, "report_monday")
