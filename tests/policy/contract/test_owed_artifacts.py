"""A job that owes an artifact may leave it in any of its attempts, steps or calls."""

from collections.abc import Generator

import pytest

from onward import Category, Context, Failed, Onward, Outcome, Retry, Snooze
from onward.results import Artifact, Job
from tests.policy.contract.conftest import MakeApp


@pytest.fixture
def app(make_app: MakeApp) -> Onward:
    return make_app(categories=[Category(name="plan", needs_artifact=True)])


def state_of(app: Onward, job_id: str) -> str:
    job = app.client.jobs.get(job_id)
    return job.state.value if job.error is None or job.error.reason is None else job.error.reason


def test_an_artifact_of_an_earlier_attempt_counts(app):  # R32, S4-13
    @app.job(category="plan")
    def plan(ctx: Context) -> None:
        if ctx.job.attempt == 1:
            ctx.artifact("plan.txt", text="x")
            raise Retry("again", after=0)

    handle = plan.enqueue()
    app.tick()
    assert state_of(app, handle.id) == "succeeded"


def test_so_does_one_of_a_step_that_is_not_done_again(app):  # R32
    @app.job(category="plan")
    async def plan(ctx: Context) -> None:
        async def leave() -> str:
            return (await ctx.aartifact("plan.txt", text="x")).id

        await ctx.astep("leave", leave)
        if ctx.job.attempt == 1:
            raise Retry("again", after=0)

    handle = plan.enqueue()
    app.tick()
    assert state_of(app, handle.id) == "succeeded"


def test_so_does_one_from_before_a_wait(app):  # R32
    left: list[Artifact] = []

    @app.job(category="plan")
    def plan(ctx: Context) -> None:
        if not left:
            left.append(ctx.artifact("plan.txt", text="x"))
            raise Snooze(0)

    handle = plan.enqueue()
    app.tick()
    assert state_of(app, handle.id) == "succeeded"


def test_so_does_one_that_was_put_there_for_the_job(app):  # R32
    @app.job(category="plan")
    def plan(ctx: Context) -> None:
        app.client.artifacts.put("plan.txt", text="x", job_id=ctx.job.id)

    handle = plan.enqueue()
    app.tick()
    assert state_of(app, handle.id) == "succeeded"


@pytest.mark.parametrize("left", [True, False])
def test_a_transaction_asks_for_earlier_ones_too(app, left):  # R32
    @app.job(category="plan")
    def plan(ctx: Context) -> None:
        if ctx.job.attempt == 1:
            if left:
                ctx.artifact("plan.txt", text="x")
            raise Retry("again", after=0)
        with ctx.transaction() as tx:
            tx.result = "done"

    handle = plan.enqueue()
    app.tick()
    assert state_of(app, handle.id) == ("succeeded" if left else "artifact_missing")


@pytest.mark.parametrize("by", ["the end", "a transaction"])
def test_one_that_was_deleted_again_does_not_count(app, by):  # R32
    @app.job(category="plan")
    def plan(ctx: Context) -> None:
        left = ctx.artifact("plan.txt", text="x")
        ctx.client.artifacts.delete(left.id, reason="r")
        if by == "a transaction":
            with ctx.transaction():
                pass

    handle = plan.enqueue()
    app.tick()
    assert state_of(app, handle.id) == "artifact_missing"
    assert app.client.jobs.get(handle.id).error.error_class == "ArtifactMissing"


def test_an_artifact_of_another_job_does_not_count(app):  # R32
    @app.job(category="plan")
    def plan(*, leaves: bool, ctx: Context) -> None:
        if leaves:
            ctx.artifact("plan.txt", text="x")

    kept, lost = plan.enqueue(leaves=True), plan.enqueue(leaves=False)
    app.tick()
    assert [state_of(app, kept.id), state_of(app, lost.id)] == ["succeeded", "artifact_missing"]


def test_an_export_of_the_strict_profile_owes_one(strict, origin):  # R32, S4-15
    @strict.job(category="import_export")
    def export(*, leaves: bool, ctx: Context) -> None:
        if leaves:
            ctx.artifact("orders.csv", text="x")

    kept, lost = (export.using(**origin).enqueue(leaves=leaves) for leaves in (True, False))
    strict.tick()
    assert [state_of(strict, kept.id), state_of(strict, lost.id)] == ["succeeded", "artifact_missing"]


@pytest.mark.parametrize("kind", ["async", "thread"])
def test_functions_around_the_attempt_see_what_the_debt_came_to(app, kind):  # R32
    seen: list[Outcome] = []

    @app.around
    def watch(job: Job) -> Generator[None, Outcome, None]:
        seen.append((yield))

    @app.job(category="plan", name="async")
    async def on_the_loop() -> None: ...

    @app.job(category="plan", name="thread")
    def in_a_thread() -> None: ...

    handle = (on_the_loop if kind == "async" else in_a_thread).enqueue()
    app.tick()
    assert state_of(app, handle.id) == "artifact_missing"
    [outcome] = seen
    assert isinstance(outcome, Failed)
    assert outcome.error.rule == "artifact_missing"


def test_an_artifact_of_an_earlier_attempt_counts_within_them_too(app):  # R32
    @app.around
    def watch(job: Job) -> Generator[None, Outcome, None]:
        yield

    @app.job(category="plan")
    def plan(ctx: Context) -> None:
        if ctx.job.attempt == 1:
            ctx.artifact("plan.txt", text="x")
            raise Retry("again", after=0)

    handle = plan.enqueue()
    app.tick()
    assert state_of(app, handle.id) == "succeeded"
