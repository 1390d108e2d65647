"""What is enqueued inherits where it comes from: from `app.context()`, or from the job that enqueues it."""

import asyncio
import threading

import pytest

from onward import AuditFilter, Context, InvalidJob, JobNotFound, NewJob, NotAllowed, Onward
from onward.errors import ContractBroken
from onward.origin import AMBIENT

TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
ALL = {
    "org_id": "o", "project_id": "p", "actor": "user:42", "request_id": "r", "correlation_id": "c",
    "traceparent": TRACE,
}  # fmt: skip
NAMES = (
    "org_id", "project_id", "actor_type", "actor_id", "request_id", "correlation_id", "traceparent",
)  # fmt: skip
ORGS = ["a", None, "b", None]
INHERITED = ("o", "p", "user", "42", "r", "c", TRACE)


def origin(job) -> tuple[str | None, ...]:
    return tuple(getattr(job, name) for name in NAMES)


def work() -> None:
    raise NotImplementedError


def test_a_context_fills_what_is_unset_by_every_sync_way(app):  # S4-21
    job_type = app.job(work)
    new = NewJob(job_type="t")
    with app.context(**ALL):
        built = job_type.build()
        handles = [job_type.enqueue(), *app.enqueue_many([new])]
        stored = [app.client.jobs.get(handle.id) for handle in (*handles, app.client.enqueue(new))]
    assert [origin(job) for job in (built, *stored)] == [INHERITED] * 4
    assert origin(app.client.jobs.get(job_type.enqueue().id)) == (None,) * 7
    # What was built within remembers it.
    assert origin(app.client.jobs.get(app.client.enqueue(built).id)) == INHERITED


@pytest.mark.anyio
async def test_a_context_fills_what_is_unset_by_every_async_way(app):
    job_type = app.job(work)
    with app.context(**ALL):
        handles = [await job_type.aenqueue(), *await app.aenqueue_many([NewJob(job_type="t")])]
        handles.append(await asyncio.create_task(job_type.aenqueue()))
    assert [origin(await handle.arefresh()) for handle in handles] == [INHERITED] * 3
    await app.aclose()


def test_what_an_enqueue_says_wins_and_an_actor_is_one_thing(app):
    job_type = app.job(work)
    with app.context(**ALL):
        handle = job_type.using(org_id="x", actor="api_key:k", request_id="s").enqueue()
        with pytest.raises(JobNotFound):
            handle.refresh()
    job = handle.refresh()
    assert origin(job) == ("x", "p", "api_key", "k", "s", "c", TRACE)


def test_contexts_merge_and_end(app):
    job_type = app.job(work)
    with app.context(org_id="o", request_id="r"):
        with app.context(actor="user:1", request_id="s"):
            assert origin(job_type.build()) == ("o", None, "user", "1", "s", None, None)
        with pytest.raises(ZeroDivisionError), app.context(project_id="p"):
            raise ZeroDivisionError
        assert origin(job_type.build()) == ("o", None, None, None, "r", None, None)
    assert AMBIENT.get() is None


def test_a_wrong_field_of_a_context_is_refused_at_once(app):
    for wrong in ({"org_id": ""}, {"actor": "ada"}, {"traceparent": "00-1"}):
        with pytest.raises(InvalidJob):
            app.context(**wrong)


def test_a_context_is_held_to_the_rules_of_its_application(make_app):  # S4-21
    app = make_app(profile="strict")
    for wrong in ({"org_id": "acme"}, {"project_id": "p"}, {"actor": "cron:nightly"}):
        with pytest.raises(ContractBroken):
            app.context(**wrong)


