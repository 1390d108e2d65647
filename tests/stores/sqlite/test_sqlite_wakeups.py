"""Wake-ups on SQLite: whoever waits learns of a commit, whoever made it."""

import asyncio
import sys
from pathlib import Path

import pytest

from onward import AsyncClient, NewJob
from onward.errors import StoreUnreachable
from onward.stores import open_wakeups
from onward.stores.sqlite.file import SqliteFile
from onward.stores.wakeups import SqliteWakeups

pytestmark = pytest.mark.anyio

LONG = 60.0
SHORT = 0.02


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "onward.db"


@pytest.fixture
async def client(path):
    async with AsyncClient(f"sqlite:///{path}") as client:
        await client.enqueue(NewJob(job_type="t"))
        yield client


@pytest.fixture
async def wakeups(client):
    wakeups = open_wakeups(client.store)
    yield wakeups
    await wakeups.close()


async def test_the_first_wait_returns_at_once_to_catch_up(wakeups):
    assert await wakeups.wait(0) is not None


async def test_without_a_commit_the_time_runs_out(wakeups):
    await wakeups.wait(LONG)
    assert await wakeups.wait(SHORT) is None
    assert await wakeups.wait(0) is None


async def test_the_commit_of_the_own_store_wakes(client, wakeups):
    await wakeups.wait(LONG)
    waiting = asyncio.ensure_future(wakeups.wait(LONG))
    await client.enqueue(NewJob(job_type="t"))
    assert await waiting is not None


async def test_the_commit_of_another_process_wakes(path, wakeups):  # R17
    await wakeups.wait(LONG)
    program = (
        "import sys; from onward import Client, NewJob; Client(sys.argv[1]).enqueue(NewJob(job_type='t'))"
    )
    other = await asyncio.create_subprocess_exec(sys.executable, "-c", program, f"sqlite:///{path}")
    assert await wakeups.wait(LONG) is not None
    assert await other.wait() == 0


async def test_reading_wakes_nobody(client, wakeups):
    await wakeups.wait(LONG)
    await client.jobs.count()
    assert await wakeups.wait(SHORT) is None


async def test_every_commit_between_two_waits_is_one_wake_up(client, wakeups):
    await wakeups.wait(LONG)
    await client.enqueue(NewJob(job_type="t"))
    await client.enqueue(NewJob(job_type="t"))
    assert await wakeups.wait(0) is not None
    assert await wakeups.wait(0) is None


async def test_after_a_close_a_wait_listens_anew(client, wakeups):
    await wakeups.wait(LONG)
    await wakeups.close()
    await wakeups.close()
    assert await wakeups.wait(SHORT) in {frozenset(), None}


async def test_a_file_that_is_not_there_is_named(path):
    with pytest.raises(StoreUnreachable, match=r"onward\.db"):
        await SqliteWakeups(SqliteFile(path)).wait(0)
