"""A job type is enqueued with its options, and stays a function."""

import sqlite3
from datetime import UTC, datetime, timedelta

import psycopg
import pytest

from onward import Context, DuplicateJob, InvalidJob, InvalidSetting, JobNotFound, JobState, NewJob, Onward
from onward.errors import InvalidArguments
from tests.stores.postgres.postgres_schema import clean_schema

DAY = timedelta(days=1)
PARENT = "0190a8c0-0000-7000-8000-000000000000"
TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@pytest.fixture
def add(app: Onward):
    @app.job(category="notification", queue="q:sums", priority=3, timeout="30s", max_attempts=4)
    def add(ctx: Context | None, a: int, b: int = 2) -> int:
        """Add two numbers."""
        return a + b

    return add


def test_an_enqueue_stores_the_arguments_and_what_the_definition_says(app, add):  # S0-32
    handle = add.enqueue(1, b=5)
    assert (handle.state, handle.created) == (JobState.QUEUED, True)
    job = app.client.jobs.get(handle.id)
    assert (job.job_type, job.payload, job.category) == ("add", {"a": 1, "b": 5}, "notification")
    assert (job.queue, job.priority, job.max_attempts) == ("q:sums", 3, 4)
    assert job.timeout_micros == 30_000_000


@pytest.mark.anyio
async def test_an_enqueue_can_be_awaited(app, add):
    handle = await add.using(priority=1).aenqueue(a=1)
    job = await app.aclient.jobs.get(handle.id)
    assert (job.payload, job.priority) == ({"a": 1}, 1)
    await app.aclose()


def test_wrong_arguments_store_nothing(app, add):
    with pytest.raises(InvalidArguments):
        add.enqueue("1")
    assert app.client.jobs.list().items == []


def test_every_option_reaches_the_job(add):
    at = datetime(2030, 1, 1, tzinfo=UTC)
    new = add.using(
        delay="10m", priority=1, queue="q:other", key="k", unique="7d", on_conflict="raise", org_id="o",
        project_id="p", actor="user:a:b", request_id="r", correlation_id="c", subject="s", tags=("t", "u"),
        max_attempts=2, timeout=1.5, deadline=at, traceparent=TRACE, parent_id=PARENT,
    ).build(1)  # fmt: skip
    assert new == NewJob(
        job_type="add", typed=True, payload={"a": 1}, category="notification", delay=timedelta(minutes=10),
        priority=1, queue="q:other", key="k", unique=7 * DAY, on_conflict="raise", org_id="o",
        project_id="p", actor_type="user", actor_id="a:b", request_id="r", correlation_id="c", subject="s",
        tags=["t", "u"], max_attempts=2, timeout=timedelta(seconds=1.5), deadline=at, traceparent=TRACE,
        parent_id=PARENT,
    )  # fmt: skip


def test_a_later_using_replaces_what_an_earlier_one_said_and_leaves_the_first_alone(add):
    at = datetime(2030, 1, 1, tzinfo=UTC)
    later = add.using(delay="1h", unique="active", key="k", actor=("user", "1"))
    last = later.using(run_at=at, actor=None)
    assert later.build(1).delay == timedelta(hours=1)
    new = last.build(1)
    assert (new.delay, new.run_at, new.unique, new.actor_type) == (None, at, "active", None)
    assert add.build(1).key is None


def test_a_deadline_may_be_a_time_from_the_enqueue(app):
    @app.job(deadline="1d")
    def work() -> None:
        raise NotImplementedError

    before = datetime.now(UTC)
    deadline = work.build().deadline
    assert before + DAY <= deadline <= datetime.now(UTC) + DAY
    assert before + 2 * DAY <= work.using(deadline=2 * DAY).build().deadline
    assert work.using(deadline=None).build().deadline is None


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"dely": 1}, r'using\(\) has no option "dely". Did you mean "delay"\?'),
        ({"before": []}, r'using\(\) has no option "before"'),
        ({"delay": "soon"}, "delay is 'soon'"),
        ({"unique": "never"}, "unique is 'never'"),
        ({"actor": "ada"}, "actor is 'ada'; give 'type:id'"),
        ({"actor": "user:"}, "actor is 'user:'"),
        ({"tags": "red"}, "tags is 'red'; give a list"),
        ({"priority": 1001}, "priority is 1001"),
        ({"delay": 1, "run_at": datetime(2030, 1, 1, tzinfo=UTC)}, "run_at and delay are both set"),
    ],
)
def test_a_wrong_option_is_refused(add, options, message):
    with pytest.raises((InvalidJob, InvalidSetting), match=message):
        add.using(**options).enqueue(1)


def test_a_held_key_gives_the_job_that_holds_it(app, add):
    first = add.using(key="k").enqueue(1)
    second = add.using(key="k").enqueue(1)
    assert (second.id, second.created) == (first.id, False)
    with pytest.raises(DuplicateJob):
        add.using(key="k", on_conflict="raise").enqueue(1)


def test_a_job_of_a_transaction_that_is_rolled_back_never_existed(tmp_path):
    app = Onward(f"sqlite:///{tmp_path}/app.db")

    @app.job
    def work(n: int) -> None:
        raise NotImplementedError

    app.client.migrate()
    with sqlite3.connect(tmp_path / "app.db") as connection:
        connection.execute("BEGIN")
        gone = work.using(tx=connection).enqueue(1)
        connection.rollback()
        connection.execute("BEGIN")
        kept = work.using(tx=connection).enqueue(2)
    connection.close()
    assert app.client.jobs.get(kept.id).payload == {"n": 2}
    with pytest.raises(JobNotFound):
        app.client.jobs.get(gone.id)
    app.close()


@pytest.mark.anyio
async def test_an_awaited_enqueue_joins_an_async_transaction(postgres_url):
    with clean_schema(postgres_url) as store:
        app = Onward(postgres_url, schema=store.prefix.rstrip("."))

        @app.job
        def work(n: int) -> None:
            raise NotImplementedError

        async with await psycopg.AsyncConnection.connect(postgres_url) as connection:
            gone = await work.using(tx=connection).aenqueue(1)
            await connection.rollback()
            kept = await work.using(tx=connection).aenqueue(2)
        assert (await kept.arefresh()).payload == {"n": 2}
        with pytest.raises(JobNotFound):
            await gone.arefresh()
        await app.aclose()


def test_a_job_type_is_still_its_function(add):
    assert add(None, 1) == 3
    assert (add.__name__, add.__doc__, add.__module__) == ("add", "Add two numbers.", __name__)
    assert add.__wrapped__ is add.handler.function
    assert repr(add) == "<job type add: add(a: int, b: int = 2)>"


def test_attributes_of_the_function_are_kept_but_do_not_hide_those_of_the_job_type(app):
    def work() -> None:
        raise NotImplementedError

    work.name, work.colour = "something else", "red"  # type: ignore[attr-defined]
    job_type = app.job(work)
    assert (job_type.name, job_type.colour) == ("work", "red")


@pytest.mark.anyio
async def test_an_async_job_type_is_awaited_when_called():
    app = Onward("sqlite:///never-opened.db")

    @app.job
    async def double(n: int) -> int:
        return 2 * n

    assert await double(4) == 8
