"""A worker asks who may run, and holds handlers to what their category allows."""

import asyncio
import threading
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from onward import (
    Category,
    Client,
    Context,
    InvalidSetting,
    JobState,
    NewJob,
    NotAllowed,
    Onward,
    RetryPolicy,
    Unrecoverable,
)
from onward.core.policy.category import CATEGORIES, Capability
from onward.results import Job
from tests.policy.contract import contract_process_jobs as process_jobs
from tests.policy.contract.conftest import ORG

pytestmark = pytest.mark.anyio

ONCE = RetryPolicy(kind="fixed", base=timedelta(hours=1), jitter=False, max_attempts=3)


def of_job(origin: dict[str, Any]) -> dict[str, Any]:
    """The same origin as the fields of a NewJob."""
    actor_type, actor_id = origin["actor"].split(":")
    named = {name: value for name, value in origin.items() if name != "actor"}
    return {**named, "actor_type": actor_type, "actor_id": actor_id}


async def run_all(app: Onward) -> dict[str, Job]:
    """Run all that waits; gives the jobs by their type."""
    await app.worker(drain=True, concurrency=2).run()
    jobs = (await app.aclient.jobs.list()).items
    await app.aclose()
    return {job.job_type: job for job in jobs}


@pytest.mark.parametrize("kind", ["sync", "async"])
async def test_the_application_decides_who_may_run(app, kind):  # S4-38, S4-48
    asked: list[tuple[str, bool]] = []
    ran: list[str] = []

    def decide(job: Job) -> bool | None:
        asked.append((job.job_type, threading.current_thread() is threading.main_thread()))
        if job.job_type == "raised":
            raise PermissionError("not the owner")
        return {"refused": False, "allowed": True}.get(job.job_type)

    async def decide_later(job: Job) -> bool | None:
        await asyncio.sleep(0)
        return decide(job)

    app.authorize(decide if kind == "sync" else decide_later)
    for name in ("allowed", "unsaid", "refused", "raised"):
        await app.job(name=name)(lambda name=name: ran.append(name)).aenqueue()
    jobs = await run_all(app)
    assert {name: job.state for name, job in jobs.items()} == {
        "allowed": "succeeded", "unsaid": "succeeded", "refused": "dead", "raised": "dead",
    }  # fmt: skip
    assert sorted(ran) == ["allowed", "unsaid"]
    assert {job.error.reason for job in jobs.values() if job.error} == {"not_authorised"}
    assert jobs["refused"].error.error_class == "NotAuthorised"
    assert (jobs["raised"].error.error_class, jobs["raised"].error.message) == (
        "PermissionError",
        "not the owner",
    )
    assert [job.attempt for job in jobs.values()] == [1] * 4
    # What blocks must not block the loop.
    assert {on_the_loop for _, on_the_loop in asked} == {kind == "async"}


async def test_a_check_that_fails_is_a_failed_attempt_and_asked_again(app):  # S4-40
    answers = iter([ConnectionError("policy server away"), None])

    @app.authorize
    async def decide(job: Job) -> None:
        if (answer := next(answers)) is not None:
            raise answer

    @app.job(retry=RetryPolicy(kind="fixed", base=timedelta(), jitter=False, max_attempts=2))
    async def work() -> None: ...

    await work.aenqueue()
    job = (await run_all(app))["work"]
    assert (job.state, job.attempt) == (JobState.SUCCEEDED, 2)


async def test_a_check_that_hangs_gives_way_to_a_timeout(app):
    @app.authorize
    async def decide(job: Job) -> None:
        await asyncio.Event().wait()

    @app.job(timeout=0.05, max_attempts=1)
    async def work() -> None: ...

    await work.aenqueue()
    job = (await run_all(app))["work"]
    assert (job.state, job.error.error_class) == (JobState.DEAD, "TimeoutError")


def test_one_check_decides(app):
    app.authorize(lambda job: True)
    with pytest.raises(InvalidSetting, match="let it call others"):
        app.authorize(lambda job: True)


async def test_where_orgs_are_required_a_job_without_one_never_runs(make_app):  # S4-49, R14
    before, app = make_app(), make_app(tenancy="required")

    @app.job
    async def work() -> None:
        raise NotImplementedError

    before.client.enqueue(NewJob(job_type="work"))
    job = (await run_all(app))["work"]
    assert (job.state, job.error.reason, job.attempt) == (JobState.DEAD, "org_missing", 1)


