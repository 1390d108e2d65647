"""What a handler writes in `ctx.transaction()`, its follow-up jobs and its end: all of it, or nothing."""

from __future__ import annotations

import asyncio
import logging

import pytest

from onward import Context, JobFilter, JobState, LeaseLost, NewJob, Onward, Retry, Unrecoverable
from onward.worker.worker import Worker
from tests.worker.waiting import SOON, drain, until

pytestmark = pytest.mark.anyio


def children(app: Onward, job_id: str) -> list[str]:
    """The types of the jobs that a job has left."""
    return sorted(job.job_type for job in app.client.jobs.list().items if job.parent_id == job_id)


async def test_effects_follow_up_jobs_and_the_end_are_one_change(app, books):
    # F02, S0-35: in each kind of handler, on a connection of its own or one that is opened for it.
    seen: list[tuple[list[int], JobState, int]] = []

    def look(job_id: str) -> None:
        seen.append((books.rows(), app.client.jobs.get(job_id).state, len(children(app, job_id))))

    @app.job
    async def follow(n: int) -> None: ...

    @app.job
    def on_its_own(ctx: Context, n: int) -> None:
        with books.connected() as connection:
            with ctx.transaction(connection) as tx:
                assert tx.connection is connection
                connection.execute(books.insert, (n,))
                tx.enqueue(follow.build(n))
                follow.using(tx=tx).enqueue(n)
                tx.result = {"booked": n}
                look(ctx.job.id)
            look(ctx.job.id)

    @app.job
    def on_a_lent_one(ctx: Context, n: int) -> None:
        with ctx.transaction() as tx:
            tx.connection.execute(books.insert, (n,))
            ctx.enqueue(follow.build(n))
            follow.using(tx=tx.connection).enqueue(n)
            tx.result = {"booked": n}
            look(ctx.job.id)
        look(ctx.job.id)

    @app.job
    async def on_a_lent_one_awaited(ctx: Context, n: int) -> None:
        async with ctx.transaction() as tx:
            await tx.connection.execute(books.insert, (n,))
            await tx.enqueue(follow.build(n))
            await follow.using(tx=tx.connection).aenqueue(n)
            tx.result = {"booked": n}
            look(ctx.job.id)
        look(ctx.job.id)

    for n, job_type in enumerate((on_its_own, on_a_lent_one, on_a_lent_one_awaited), start=1):
        seen.clear()
        job = await job_type.aenqueue(n=n)
        tally = await drain(app)
        before = list(range(1, n))
        assert seen == [(before, "running", 0), ([*before, n], "succeeded", 2)]
        assert (tally.succeeded, tally.refused) == (3, 0)
        assert await job.aresult() == {"booked": n}
        events = [event.event for event in app.client.jobs.events(job.id)]
        assert events == ["job.enqueued", "job.started", "job.succeeded"]
        [one, two] = app.client.jobs.list(JobFilter(job_type="follow"), limit=2).items
        assert one.correlation_id == two.correlation_id == job.id


async def test_an_invoice_its_result_and_the_mail_about_it_are_stored_together(app, books):
    # S0-62: the last step of issuing an invoice enqueues the notification, in one unit with the result.
    @app.job(category="notification")
    async def notify(invoice: int) -> None: ...

    @app.job
    def issue_invoice(ctx: Context, order: int) -> None:
        number = 100 + order
        with ctx.transaction() as tx:
            tx.connection.execute(books.insert, (number,))
            tx.enqueue(notify.using(org_id="acme").build(number))
            if ctx.job.attempt == 1:
                raise Retry("the register is closed", after=0)
            tx.result = {"invoice": number}

    job = await issue_invoice.using(org_id="acme").aenqueue(order=7)
    await drain(app)
    assert books.rows() == [107]
    assert await job.aresult() == {"invoice": 107}
    [mail] = app.client.jobs.list(JobFilter(job_type="notify")).items
    assert (mail.parent_id, mail.org_id, mail.state) == (job.id, "acme", "succeeded")


@pytest.mark.parametrize("awaited", [False, True])
async def test_an_error_in_the_block_undoes_all_of_it(app, books, awaited):
    @app.job
    async def follow() -> None: ...

    def fail() -> None:
        raise Unrecoverable("no such account")

    @app.job
    def plain(ctx: Context) -> None:
        with ctx.transaction() as tx:
            tx.connection.execute(books.insert, (1,))
            tx.enqueue(follow.build())
            ctx.audit("half way")
            fail()

    @app.job(name="awaited")
    async def awaits(ctx: Context) -> None:
        async with ctx.transaction() as tx:
            await tx.connection.execute(books.insert, (1,))
            await tx.enqueue(follow.build())
            await ctx.aaudit("half way")
            fail()

    job = await (awaits if awaited else plain).aenqueue()
    assert (await drain(app)).dead == 1
    assert books.rows() == []
    assert children(app, job.id) == []
    assert [event.action for event in app.client.jobs.events(job.id) if event.action is not None] == []
    assert app.client.jobs.get(job.id).error.message == "no such account"


async def test_who_has_lost_its_lease_can_commit_nothing(app, books):  # R7
    told: list[LeaseLost] = []

    @app.job
    async def follow() -> None: ...

    @app.job
    def work(ctx: Context) -> None:
        if ctx.job.attempt == 1:
            # In one transaction: else the worker's own sweeper may come between, and one of them is refused.
            with books.connected() as connection, connection:
                if books.sqlite:
                    connection.execute("BEGIN IMMEDIATE")
                app.within(connection).worker.rescue_worker(str(ctx.job.worker_id))
        try:
            with ctx.transaction() as tx:
                tx.connection.execute(books.insert, (ctx.job.attempt,))
                tx.enqueue(follow.build())
        except LeaseLost as error:
            told.append(error)
            raise

    job = await work.aenqueue()
    tally = await drain(app)
    await drain(app)
    assert len(told) == tally.refused == 1
    assert books.rows() == [2]
    assert children(app, job.id) == ["follow"]
    found = app.client.jobs.get(job.id)
    assert (found.state, found.attempt) == (JobState.SUCCEEDED, 2)
    events = [event.event for event in app.client.jobs.events(job.id)]
    assert events.count("job.stale_result_rejected") == 1


