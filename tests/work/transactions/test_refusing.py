"""What is refused in `ctx.transaction()`, and what is told to who does it."""

from __future__ import annotations

from contextlib import suppress

import pytest

from onward import Category, Context, JobState, Onward
from onward.errors import TransactionNotOpen, TransactionOpen, UnsupportedConnection
from tests.work.transactions.books import Books
from tests.worker.waiting import drain

pytestmark = pytest.mark.anyio

ORG = "2f6a3a0e-7a3c-4f0b-9b5e-0d8f6f1c2a44"


async def test_a_transaction_is_for_categories_that_may_change_the_domain(app, books):  # S4-11
    strict = Onward(app.clients.url, schema=app.clients.schema, profile="strict")

    @strict.job(category="audit_enrichment")
    def enrich(ctx: Context) -> None:
        with ctx.transaction() as tx:
            tx.connection.execute(books.insert, (1,))

    job = await enrich.using(org_id=ORG, actor="user:7", request_id="r").aenqueue()
    await drain(strict)
    await strict.aclose()
    strict.close()
    assert books.rows() == []
    assert app.client.jobs.get(job.id).state == JobState.DEAD
    assert "which may not: domain" in app.client.jobs.get(job.id).error.message


async def test_a_job_that_owes_an_artifact_does_not_commit_without_it(app, books):
    app.category(Category(name="reporting", needs_artifact=True))

    @app.job(category="reporting")
    def report(ctx: Context, leave: bool) -> None:
        with ctx.transaction() as tx:
            tx.connection.execute(books.insert, (1,))
            if leave:
                ctx.artifact("report.txt", text="done")

    @app.job(category="reporting")
    def give_up(ctx: Context) -> None:
        with suppress(LookupError), ctx.transaction():
            ctx.artifact("report.txt", text="half of it")
            raise LookupError

    careful = await report.aenqueue(leave=True)
    forgetful = [await report.aenqueue(leave=False), await give_up.aenqueue()]
    await drain(app)
    assert books.rows() == [1]
    assert app.client.jobs.get(careful.id).state == JobState.SUCCEEDED
    for job in forgetful:
        dead = app.client.jobs.get(job.id)
        assert dead.state == JobState.DEAD
        assert "must leave an artifact" in str(dead.error.message)


async def test_one_transaction_ends_a_job_and_another_is_refused(app, books):
    refused: list[str] = []

    @app.job
    def work(ctx: Context) -> None:
        with ctx.transaction() as tx:
            tx.connection.execute(books.insert, (1,))
            with pytest.raises(TransactionOpen) as inside:
                ctx.transaction()
        with pytest.raises(TransactionOpen) as after:
            ctx.transaction()
        refused.extend([str(inside.value), str(after.value)])

    await work.aenqueue()
    assert (await drain(app)).succeeded == 1
    assert "is open already" in refused[0]
    assert "has ended with its transaction" in refused[1]


async def test_a_handler_that_caught_the_error_may_try_its_transaction_again(app, books):
    @app.job
    def work(ctx: Context) -> None:
        with pytest.raises(ZeroDivisionError), ctx.transaction() as tx:
            tx.connection.execute(books.insert, (1 // 0,))
        with ctx.transaction() as tx:
            tx.connection.execute(books.insert, (2,))

    await work.aenqueue()
    assert (await drain(app)).succeeded == 1
    assert books.rows() == [2]


async def test_a_connection_that_is_none_is_refused_before_anything_is_written(app, books, tmp_path):
    told: list[str] = []

    @app.job
    async def work(ctx: Context) -> None:
        with books.connected() as sync:
            with pytest.raises(UnsupportedConnection) as raised:
                async with ctx.transaction(sync):
                    raise AssertionError
            told.append(str(raised.value))
        with pytest.raises(UnsupportedConnection), ctx.transaction(object()):
            raise AssertionError

    await work.aenqueue()
    assert (await drain(app)).succeeded == 1
    assert "is sync; give it to" in told[0]


async def test_an_async_handler_is_told_to_await_its_transaction(app, books):
    @app.job(max_attempts=1)
    async def work(ctx: Context) -> None:
        with ctx.transaction() as tx:
            tx.connection.execute(books.insert, (1,))

    job = await work.aenqueue()
    await drain(app)
    assert "use `async with ctx.transaction()`" in app.client.jobs.get(job.id).error.message
    assert books.rows() == []


async def test_a_block_without_with_is_told_to_use_it(app):
    told: list[str] = []

    @app.job
    def work(ctx: Context) -> None:
        tx = ctx.transaction()
        with pytest.raises(AttributeError) as raised:
            getattr(tx, "connection")  # noqa: B009 - a type checker knows better
        told.append(str(raised.value))

    await work.aenqueue()
    assert (await drain(app)).succeeded == 1
    assert "has no 'connection' before it is begun; write `with ctx.transaction() as tx:`" in told[0]


async def test_a_handler_that_commits_the_connection_it_was_lent_is_told_so(tmp_path):
    app = Onward(f"sqlite:///{tmp_path}/onward.db")
    app.client.migrate()

    @app.job(max_attempts=1)
    def work(ctx: Context) -> None:
        with ctx.transaction() as tx:
            tx.connection.commit()

    @app.job(max_attempts=1)
    async def awaited(ctx: Context) -> None:
        async with ctx.transaction() as tx:
            await tx.connection.execute("COMMIT")

    jobs = [await work.aenqueue(), await awaited.aenqueue()]
    await drain(app)
    for job in jobs:
        error = app.client.jobs.get(job.id).error
        assert error.error_class == TransactionNotOpen.__name__
        assert error.message.startswith("the handler has ended its transaction itself")
    app.close()
    await app.aclose()


async def test_a_sqlite_block_that_commits_by_itself_is_told_so(tmp_path, caplog):
    app = Onward(f"sqlite:///{tmp_path}/onward.db")
    app.client.migrate()
    books = Books(app)
    books.create()

    @app.job(max_attempts=1)
    def work(ctx: Context) -> None:
        with books.connected() as connection, ctx.transaction(connection):
            with connection:
                connection.execute(books.insert, (1,))
            connection.execute(books.insert, (2,))

    job = await work.aenqueue()
    await drain(app)
    dead = app.client.jobs.get(job.id)
    assert dead.error.error_class == TransactionNotOpen.__name__
    assert "with connection:" in str(dead.error.message)
    # What the block had committed itself can't be taken back; the rest was.
    assert books.rows() == [1]
    app.close()
    await app.aclose()