async def test_an_audit_enrichment_can_write_nothing_but_audit_and_artifacts(strict, origin):  # S4-11
    refused: list[str] = []
    child = strict.job(name="child")(lambda: None)

    @strict.job(category="audit_enrichment")
    async def enrich(ctx: Context) -> None:
        await ctx.aaudit("seen", by="a machine")
        await ctx.aartifact("seen.txt", text="seen")
        for way in (child.aenqueue, lambda: ctx.aenqueue(NewJob(job_type="child"))):
            with pytest.raises(NotAllowed, match="category audit_enrichment, which may not: enqueue"):
                await way()
            refused.append("enqueue")
        with pytest.raises(NotAllowed, match="may not: domain; it has artifact, audit"):
            ctx.aclient  # noqa: B018 - to ask is to be refused
        await child.aenqueue()

    await enrich.using(**origin).aenqueue()
    jobs = await run_all(strict)
    assert (jobs["enrich"].state, jobs["enrich"].error.reason) == (JobState.DEAD, "not_allowed")
    assert (refused, len(jobs)) == (["enqueue", "enqueue"], 1)


async def test_no_other_client_grants_what_the_category_does_not(make_app, strict, origin):  # R30 S4-11
    other = make_app()
    own = strict.client.enqueue(NewJob(job_type="idle", queue="q:elsewhere", key="idle", **of_job(origin)))
    new = NewJob(job_type="child", org_id=ORG, project_id=origin["project_id"])
    refused: list[str] = []

    def tries(client: Client) -> None:
        for call in (lambda: client.jobs.cancel(own.id, reason="r"), lambda: client.enqueue(new)):
            try:
                call()
            except NotAllowed:
                refused.append("refused")

    @strict.job(category="audit_enrichment")
    def enrich() -> None:
        tries(Client(store=strict.client.store))
        tries(other.client)
        thread = threading.Thread(target=tries, args=(other.client,))
        thread.start()
        thread.join()

    @strict.job(category="audit_enrichment")
    async def enriches() -> None:
        for call in (other.aclient.jobs.cancel(own.id, reason="r"), other.aclient.enqueue(new)):
            with pytest.raises(NotAllowed, match="which may not: "):
                await call
            refused.append("refused")

    await enrich.using(**origin).aenqueue()
    await enriches.using(**origin).aenqueue()
    await strict.worker(drain=True, concurrency=1, queues={"q:default": 1}).run()
    assert len(refused) == 8
    assert {job.job_type: job.state for job in strict.client.jobs.list()} == {
        "idle": "queued", "enrich": "succeeded", "enriches": "succeeded",
    }  # fmt: skip
    await other.aclose()
    await strict.aclose()


async def test_a_plan_succeeds_only_with_an_artifact_and_changes_nothing(strict, origin):  # S4-12, S4-13
    @strict.job(category="planning")
    async def forgets() -> str:
        return "a plan that nobody can review"

    @strict.job(category="planning")
    async def plans(ctx: Context) -> str:
        with pytest.raises(NotAllowed, match="may not: domain"):
            ctx.require("domain")
        await ctx.aartifact("plan.txt", text="do it")
        return "planned"

    for job_type in (forgets, plans):
        await job_type.using(**origin).aenqueue()
    jobs = await run_all(strict)
    assert (jobs["plans"].state, jobs["plans"].result) == (JobState.SUCCEEDED, "planned")
    lost = jobs["forgets"]
    assert (lost.state, lost.error.reason, lost.attempt) == (JobState.DEAD, "artifact_missing", 1)


async def test_a_plan_may_be_carried_out_where_the_policy_says_so(make_app, origin):  # S4-12
    may = frozenset[Capability]({"domain", "artifact"})
    app = make_app(profile="strict", categories=[replace(CATEGORIES["planning"], capabilities=may)])
    found: list[Client] = []

    @app.job(category="planning")
    def assign(ctx: Context) -> None:
        found.append(ctx.client)
        ctx.artifact("plan.txt", text="done")

    await assign.using(**origin).aenqueue()
    assert (await run_all(app))["assign"].state == JobState.SUCCEEDED
    assert found[0].org_id == ORG


async def test_outside_of_the_strict_profile_a_category_restricts_nothing(app):
    child = app.job(name="child")(lambda: None)

    @app.job(category="audit_enrichment")
    async def enrich() -> None:
        await child.aenqueue()

    @app.job(category="planning")
    async def plan() -> None: ...

    for job_type in (enrich, plan):
        await job_type.aenqueue()
    assert {job.state for job in (await run_all(app)).values()} == {JobState.SUCCEEDED}