async def test_effects_that_are_recorded_in_the_block_are_forgotten_with_it(app, books):
    calls: list[str] = []

    @app.job
    def work(ctx: Context) -> None:
        with ctx.transaction() as tx:
            ctx.once("charge", calls.append)
            tx.connection.execute(books.insert, (1,))
            if ctx.job.attempt == 1:
                raise Retry("again", after=0)

    @app.job
    async def works_too(ctx: Context) -> None:
        async with ctx.transaction() as tx:
            await ctx.aonce("charge", calls.append)
            await tx.connection.execute(books.insert, (1,))
            if ctx.job.attempt == 1:
                raise Retry("again", after=0)

    for number, job_type in enumerate((work, works_too), start=1):
        calls.clear()
        job = await job_type.aenqueue()
        await drain(app)
        # Tried again under the same key, since its record was rolled back.
        assert len(calls) == 2
        assert len(set(calls)) == 1
        [effect] = app.client.effects.list(job.id)
        assert (effect.state, effect.attempt) == ("done", 2)
        assert books.rows() == [1] * number


async def test_a_job_that_was_reset_while_it_ran_runs_again_after_its_transaction(app, books):
    @app.job
    def work(ctx: Context) -> None:
        if ctx.job.lease == 1:
            # Whoever enqueues it again meanwhile wants another run.
            again = NewJob(job_type="work", key="k", on_conflict="reset", reset_from=frozenset(JobState))
            app.client.enqueue(again)
        with ctx.transaction() as tx:
            tx.connection.execute(books.insert, (ctx.job.lease,))

    job = await work.using(key="k").aenqueue()
    tally = await drain(app)
    assert (tally.succeeded, tally.refused) == (2, 0)
    assert len(books.rows()) == 2
    assert [run.outcome for run in app.client.jobs.attempts(job.id)] == ["succeeded", "succeeded"]


async def test_a_job_whose_cancellation_was_asked_for_too_late_has_succeeded(app, books):
    @app.job
    def work(ctx: Context) -> None:
        app.client.jobs.cancel(ctx.job.id, reason="not wanted")
        with ctx.transaction() as tx:
            tx.connection.execute(books.insert, (1,))

    job = await work.aenqueue()
    tally = await drain(app)
    assert (tally.succeeded, tally.cancelled) == (1, 0)
    assert (books.rows(), app.client.jobs.get(job.id).state) == ([1], JobState.SUCCEEDED)


async def test_what_the_run_has_used_is_written_with_it_once(app, books):  # R24
    app.client.usage.set_budget("acme", limit_micros=5, period="total")

    @app.job
    def work(ctx: Context) -> None:
        ctx.meter("mail", 2, cost_micros=3)
        with ctx.transaction() as tx:
            tx.connection.execute(books.insert, (1,))
            ctx.meter("mail", 1, cost_micros=2)

    counting = Onward(app.clients.url, schema=app.clients.schema, meter_runs=True)
    job = await work.using(org_id="acme").aenqueue()
    held = await work.using(org_id="acme", delay=0.001).aenqueue()
    async with asyncio.timeout(SOON):
        await Worker(app.handlers, counting.clients, drain=True, concurrency=1).run()
    used = {event.unit: (event.amount, event.cost_micros) for event in app.client.usage.events(job.id)}
    assert used.pop("seconds")[0] < SOON
    assert used == {"mail": (3.0, 5), "runs": (1.0, 0)}
    assert app.client.jobs.get(job.id).cost_micros == 5
    [budget] = app.client.usage.budgets()
    assert budget.spent_micros == 5
    # The worker has learnt from the commit that the budget is spent.
    assert app.client.jobs.get(held.id).state != JobState.SUCCEEDED


async def test_a_follow_up_job_wakes_an_idle_worker(app, books):
    @app.job
    async def follow() -> None: ...

    @app.job(queue="q:other")
    def work(ctx: Context) -> None:
        with ctx.transaction() as tx:
            tx.enqueue(follow.build())

    async with app.worker(queues={"q:default": None}) as waiting, app.worker(queues={"q:other": None}):
        await until(lambda: waiting.parts.keeper.marked_idle)
        job = await work.aenqueue()
        await until(lambda: children(app, job.id) == ["follow"])
        [child] = app.client.jobs.list(JobFilter(job_type="follow")).items
        await until(lambda: app.client.jobs.get(child.id).state == JobState.SUCCEEDED)


async def test_a_long_transaction_on_sqlite_costs_no_lease(tmp_path, caplog):
    # The worker's own writes wait for the one writer: also two renewals of its lease that are due meanwhile.
    app = Onward(f"sqlite:///{tmp_path}/onward.db")

    @app.job
    async def quick() -> None: ...

    @app.job
    def slow(ctx: Context) -> None:
        with ctx.transaction():
            ctx.sleep(1.5)

    await slow.aenqueue()
    await quick.using(delay=0.2).aenqueue()
    with caplog.at_level(logging.WARNING):
        tally = await drain(app, lease=4)
    assert (tally.succeeded, tally.refused) == (2, 0)
    assert "lost its lease" not in caplog.text
    app.close()
    await app.aclose()
