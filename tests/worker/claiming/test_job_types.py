"""Workers of some job types, and jobs of types that a worker does not know."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from msgspec.structs import replace

from onward import InvalidSetting, JobState, NewJob, Onward, Snooze
from onward.core.work.error_record import ErrorRecord
from onward.core.work.lifecycle import Released
from onward.worker.attempts.outcomes import unknown_for
from tests.worker.waiting import drain

TEN = timedelta(minutes=10)


@pytest.fixture
def ran(app: Onward) -> list[str]:
    ran: list[str] = []

    @app.job
    async def mail() -> None:
        ran.append("mail")

    @app.job
    async def report() -> None:
        ran.append("report")

    return ran


def unknown_since(app: Onward, job_type: str, length: timedelta) -> str:
    """Store a job that a worker without its type has met that long ago."""
    client = app.client
    job_id = client.enqueue(NewJob(job_type=job_type)).id
    client.worker.register("old", info={"job_types": ["other"]})
    [held] = client.worker.claim("q:default", worker_id="old")
    since = (datetime.now(UTC) - length).timestamp()
    met = ErrorRecord("UnknownJobType", "met", detail={"since": since, "lease": held.lease})
    client.worker.finish([held.end_with(Released(timedelta(microseconds=1), met))]).require()
    client.worker.retire("old")
    client.worker.promote()
    return job_id


@pytest.mark.anyio
async def test_a_worker_of_some_types_claims_only_their_jobs(app, ran):  # R13, S1-15, S1-19
    for name in ("report", "mail", "report", "mail"):
        await app.aclient.enqueue(NewJob(job_type=name))
    tally = await drain(app, types=["mail"])
    assert (ran, tally.processed, tally.released) == (["mail", "mail"], 2, 0)
    assert app.client.jobs.count().total(JobState.QUEUED) == 2
    await drain(app)
    assert ran == ["mail", "mail", "report", "report"]


@pytest.mark.anyio
@pytest.mark.parametrize("policy", [{"fair": True}, {"ageing": "1m"}, {"concurrency": 5}], ids=str)
async def test_so_it_does_from_a_queue_with_a_policy(app, ran, policy):  # R13, S1-19
    app.queue("q:default", **policy)
    for name in ("report", "mail", "report"):
        await app.aclient.enqueue(NewJob(job_type=name, org_id="acme"))
    await drain(app, types=["mail"])
    assert ran == ["mail"]


@pytest.mark.anyio
async def test_a_worker_says_which_types_it_serves(app, ran):  # R13, S1-15
    async with app.worker(types=["mail"]):
        [seen] = app.client.workers.list()
    assert "mail" in seen.job_types
    assert "report" not in seen.job_types


@pytest.mark.parametrize(
    ("types", "match"),
    [([], "types is"), ("mail", "types is 'mail'; give a list"), (["mial"], "did you mean 'mail'")],
)
def test_types_that_can_not_be_served_are_refused(app, ran, types, match):  # R13
    with pytest.raises(InvalidSetting, match=match):
        app.worker(types=types)


def test_a_claim_may_be_for_some_types(app, ran):  # S1-19
    client = app.client
    client.enqueue(NewJob(job_type="report"))
    wanted = client.enqueue(NewJob(job_type="mail"))
    client.worker.register("w")
    assert client.worker.claim("q:default", 9, worker_id="w", job_types=[]) == []
    assert [job.id for job in client.worker.claim("q:default", 9, worker_id="w", job_types=["mail"])] == [
        wanted.id
    ]


@pytest.mark.anyio
async def test_a_job_that_no_worker_has_known_for_ten_minutes_is_dead(app):  # R13
    job_id = unknown_since(app, "of_yesterday", TEN)
    assert (await drain(app)).dead == 1
    assert app.client.jobs.get(job_id).error.reason == "unknown_job_type"


@pytest.mark.anyio
@pytest.mark.parametrize("lives", [True, False], ids=["lives", "has just ended"])
async def test_a_job_that_a_live_worker_knows_stays_alive(app, lives):  # R13
    job_id = unknown_since(app, "of_tomorrow", TEN)
    app.client.worker.register("new", info={"job_types": ["of_tomorrow"]})
    if not lives:
        app.client.worker.retire("new")
    assert (await drain(app)).released == 1
    job = app.client.jobs.get(job_id)
    assert job.state is JobState.SCHEDULED
    assert unknown_for(replace(job, lease=job.lease + 1)) < timedelta(minutes=1)


@pytest.mark.anyio
async def test_a_run_by_a_worker_that_knows_the_type_starts_the_time_anew(app):  # R13
    job_id = unknown_since(app, "fresh", TEN)
    knows = Onward(app.clients.url, schema=app.clients.schema)

    @knows.job
    async def fresh() -> None:
        raise Snooze(0)

    await drain(knows, max_jobs=1)
    await knows.aclose()
    assert (await drain(app)).released == 1
    assert app.client.jobs.get(job_id).state is JobState.SCHEDULED


@pytest.mark.anyio
@pytest.mark.parametrize("outcome", [Snooze(0), Released(timedelta())], ids=["waits", "is released"])
async def test_so_does_one_by_a_program_of_ones_own(app, outcome):  # R13
    job_id = unknown_since(app, "by_hand", TEN)
    worker = app.client.worker
    worker.register("hand")
    [held] = worker.claim("q:default", worker_id="hand")
    worker.finish([held.end_with(outcome)]).require()
    worker.retire("hand")
    worker.promote()
    assert (await drain(app)).released == 1
    job = app.client.jobs.get(job_id)
    assert job.state is JobState.SCHEDULED
    assert unknown_for(replace(job, lease=job.lease + 1)) < timedelta(minutes=1)


def test_the_time_is_a_setting():  # R13
    assert Onward("sqlite://", unknown_after="1h").policies.settings.unknown_after == timedelta(hours=1)
    with pytest.raises(InvalidSetting, match="unknown_after"):
        Onward("sqlite://", unknown_after=timedelta(-1))
