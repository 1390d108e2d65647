"""Two applications on one database: with names they have nothing in common, without they must agree."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

import msgspec
import psycopg
import pytest

from onward import Context, InvalidSetting, JobFilter, JobState, NewJob, Onward
from onward.core.policy.application import DeclaredTypes
from tests.stores.postgres.postgres_schema import clean_schema
from tests.stores.sqlite.using_sqlite import clean_file
from tests.worker.waiting import drain, until

pytestmark = pytest.mark.anyio

Make = Callable[..., Onward]
NOW = datetime(2026, 3, 1, tzinfo=UTC)


def made_in(module: str, *arguments: Any, **settings: Any) -> Onward:
    """An application as the code of a module makes it."""
    names: dict[str, Any] = {
        "__name__": module,
        "Onward": Onward,
        "arguments": arguments,
        "settings": settings,
    }
    exec("app = Onward(*arguments, **settings)", names)
    app = names["app"]
    assert isinstance(app, Onward)
    return app


@pytest.fixture(params=["sqlite", "postgres"])
def named(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Make]:
    """Make applications with names of their own on one database."""
    sqlite = request.param == "sqlite"
    url = f"sqlite:///{tmp_path}/onward.db" if sqlite else request.getfixturevalue("postgres_url")
    unique, apps = f"t{uuid4().hex[:8]}", list[Onward]()

    def make(name: str) -> Onward:
        app = Onward(url, name=f"{unique}_{name}")
        app.client.migrate()
        apps.append(app)
        return app

    yield make
    for app in apps:
        app.close()
    if not sqlite:
        with psycopg.connect(url, autocommit=True) as connection:
            for app in apps:
                connection.execute(f"DROP SCHEMA IF EXISTS {app.clients.schema} CASCADE".encode())


@pytest.fixture(params=["sqlite", "postgres"])
def nameless(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Make]:
    """Make applications without names, each in a module of its own, on the same tables."""
    if request.param == "sqlite":
        url = clean_file(tmp_path)
        yield lambda module, **settings: made_in(module, url, **settings)
    else:
        url = request.getfixturevalue("postgres_url")
        with clean_schema(url) as store:
            schema = store.prefix.rstrip(".")
            yield lambda module, **settings: made_in(module, url, schema=schema, **settings)


async def test_a_worker_runs_the_jobs_of_its_own_application_alone(named):
    ran: list[str] = []
    shop, crm = named("shop"), named("crm")
    for name, app in (("shop", shop), ("crm", crm)):

        @app.job(name="send", key="daily", cron="0 3 * * *")
        async def send(name: str = name) -> None:
            ran.append(name)

    theirs = crm.jobs["send"].enqueue()
    mine = shop.jobs["send"].enqueue()
    assert mine.id != theirs.id, "each application has keys of its own"
    await drain(shop)
    assert ran == ["shop"]
    assert crm.client.jobs.get(theirs.id).state == JobState.QUEUED
    assert [job.id for job in crm.client.jobs.list(JobFilter(job_type="send"))] == [theirs.id]
    assert [job.id for job in shop.client.jobs.list(JobFilter(job_type="send"))] == [mine.id]
    assert "jobs_without_worker" not in {finding.code for finding in shop.client.doctor.check()}
    await drain(crm)
    assert ran == ["shop", "crm"]


async def test_a_handler_enqueues_for_another_application_in_its_own_transaction(named):
    shop, crm = named("shop"), named("crm")
    got: list[int] = []

    @crm.job
    async def take(n: int) -> None:
        got.append(n)

    @shop.job
    def give(ctx: Context) -> None:
        with ctx.transaction() as tx:
            take.using(tx=tx.connection).enqueue(1)

    give.using(org_id="acme").enqueue()
    assert (await drain(shop)).succeeded == 1
    assert (await drain(crm)).succeeded == 1
    assert got == [1]


async def test_the_name_may_come_from_the_environment(tmp_path, monkeypatch):
    url = f"sqlite:///{tmp_path}/onward.db"
    with closing(Onward(url, name="shop")) as shop:

        @shop.job
        async def work() -> None: ...

        job = work.enqueue()
    monkeypatch.setenv("ONWARD_NAME", "shop")
    with closing(Onward(url)) as app:
        assert (app.clients.application, app.client.jobs.get(job.id).id) == ("shop", job.id)
    with closing(Onward(url, schema="onward")) as app:
        assert app.client.jobs.list().items == []


@pytest.mark.parametrize(
    "name", ["", "Shop", "my shop", "my-shop", "1shop", "shop_", "my_onward", "x" * 25, 5]
)
def test_a_name_that_is_no_beginning_of_a_tables_name_is_refused(name):
    with pytest.raises(InvalidSetting, match="give one such as 'shop'"):
        Onward("sqlite:///never.db", name=name)


def test_a_name_chooses_the_schema_so_both_are_refused():
    with pytest.raises(InvalidSetting, match="leave schema= out"):
        Onward("sqlite:///never.db", name="shop", schema="jobs")


def declare(app: Onward, signature: str) -> None:
    names: dict[str, Any] = {}
    exec(f"async def send({signature}): ...", names)
    app.job(names["send"])


async def test_another_application_that_declares_a_job_type_otherwise_is_refused(nameless):
    first, second = nameless("shop.app"), nameless("crm.main")
    declare(first, "to: str")
    declare(second, "to: int")
    async with first.worker() as worker:
        with pytest.raises(InvalidSetting) as refused:
            await second.worker().run()
        told = str(refused.value)
        assert "job type 'send' of crm.main has another signature in shop.app" in told
        assert str(worker.worker_id) in told
        assert "Onward(name='crm')" in told
        with pytest.raises(InvalidSetting, match="in shop"):
            await second.atick()
        [live] = [one for one in first.client.workers.list() if one.lost_at is None]
        assert (live.id, live.application) == (worker.worker_id, "shop.app")
    # A worker that has gone is in nobody's way.
    await second.worker(drain=True).run()
    await second.aclose()
    await first.aclose()


@pytest.mark.parametrize(
    ("module", "signature"),
    [
        ("shop.app", "to: int, n: int"),
        ("crm.main", "to: str, n: int = 8"),
        ("crm.main", "*, n: int = 5, to: str"),
    ],
    ids=["a new version of the same application", "another default", "another order"],
)
async def test_a_new_version_and_an_application_that_agrees_start_beside_it(nameless, module, signature):
    first, second = nameless("shop.app"), nameless(module)
    declare(first, "to: str, n: int = 7")
    declare(second, signature)
    async with first.worker(), second.worker() as worker:
        await until(lambda: worker.worker_id is not None)
    await second.aclose()
    await first.aclose()


async def test_an_application_with_the_same_job_type_is_warned_of_once_and_found_by_the_doctor(
    nameless, caplog
):
    first, again, second = nameless("same1"), nameless("same1"), nameless("same2")
    for app in (first, again, second):
        declare(app, "n: int")
    async with first.worker(), again.worker():
        assert not [one for one in caplog.messages if "another application" in one], "one application"
        async with second.worker() as worker:
            await until(lambda: worker.worker_id is not None)
            [told] = [one for one in caplog.messages if "another application" in one]
            assert re.match(r"worker \S+:\d+ of another application \(same1\) also handles \"send\"", told)
            assert told.endswith('each may run the other\'s jobs. Give one a name: Onward(name="same2")')
            [finding] = [one for one in second.client.doctor.check() if one.code == "types_shared"]
            assert "same1" in finding.title
            assert "same2" in finding.title
            assert "Onward(name=" in str(finding.remedy)
    await second.aclose()
    await again.aclose()
    await first.aclose()


async def test_a_job_type_without_a_handler_suggests_the_nearest_and_names(nameless):
    app = nameless("shop.app")
    declare(app, "n: int")
    job_id = app.client.enqueue(NewJob(job_type="sent", payload={"n": 1})).id
    async with app.worker():
        await until(lambda: app.client.jobs.get(job_id).error is not None)
    message = app.client.jobs.get(job_id).error.message
    assert "no handler here for job type 'sent'. Did you mean 'send'? If another application" in message
    assert "Onward(name=…)" in message
    await app.aclose()


async def test_a_handler_that_is_not_imported_yet_differs_from_no_other(nameless):
    first, second = nameless("shop.app"), nameless("crm.main")
    declare(first, "to: str")
    second.job("not_imported_yet:send")
    async with first.worker(), second.worker() as worker:
        await until(lambda: worker.worker_id is not None)
        seen = {one.application: one.signatures for one in first.client.workers.list()}
        assert (list(seen["shop.app"]), seen["crm.main"]) == (["send"], {})
    await second.aclose()
    await first.aclose()


def test_of_two_workers_that_start_at_once_the_later_one_is_refused(client):
    declared = {"a": DeclaredTypes("shop.app", {"send": "1"}), "b": DeclaredTypes("crm.main", {"send": "2"})}
    then = client.at(NOW).worker
    for worker_id, types in declared.items():
        then.register(worker_id, info=msgspec.structs.asdict(types))
    then.check_declared("a", declared["a"])
    with pytest.raises(InvalidSetting, match="'send' of crm"):
        then.check_declared("b", declared["b"])
