"""Of the workers on a SQLite file, one drains a queue that all could: together they would be slower."""

import stat
import time
from pathlib import Path

import pytest

from onward import JobState, Onward
from onward.stores import open_async_store, open_drains
from onward.stores.sqlite import drains as drains_module
from onward.stores.sqlite.drains import SqliteDrains
from onward.worker.claiming import standby
from onward.worker.claiming.standby import Standby
from onward.worker.claiming.throughput import Pace
from tests.worker.waiting import until

QUEUE = "q:default"
FOREVER = 1e9


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "onward.db"


def drains(path: Path, prefix: str = "onward_") -> SqliteDrains:
    return SqliteDrains(path, prefix)


def test_another_worker_hears_who_drains_which_queue(path):
    one, other = drains(path), drains(path)
    one.say(QUEUE, 10.2)
    assert other.another(QUEUE, 10.0)
    assert not one.another(QUEUE, 10.0)
    assert not other.another("q:critical", 10.0)
    assert not drains(path, "theirs_").another(QUEUE, 10.0)
    other.say(QUEUE, 10.2)
    assert one.another(QUEUE, 10.0)
    assert not other.another(QUEUE, 10.0)


def test_who_says_no_more_is_not_waited_for(path):
    drains(path).say(QUEUE, 10.2)
    assert not drains(path).another(QUEUE, 10.2)


def test_another_machines_clock_counts_for_nothing(path):
    drains(path).say(QUEUE, 10.2)
    assert not drains(path).another(QUEUE, 9.0)


@pytest.mark.parametrize(
    "content", [b"", b"torn", b"\xff" * 40, b"\x00" * 4000], ids=["empty", "torn", "noise", "long"]
)
def test_what_cannot_be_read_is_nobody(path, content):
    Path(f"{path}-turns").write_bytes(content)
    other = drains(path)
    assert not other.another(QUEUE, time.monotonic())
    drains(path).say(QUEUE, 10.2)
    assert other.another(QUEUE, 10.0)


def test_where_nothing_can_be_said_nobody_stands_by(path):
    Path(f"{path}-turns").mkdir()
    drains(path).say(QUEUE, 10.2)
    assert not drains(path).another(QUEUE, 10.0)


def test_what_is_said_is_its_owners_alone(path):
    drains(path).say(QUEUE, 10.2)
    assert stat.S_IMODE(Path(f"{path}-turns").stat().st_mode) == 0o600


def said(path: Path, *cycles: tuple[float, float], also: SqliteDrains | None = None) -> float:
    """Have full claims arrive after so much work and so much rest; gives how long others then stand by."""
    pace, now = Pace(0.0, 10), 5.0
    worker, other = Standby(drains(path), pace), drains(path)
    worker.claimed(QUEUE, now)
    for work, rest in cycles:
        pace.began(now)
        now += work
        pace.rested(now)
        now += rest
        if also:
            also.say(QUEUE, now + 0.2)
        worker.claimed(QUEUE, now)
    return next(tick / 100 for tick in range(100) if not other.another(QUEUE, now + tick / 100))


MOSTLY_WAITS, MOSTLY_WORKS, WAITED = (0.003, 0.011), (0.02, 0.01), (0.02, 0.1)


def test_who_mostly_waits_for_claims_drains_the_queue(path):
    assert said(path, *[MOSTLY_WAITS] * 3) == pytest.approx(0.2, abs=0.01)


@pytest.mark.parametrize("claims", [0, 1, 2])
def test_who_begins_to_claim_in_full_does_so_for_a_moment(path, claims):
    assert said(path, *[MOSTLY_WAITS] * claims) == pytest.approx(0.05, abs=0.01)


def test_who_has_enough_to_run_does_not(path):
    assert said(path, *[MOSTLY_WORKS] * 3) == 0


def test_nor_who_had_to_wait_for_others_now_and_then(path):
    assert said(path, *[WAITED, WAITED, MOSTLY_WORKS] * 5, WAITED, WAITED) == 0


def test_of_two_the_first_goes_on(path):
    first = drains(path)
    said(path, *[MOSTLY_WAITS] * 3, also=first)
    now = 5.0 + 3 * sum(MOSTLY_WAITS)
    assert not first.another(QUEUE, now)
    assert drains(path).another(QUEUE, now)


def test_what_arrives_while_jobs_are_left_tells_nothing(path):
    pace = Pace(0.0, 10)
    pace.began(0.0)
    Standby(drains(path), pace).claimed(QUEUE, 5.0)
    assert not drains(path).another(QUEUE, 5.0)


def test_a_queue_is_left_to_another_for_a_second_at_most(path):
    other, worker = drains(path), Standby(drains(path), Pace(0.0, 10))
    for tenths in range(10):
        other.say(QUEUE, tenths / 10 + 0.2)
        assert worker.left({QUEUE, "q:critical"}, tenths / 10) == {QUEUE}
        assert worker.seconds
    other.say(QUEUE, 1.2)
    assert worker.left({QUEUE, "q:critical"}, 1.0) == set()
    # It had its turn.
    other.say(QUEUE, 1.3)
    assert worker.left({QUEUE}, 1.1) == {QUEUE}
    # The other is through.
    assert worker.left({QUEUE}, 1.4) == set()
    assert worker.seconds is None


@pytest.fixture
def app(path: Path, monkeypatch: pytest.MonkeyPatch) -> Onward:
    """An application on whose file another worker drains the default queue, and goes on with that."""
    monkeypatch.setattr(drains_module, "_LONGEST_SECONDS", FOREVER)
    app = Onward(f"sqlite:///{path}")
    app.client.migrate()
    drains(path).say(QUEUE, time.monotonic() + FOREVER / 2)
    return app


@pytest.mark.anyio
async def test_a_worker_leaves_a_queue_to_who_drains_it_and_serves_the_others(app, path, monkeypatch):
    monkeypatch.setattr(standby, "_LONGEST_SECONDS", FOREVER)

    @app.job
    async def step() -> None:
        pass

    left = await step.using(priority=1).aenqueue()
    served = await step.using(queue="q:critical").aenqueue()
    async with app.worker():
        await until(lambda: app.client.get(served.id).state is JobState.SUCCEEDED)
        assert app.client.get(left.id).state is JobState.QUEUED
        drains(path).say("q:none", 0.0)
        await until(lambda: app.client.get(left.id).state is JobState.SUCCEEDED)
    await app.aclose()


@pytest.mark.anyio
async def test_what_the_other_does_not_run_waits_for_its_turn_only(app, monkeypatch):
    monkeypatch.setattr(standby, "_LONGEST_SECONDS", 0.1)

    @app.job
    async def step() -> None:
        pass

    job = await step.aenqueue()
    async with app.worker():
        await until(lambda: app.client.get(job.id).state is JobState.SUCCEEDED)
    await app.aclose()


@pytest.mark.anyio
async def test_only_workers_on_sqlite_stand_by(path):
    store = open_async_store(f"sqlite:///{path}")
    assert open_drains(store) is not None
    await store.close()
    assert open_drains(open_async_store("postgresql://localhost/none", steady=True)) is None
    nobody = Standby(None, Pace(0.0, 10))
    nobody.claimed(QUEUE, 1.0)
    assert nobody.left({QUEUE}, 1.0) == set()
    nobody.close()
