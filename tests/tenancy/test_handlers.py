"""A handler gets a client of its job's org, and reaches no other through it."""

from __future__ import annotations

from typing import Any

import pytest

from onward import Context, JobNotFound, JobState, NewJob, NotAllowed, Onward
from onward.results import Job

pytestmark = pytest.mark.anyio


async def run_all(app: Onward) -> dict[str, Job]:
    """Run what waits in the queue of the tests; gives all jobs by their type."""
    await app.worker(drain=True, concurrency=2, queues={"q:default": 1}).run()
    jobs = (await app.aclient.jobs.list()).items
    await app.aclose()
    return {job.job_type: job for job in jobs}


def strange(app: Onward) -> str:
    """Enqueue a job of another org where no worker looks for it."""
    return app.client.enqueue(NewJob(job_type="strange", queue="q:elsewhere", org_id="bolt", key="k")).id


async def test_the_client_of_a_handler_sees_the_org_of_its_job_alone(app):
    # A18, S4-50
    theirs = strange(app)
    seen: list[Any] = []

    @app.job
    def looks(ctx: Context, other: str) -> None:
        seen.append(ctx.client.org_id)
        seen.append({job.org_id for job in ctx.client.jobs.list().items})
        with pytest.raises(JobNotFound):
            ctx.client.jobs.cancel(other, reason="not mine")

    @app.job
    async def looks_too(ctx: Context, other: str) -> None:
        seen.append((await ctx.aclient.jobs.get(ctx.job.id)).org_id)
        with pytest.raises(JobNotFound):
            await ctx.aclient.jobs.get(other)
        with pytest.raises(NotAllowed):
            await ctx.aclient.worker.promote()

    looks.using(org_id="acme").enqueue(other=theirs)
    looks_too.using(org_id="acme").enqueue(other=theirs)
    jobs = await run_all(app)
    assert {jobs["looks"].state, jobs["looks_too"].state} == {JobState.SUCCEEDED}
    assert jobs["strange"].state == JobState.QUEUED
    assert sorted(map(str, seen)) == ["acme", "acme", "{'acme'}"]


async def test_a_job_of_no_org_has_the_client_of_the_application(app):
    theirs = strange(app)

    @app.job
    def looks(ctx: Context, other: str) -> str | None:
        assert ctx.client.org_id is None
        return ctx.client.jobs.get(other).org_id

    looks.enqueue(other=theirs)
    assert (await run_all(app))["looks"].result == "bolt"


async def test_without_tenancy_a_handler_has_the_client_of_the_application(tmp_path):
    app = Onward(f"sqlite:///{tmp_path}/onward.db", tenancy="off")

    @app.job
    def looks(ctx: Context) -> bool:
        return ctx.client.org_id is None

    looks.enqueue()
    assert (await run_all(app))["looks"].result is True


@pytest.mark.parametrize("kind", ["sync", "async"])
@pytest.mark.parametrize("fields", [{"org_id": "bolt"}, {"parent_id": "theirs"}], ids=["org", "parent"])
async def test_a_child_for_another_org_or_of_its_job_is_refused_and_not_written(app, kind, fields):
    # S4-50, A18: what a payload says does not count, the job's own org does
    theirs = strange(app)
    child: dict[str, Any] = {name: theirs if value == "theirs" else value for name, value in fields.items()}

    @app.job
    def sync(ctx: Context) -> None:
        with pytest.raises(NotAllowed):
            ctx.enqueue(NewJob(job_type="child", queue="q:elsewhere", **child))

    @app.job
    async def awaited(ctx: Context) -> None:
        with pytest.raises(NotAllowed):
            await ctx.aenqueue(NewJob(job_type="child", queue="q:elsewhere", **child))

    (sync if kind == "sync" else awaited).using(org_id="acme").enqueue()
    jobs = await run_all(app)
    assert "child" not in jobs
    assert jobs["sync" if kind == "sync" else "awaited"].state == JobState.SUCCEEDED


async def test_a_child_may_have_another_parent_of_the_same_org(app):
    parent = app.client.for_org("acme").enqueue(NewJob(job_type="other", queue="q:elsewhere")).id

    @app.job
    def makes(ctx: Context) -> None:
        ctx.enqueue(NewJob(job_type="child", queue="q:elsewhere", parent_id=parent))

    makes.using(org_id="acme").enqueue()
    jobs = await run_all(app)
    assert (jobs["child"].parent_id, jobs["child"].org_id) == (parent, "acme")


async def test_jobs_of_two_orgs_with_one_key_both_run_each_for_its_own(app):
    # S4-25
    ran: list[str | None] = []

    @app.job
    def counts(ctx: Context) -> None:
        ran.append(ctx.client.org_id)

    for org in ("acme", "bolt", "acme"):
        counts.using(org_id=org, key="once", unique="forever").enqueue()
    await run_all(app)
    assert sorted(map(str, ran)) == ["acme", "bolt"]
