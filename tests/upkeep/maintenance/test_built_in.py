"""Maintenance as jobs: every worker has them, nobody sees them, and they make way."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from onward import Category, NewJob, Onward, Retention, Snooze
from onward.core.policy.built_in import BUILT_IN, CHECKUP, PRUNE, Q_ONWARD
from onward.errors import InvalidSetting
from onward.handlers.built_in_jobs import check_up, prune_in_rounds, served
from tests.upkeep.maintenance.maintenance_history import left, put_ended
from tests.worker.waiting import drain

pytestmark = pytest.mark.anyio

OLD = datetime.now(UTC) - timedelta(days=40)


def hour_later() -> datetime:
    """When the first run of the hour is due."""
    return datetime.now(UTC) + timedelta(hours=1, minutes=1)


async def fired(app: Onward) -> None:
    """Let an hour go by for the schedules."""
    from onward.operations.schedules.fire import Known

    await app.aclient.at(hour_later()).worker.schedules.fire(Known(BUILT_IN, BUILT_IN))
    await app.aclient.at(hour_later()).worker.promote()


async def test_a_worker_declares_the_schedules_once_and_runs_nothing_at_its_start(app):
    # S4-16
    await drain(app)
    first = await app.aclient.schedules.list()
    await drain(app)
    schedules = {one.name: one for one in await app.aclient.schedules.list()}
    assert list(schedules.values()) == list(first)
    assert set(schedules) == {PRUNE, CHECKUP}
    prune = schedules[PRUNE]
    assert abs(prune.next_at - prune.created_at - timedelta(hours=1)) < timedelta(seconds=1)
    assert (await app.aclient.jobs.list()).items == []
    await app.aclose()


async def test_once_an_hour_a_job_prunes(app):
    # S4-16
    # S4-17
    old, young = [put_ended(app.client, key="old")], put_ended(app.client, key="young")
    change_times(app.client, old)
    await drain(app)
    await fired(app)
    [waiting] = (await app.aclient.jobs.list())[:1]
    assert (waiting.job_type, waiting.queue, waiting.category) == (PRUNE, Q_ONWARD, "maintenance")
    tally = await drain(app)
    assert tally.succeeded == 1
    ended = await app.aclient.jobs.get(waiting.id)
    assert ended.result == {"succeeded": 1, "keys": 1}
    assert left(app.client, *old, young) == [young]
    assert await app.aclient.keys.get("old") is None
    await app.aclose()


async def test_a_worker_that_serves_other_queues_does_it_all_the_same(app):
    await drain(app, queues={"q:exports": 2})
    await fired(app)
    assert (await drain(app, queues={"q:exports": 2})).succeeded == 1
    await app.aclose()


def test_its_queue_is_added_to_those_that_a_worker_was_told_to_serve():
    assert served(None) is None
    assert served({"q:exports": 2}) == {"q:exports": 2, Q_ONWARD: 1}
    assert served({Q_ONWARD: 3}) == {Q_ONWARD: 3}


async def test_it_can_be_switched_off(tmp_path):
    app = Onward(f"sqlite:///{tmp_path}/o.db", maintenance=False)
    await drain(app)
    assert not await app.aclient.schedules.list()
    await app.aclose()


async def test_an_application_does_not_see_them_among_its_own(app):
    assert not BUILT_IN & set(app.jobs)
    assert not BUILT_IN & set(app.handlers)
    with pytest.raises(InvalidSetting, match="job type of Onward's own"):

        @app.job(name=PRUNE)
        def own() -> None: ...


async def test_no_rule_for_jobs_of_an_application_stops_them(tmp_path):
    app = Onward(f"sqlite:///{tmp_path}/o.db", profile="strict")

    @app.authorize
    def nobody(_job: object) -> bool:
        return False

    await drain(app)
    await fired(app)
    assert (await drain(app)).succeeded == 1
    await app.aclose()


async def test_it_works_in_rounds_with_pauses_and_goes_on_where_it_stopped(client):
    # S4-16
    from onward import AsyncClient
    from onward.core.policy.policies import Policies
    from onward.stores import open_async_store

    policies = Policies.of(retention=Retention(succeeded="1m"))
    old = [put_ended(client) for _ in range(6)]
    change_times(client, old)
    store = (
        open_async_store(f"sqlite:///{client.store.file.path}")
        if client.store.database == "sqlite"
        else open_async_store(client.store.url, schema=client.store.prefix.rstrip("."))
    )
    pauses: list[float] = []
    seconds = iter(range(0, 10_000, 4))

    async def sleep(length: float) -> None:
        pauses.append(length)

    async with AsyncClient(store=store, policies=policies) as own:
        with pytest.raises(Snooze):
            await prune_in_rounds(own, limit=1, clock=lambda: float(next(seconds)), sleep=sleep)
        gone = 6 - len(left(client, *old))
        assert 0 < gone < 6
        assert len(pauses) == gone - 1
        # As long as the round itself, where nothing else waits.
        assert set(pauses) == {8.0}
        await own.enqueue(NewJob(job_type="real"))
        with pytest.raises(Snooze):
            await prune_in_rounds(own, limit=1, clock=lambda: float(next(seconds)), sleep=sleep)
        assert len(left(client, *old)) == 6 - gone - 1
        await prune_in_rounds(own, limit=1000, clock=lambda: 0.0, sleep=sleep)
        assert left(client, *old) == []
        assert await own.worker.maintenance.read_place() is None


async def test_a_checkup_tells_what_it_found(app):
    await drain(app)
    found = await check_up(app.aclient)
    assert found == {"partitions": {}, "advice": []}
    await app.aclose()


async def test_a_category_of_the_application_may_replace_the_preset(tmp_path):
    own = Category(name="maintenance", queue="q:night")
    app = Onward(f"sqlite:///{tmp_path}/o.db", categories=[own])
    await drain(app)
    await fired(app)
    assert (await drain(app)).succeeded == 1
    await app.aclose()


def change_times(client, ids) -> None:
    """Make jobs old: give them ids, ends and keys of a month ago."""
    from onward.core.jobs.ids import first_id_at

    connection = client.store.connect()
    at = OLD.timestamp()
    ended = str(int(at * 1_000_000)) if client.store.database == "sqlite" else f"to_timestamp({at})"
    for number, job_id in enumerate(list(ids)):
        new = first_id_at(OLD + timedelta(seconds=number))
        connection.execute(
            f"UPDATE {client.store.prefix}ended SET id = '{new}', ended_at = {ended} WHERE id = '{job_id}'"
        )
        connection.execute(
            f"UPDATE {client.store.prefix}keys SET job_id = '{new}', expires_at = {ended} "
            f"WHERE job_id = '{job_id}'"
        )
        ids[number] = new
    connection.commit()
    connection.close()
