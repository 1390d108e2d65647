"""Ends are written together where many come, and at once where few do."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from onward import AsyncClient, NewJob, Succeeded
from onward.results import Job
from onward.worker.finishing.end_batches import CROWD
from onward.worker.finishing.finisher import Finisher
from onward.worker.outage import Outage
from tests.worker.waiting import until

pytestmark = pytest.mark.anyio


class Writing:
    """A finisher, the jobs that it may end, and how many it wrote each time."""

    def __init__(self, client: AsyncClient, jobs: list[Job], patience: float) -> None:
        self.jobs, self.sizes = jobs, list[int]()
        self.finisher = Finisher(
            client,
            Outage(),
            patience=patience,
            busy=lambda: False,
            written=lambda batch, _lost: self.sizes.append(len(batch)),
            spent=lambda _orgs: None,
            freed=lambda _keys: None,
            completed=lambda: None,
        )

    def end(self, count: int) -> None:
        ended, self.jobs = self.jobs[:count], self.jobs[count:]
        self.finisher.add_all([(job, Succeeded(), (), None, None, None) for job in ended])

    async def end_and_look_away(self, count: int) -> None:
        """End some, and let the finisher do what it would do at once."""
        self.end(count)
        for _ in range(20):
            await asyncio.sleep(0)

    async def written(self, *sizes: int) -> None:
        await until(lambda: self.sizes == list(sizes))


@asynccontextmanager
async def writing(url: str, *, patience: float = 600.0) -> AsyncIterator[Writing]:
    async with AsyncClient(url) as client:
        await client.migrate()
        await client.worker.register("w1")
        await client.enqueue_many([NewJob(job_type="t") for _ in range(1100)])
        work = Writing(client, await client.worker.claim("q:default", 1100, worker_id="w1"), patience)
        task = asyncio.create_task(work.finisher.run())
        yield work
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@pytest.fixture
def url(tmp_path) -> str:
    return f"sqlite:///{tmp_path / 'onward.db'}"


async def test_after_many_a_few_wait_for_others_but_not_for_long(url):
    async with writing(url) as work:
        work.end(CROWD)
        await work.written(20)
        await work.end_and_look_away(1)
        await work.end_and_look_away(2)
        # As many as one statement takes go at once.
        work.end(997)
        await work.written(20, 1000)
    async with writing(url + "2", patience=0.05) as work:
        work.end(CROWD)
        await work.written(20)
        work.end(1)
        await work.written(20, 1)


async def test_where_few_come_each_is_written_at_once(url):
    async with writing(url) as work:
        for number in range(1, 6):
            work.end(1)
            await work.written(*[1] * number)