def test_threads_that_enqueue_together_keep_their_own_context(app):
    """Who shares a statement with others must not lend them his org."""
    job_type = app.job(work)
    app.client.migrate()
    start = threading.Barrier(8)
    found: dict[int, set[str | None]] = {}

    def enqueue(n: int) -> None:
        start.wait()
        with app.context(org_id=ORGS[n % 4]):
            handles = [job_type.enqueue() for _ in range(20)]
        found[n] = {handle.refresh().org_id for handle in handles}

    threads = [threading.Thread(target=enqueue, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {n: {ORGS[n % 4]} for n in range(8)}


@pytest.mark.anyio
async def test_tasks_that_enqueue_together_keep_their_own_context(app):
    job_type = app.job(work)

    async def enqueue(org: str | None) -> set[str | None]:
        with app.context(org_id=org):
            handles = [await job_type.aenqueue() for _ in range(5)]
        return {(await handle.arefresh()).org_id for handle in handles}

    assert await asyncio.gather(*map(enqueue, ORGS * 5)) == [{org} for org in ORGS * 5]
    await app.aclose()


@pytest.fixture
def family(app: Onward):
    """Parents of every kind that enqueue the same child without a word about where it comes from."""
    child = app.job(name="child")(work)

    @app.job
    async def in_a_task() -> None:
        await asyncio.sleep(0)
        await child.aenqueue()

    @app.job
    def in_a_thread() -> None:
        child.enqueue()

    @app.job
    async def by_its_client(ctx: Context) -> None:
        await ctx.aclient.enqueue(NewJob(job_type="child"))

    @app.job
    def by_its_context(ctx: Context) -> None:
        ctx.enqueue(child.build())

    @app.job
    async def from_a_thread_of_its_own(ctx: Context) -> None:
        loop = asyncio.get_running_loop()
        # No context variable goes there.
        await loop.run_in_executor(None, ctx.enqueue, NewJob(job_type="child"))

    return app


@pytest.mark.parametrize(
    "parent",
    ["in_a_task", "in_a_thread", "by_its_client", "by_its_context", "from_a_thread_of_its_own"],
)
@pytest.mark.anyio
async def test_a_job_that_a_handler_enqueues_is_its_child(family, parent):  # S4-1
    handle = await family.jobs[parent].using(**ALL).aenqueue()
    lonely = await family.jobs[parent].aenqueue()
    await family.worker(drain=True, max_jobs=2).run()
    listed = (await family.aclient.jobs.list()).items
    children = {job.parent_id: job for job in listed if job.job_type == "child"}
    assert origin(children[handle.id]) == INHERITED
    assert children[lonely.id].correlation_id == lonely.id
    assert AMBIENT.get() is None
    await family.aclose()


@pytest.mark.anyio
async def test_no_handler_enqueues_for_another_org(app):  # S4-50
    child = app.job(name="child")(work)

    @app.job(max_attempts=5)
    async def reach(way: str) -> None:
        if way == "option":
            await child.using(org_id="other").aenqueue()
        else:
            with app.context(org_id="other"):
                await child.aenqueue()

    @app.job
    def reach_by_ctx(ctx: Context) -> None:
        ctx.enqueue(child.using(org_id="other").build())

    handles = [
        await reach.using(org_id="o").aenqueue("option"),
        await reach.using(org_id="o").aenqueue("context"),
        await reach_by_ctx.using(org_id="o").aenqueue(),
    ]
    of_no_org = await reach.aenqueue("option")
    tally = await app.worker(drain=True, max_jobs=4).run()
    assert (tally.dead, tally.succeeded) == (3, 1)
    for handle in handles:
        job = await handle.arefresh()
        assert (job.error.error_class, job.error.reason, job.attempt) == ("NotAllowed", "not_allowed", 1)
    children = [job for job in await app.aclient.jobs.list() if job.job_type == "child"]
    assert [(job.org_id, job.parent_id) for job in children] == [("other", of_no_org.id)]
    await app.aclose()


def test_outside_of_a_handler_any_org_can_be_enqueued_for(app):
    with app.context(org_id="o"):
        assert app.job(work).using(org_id="x").build().org_id == "x"
    with pytest.raises(NotAllowed, match="may not enqueue for org 'x'"):
        _within_a_job_of(app, "o")


def _within_a_job_of(app: Onward, org_id: str) -> None:
    app.client.worker.register("w")
    app.client.enqueue(NewJob(job_type="t", org_id=org_id))
    [job] = app.client.worker.claim("q:default", worker_id="w")
    token = AMBIENT.set(job)
    try:
        app.client.enqueue(NewJob(job_type="t", org_id="x"))
    finally:
        AMBIENT.reset(token)


def test_what_an_operator_does_is_done_by_whoever_acts_there(app):
    # S4-1, A26
    job_id = app.client.enqueue(NewJob(job_type="t")).id
    with app.context(actor="user:42"):
        app.client.orgs.pause("acme", reason="late payment")
        app.client.jobs.cancel(job_id, reason="no need")
    [pause] = app.client.gate.status().pauses
    assert (pause.actor_type, pause.actor_id) == ("user", "42")
    assert (app.client.jobs.events(job_id)[-1].actor_type, app.client.jobs.events(job_id)[-1].actor_id) == (
        "user",
        "42",
    )
    app.client.acting_as("system:cron").orgs.resume("acme")
    assert app.client.audit.list(AuditFilter(event="org.resumed"))[0].actor_id == "cron"
