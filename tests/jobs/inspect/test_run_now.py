"""`jobs.run_now`: a job that waits for its time runs now. And handles of jobs enqueued elsewhere."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from onward import Context, Failed, InvalidJob, JobNotFound, NewJob, Onward, RetryPolicy, Succeeded
from onward.errors import JobNotScheduled
from onward.results import Job
from tests.worker.waiting import drain

pytestmark = pytest.mark.anyio

HOUR = timedelta(hours=1)
LATE_RETRY = RetryPolicy(kind="fixed", base=HOUR, jitter=False, max_attempts=3)


async def test_a_scheduled_job_runs_now(app):
    @app.job
    async def send() -> str:
        return "sent"

    handle = await send.using(delay=HOUR).aenqueue()
    await drain(app)
    assert (await handle.arefresh()).state.value == "scheduled"
    job = app.client.acting_as("user:ada").jobs.run_now(handle.id, reason="the guest waits")
    assert job.run_at <= app.client.jobs.get(handle.id).created_at + timedelta(minutes=1)
    await drain(app)
    assert await handle.aresult() == "sent"
    [event] = [one for one in app.client.audit.list() if one.event == "job.run_now"]
    assert (event.job_id, event.actor_id, event.detail) == (handle.id, "ada", {"reason": "the guest waits"})


async def test_a_retry_runs_now_and_keeps_its_attempts(app):
    attempts: list[int] = []

    @app.job(retry=LATE_RETRY)
    async def flaky(ctx: Context) -> None:
        attempts.append(ctx.job.attempt)
        if len(attempts) == 1:
            raise ConnectionError("away")

    handle = await flaky.aenqueue()
    await drain(app)
    assert (await handle.arefresh()).retrying
    assert (await handle.arun_now(reason="it is back")).retrying
    await drain(app)
    assert attempts == [1, 2]
    assert (await handle.arefresh()).state.value == "succeeded"


async def test_a_running_worker_takes_it_within_a_moment(app):
    @app.job
    async def send() -> None: ...

    handle = await send.using(delay=HOUR).aenqueue()
    async with app.worker():
        await handle.arun_now(reason="r")
        assert (await handle.ajoin("20s")).state.value == "succeeded"


def test_a_job_with_a_limit_keeps_to_it(app):
    @app.job(limit=1)
    def one_by_one() -> None: ...

    handles = [one_by_one.using(delay=HOUR).enqueue() for _ in range(2)]
    for handle in handles:
        handle.run_now(reason="r")
    assert app.tick().succeeded == 2


def running(app: Onward) -> Job:
    app.client.enqueue(NewJob(job_type="t"))
    app.client.worker.register("w")
    [job] = app.client.worker.claim("q:default", 1, worker_id="w")
    return job


def ended(app: Onward) -> Job:
    job = running(app)
    app.client.worker.finish([job.end_with(Succeeded())]).require()
    return job


def dead(app: Onward) -> Job:
    job = running(app)
    app.client.worker.finish([job.end_with(Failed("broken", retryable=False))]).require()
    return job


REFUSED = {
    "ready": (lambda app: app.client.enqueue(NewJob(job_type="t")), "is ready already"),
    "running": (running, "runs already"),
    "ended": (ended, "has ended: it is succeeded"),
    "dead": (dead, "replay it"),
    "blocked": (
        lambda app: app.client.enqueue_flow(NewJob(job_type="a").then(NewJob(job_type="b")))[1],
        "waits for other jobs",
    ),
}  # fmt: skip


@pytest.mark.parametrize("state", REFUSED)
def test_a_job_in_another_state_is_refused_and_nothing_is_written(app, state):
    made, message = REFUSED[state]
    job_id = made(app).id
    before = app.client.jobs.get(job_id)
    with pytest.raises(JobNotScheduled, match=message):
        app.client.jobs.run_now(job_id, reason="r")
    assert app.client.jobs.get(job_id) == before
    assert not any(one.event == "job.run_now" for one in app.client.audit.list())


async def test_a_job_that_waits_for_a_signal_is_refused(app):
    @app.job
    async def wait(ctx: Context) -> Any:
        return await ctx.await_for("paid", key="1")

    handle = await wait.aenqueue()
    await drain(app)
    assert (await handle.arefresh()).state.value == "scheduled"
    with pytest.raises(JobNotScheduled, match="waits for a signal"):
        app.client.jobs.run_now(handle.id, reason="r")


def test_an_unknown_job_and_a_missing_reason_are_refused(app):
    with pytest.raises(JobNotFound):
        app.client.jobs.run_now("00000000-0000-7000-8000-000000000000", reason="r")
    with pytest.raises(InvalidJob, match="reason"):
        app.client.jobs.run_now("00000000-0000-7000-8000-000000000000", reason="")


def test_any_process_has_a_handle_of_a_job_by_its_id(app):
    @app.job
    def double(number: int) -> int:
        return 2 * number

    made = double.enqueue(4)
    elsewhere = Onward(app.clients.url, schema=app.clients.schema)
    handle = elsewhere.handle(made.id)
    assert (handle.id, handle.state, handle.created) == (made.id, None, False)
    assert handle.refresh().state.value == handle.state == "queued"
    app.tick()
    assert handle.result("20s") == double.handle(made.id).result() == 8
    with pytest.raises(InvalidJob, match="id"):
        elsewhere.handle("42")
    elsewhere.close()


def test_a_flow_in_my_transaction_returns_handles(app):
    @app.job
    def first() -> int:
        return 1

    @app.job
    def second() -> int:
        return 2

    connection = app.client.store.connect()
    connection.execute("BEGIN")
    flow = app.enqueue_flow(first.build().then(second.build()), tx=connection)
    assert flow.refresh() == []
    connection.execute("COMMIT")
    connection.close()
    flow.refresh()
    assert [one.state.value for one in flow] == ["queued", "blocked"]
    app.tick()
    assert flow.result("20s") == [1, 2]