async def test_rules_hold_in_child_processes(make_app, origin):  # S4-11, S4-13
    app = process_jobs.app
    place = make_app(profile="strict").clients
    app.clients.url, app.clients.schema = place.url, place.schema
    with app.context(**origin):
        parent = await process_jobs.parent.aenqueue()
        await process_jobs.enrich.aenqueue()
        bare = await process_jobs.plan.aenqueue(leave=False)
        await process_jobs.plan.aenqueue(leave=True)
    jobs = await run_all(app)
    assert jobs["child"].state == JobState.SUCCEEDED
    assert (jobs["child"].parent_id, jobs["child"].org_id) == (parent.id, ORG)
    assert (jobs["child"].request_id, jobs["child"].key is None) == ("r-1", False)
    assert (jobs["enrich"].state, jobs["enrich"].error.reason) == (JobState.DEAD, "not_allowed")
    listed = {job.id: job for job in (await app.aclient.jobs.list()).items if job.job_type == "plan"}
    assert listed.pop(bare.id).error.reason == "artifact_missing"
    assert [job.state for job in listed.values()] == [JobState.SUCCEEDED]
    await app.aclose()
    app.close()


@pytest.mark.parametrize(
    "raised",
    [
        pytest.param(Unrecoverable("an invoice can't be reopened"), id="business rule"),  # S4-39
        pytest.param(NotAllowed("not yours"), id="authorisation"),  # S4-38
    ],
)
async def test_what_no_attempt_can_mend_is_not_tried_again(app, raised):
    @app.job
    async def work() -> None:
        raise raised

    await work.aenqueue()
    job = (await run_all(app))["work"]
    assert (job.state, job.attempt) == (JobState.DEAD, 1)


async def test_a_payload_that_does_not_fit_is_not_tried_again(app):  # S4-37
    @app.job
    async def work(n: int) -> None:
        raise NotImplementedError

    @app.job
    async def enqueues_nonsense() -> None:
        await work.aenqueue(n="three")

    # The client of another program does not know the job type.
    Client(store=app.client.store).enqueue(NewJob(job_type="work", payload={"n": "three"}))
    await enqueues_nonsense.aenqueue()
    jobs = await run_all(app)
    assert {name: (job.state, job.attempt, job.error.reason) for name, job in jobs.items()} == {
        "work": ("dead", 1, "invalid_arguments"),
        "enqueues_nonsense": ("dead", 1, "invalid_job"),
    }


async def test_a_type_may_have_a_retry_policy_of_its_own(make_app):  # S4-31
    slow = replace(ONCE, base=timedelta(hours=9), max_attempts=4)
    app = make_app(categories=[Category(name="slow", retry=slow)])

    @app.job(category="slow", retry=ONCE)
    async def own() -> None:
        raise ValueError("no")

    @app.job(category="slow")
    async def by_category() -> None:
        raise ValueError("no")

    @app.job(retry=ONCE, max_attempts=7)
    async def said() -> None:
        raise ValueError("no")

    for job_type in (own, by_category, said):
        await job_type.aenqueue()
    jobs = await run_all(app)
    waits = {name: job.run_at - job.created_at for name, job in jobs.items()}
    assert timedelta(hours=1) <= waits["own"] < timedelta(hours=2)
    assert timedelta(hours=9) <= waits["by_category"] < timedelta(hours=10)
    assert {name: job.max_attempts for name, job in jobs.items()} == {"own": 3, "by_category": 4, "said": 7}


async def test_who_rescues_a_job_uses_the_policy_of_its_type(app):  # R6
    @app.job(retry=replace(ONCE, crash_delay=timedelta(hours=3)))
    async def work() -> None:
        raise NotImplementedError

    client = app.aclient
    handle = await work.aenqueue()
    await client.worker.register("w")
    await client.worker.claim("q:default", worker_id="w")
    await client.worker.rescue_worker("w")
    job = await handle.arefresh()
    assert job.run_at - job.created_at >= timedelta(hours=3)
    await app.aclose()


def test_a_category_is_looked_up_among_the_applications_own(make_app):  # S4-8
    app = make_app()
    app.category(Category(name="billing", queue="q:billing"))
    bill = app.job(category="billing")(_bill)
    assert bill.enqueue().refresh().queue == "q:billing"
    with pytest.raises(InvalidSetting, match="did you mean 'billing'"):
        app.job(category="biling", name="b")(_bill)
    with pytest.raises(InvalidSetting, match="is there already"):
        app.category(Category(name="billing"))
    with pytest.raises(InvalidSetting, match="is no category"):
        app.category("billing")
    with pytest.raises(InvalidSetting, match="retry is 3; give RetryPolicy"):
        app.job(name="c", retry=3)(_bill)


def _bill() -> None:
    raise NotImplementedError
