"""A statement was done, but its answer never came: nothing is stuck, and nothing is done twice."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from onward import JobState, Onward, Retry
from onward.clients.client import AsyncClient
from onward.errors import StoreUnreachable
from onward.handlers.clients import Clients
from onward.worker.worker import Worker
from tests.worker.faults.faults_history import broken

pytestmark = pytest.mark.anyio

SOON = 20


class LosesAnswers(Clients):
    """Gives workers clients that lose the first answer to one kind of call, after it was done."""

    def __init__(self, app: Onward, call: str) -> None:
        super().__init__(app.clients.url, schema=app.clients.schema)
        self._call = call
        self.lost = 0

    def open_async(self, *, for_worker: bool = False) -> AsyncClient:
        client = super().open_async(for_worker=for_worker)
        worker = client.worker
        done = getattr(worker, self._call)

        async def forgetful(*arguments: Any, **options: Any) -> Any:
            answer = await done(*arguments, **options)
            if answer and not self.lost:
                self.lost += 1
                raise StoreUnreachable("the connection broke")
            return answer

        setattr(worker, self._call, forgetful)
        # Every part of the worker asks the client for `worker`; all get the one that forgets.
        client.__class__ = type("Forgetful", (AsyncClient,), {"worker": worker})
        return client


async def drain(app: Onward, clients: LosesAnswers) -> None:
    async with asyncio.timeout(SOON):
        await Worker(app.handlers, clients, drain=True).run()
    assert clients.lost == 1


async def test_jobs_of_a_claim_whose_answer_was_lost_run_once(app):  # F14, F15, F17
    ran = []

    @app.job
    async def work(n: int) -> None:
        ran.append(n)

    ids = [job.id for job in await app.aenqueue_many(work.build(n=n) for n in range(30))]
    await drain(app, LosesAnswers(app, "claim"))
    assert sorted(ran) == list(range(30))
    assert broken(app.client, ids) == []
    assert {app.client.jobs.get(job_id).attempt for job_id in ids} == {1}


@pytest.mark.parametrize("outcome", ["succeeds", "goes back"])
async def test_an_end_whose_answer_was_lost_is_written_once_and_not_refused(app, outcome):  # F14, F15
    ran = []

    @app.job
    async def work() -> None:
        ran.append(1)
        if outcome == "goes back" and len(ran) == 1:
            raise Retry("not yet", after=0)

    job = await work.aenqueue()
    await drain(app, LosesAnswers(app, "write"))
    assert broken(app.client, [job.id]) == []
    assert app.client.jobs.get(job.id).state == JobState.SUCCEEDED
    assert len(ran) == (2 if outcome == "goes back" else 1)
    events = [event.event for event in app.client.jobs.events(job.id)]
    assert "job.stale_result_rejected" not in events
