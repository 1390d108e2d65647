"""A job ends in `ctx.transaction()` on every kind of connection, with what was written there, or not."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from onward import Context, JobFilter, JobState, LeaseLost, NewJob, Onward
from onward.connections import run
from onward.errors import TransactionOpen
from onward.operations.jobs import inspect, listing
from onward.results import Job
from onward.worker.attempts.attempt import Running
from tests.connections.conftest import Observer
from tests.connections.kinds import KINDS, Address, Caller, Kind, open_caller
from tests.connections.scenarios.steps import put

FOLLOW_UP = NewJob(job_type="follow_up")


def work() -> None:
    """Stand for the handler: what it does is done by the test."""


class Trouble(Exception):
    """What a handler may raise."""


@dataclass
class Handling:
    """A handler at work on a connection of one kind."""

    caller: Caller
    app: Onward
    job: Job
    ctx: Context
    run: Running

    def complete(self, *, first: Callable[[], object] = bool, fail: bool = False) -> None:
        """End the job in a transaction that leaves a follow-up job."""
        connection = self.caller.held.connection
        if self.caller.kind.is_async:
            self.caller.await_(self._complete_async(connection, first, fail=fail))
            return
        with self.ctx.transaction(connection) as tx:
            first()
            assert tx.connection is connection
            tx.enqueue(FOLLOW_UP)
            tx.result = 7
            if fail:
                raise Trouble

    async def _complete_async(self, connection: Any, first: Callable[[], object], *, fail: bool) -> None:
        async with self.ctx.transaction(connection) as tx:
            first()
            assert tx.connection is connection
            await tx.enqueue(FOLLOW_UP)
            tx.result = 7
            if fail:
                raise Trouble


@pytest.fixture(params=KINDS, ids=lambda kind: kind.name)
def handling(request: pytest.FixtureRequest, address: Address, observer: Observer):
    kind: Kind = request.param
    app = Onward(f"sqlite:///{address.path}" if kind.database == "sqlite" else address.url)
    app.client.worker.register("w")
    app.client.enqueue(NewJob(job_type="work"))
    [job] = app.client.worker.claim("q:default", worker_id="w")
    running = Running(job, app.job(work).handler)
    with open_caller(kind, address) as caller:
        yield Handling(caller, app, job, Context(running, app.clients), running)
        if kind.is_async:
            caller.await_(app.aclose())
    app.close()


def test_a_job_ends_with_what_was_written_or_nothing_happens(handling: Handling, observer: Observer):
    database = handling.caller.kind.database
    before = observer.rows(database)
    with pytest.raises(Trouble):
        handling.complete(fail=True)
    assert observer.rows(database) == before
    assert not completed(handling.run)

    def check_alone() -> None:
        # From its start: what was read in the block can't be outdated when it is written.
        if database == "sqlite":
            observer.sqlite.execute("PRAGMA busy_timeout = 0")
            with pytest.raises(sqlite3.OperationalError, match="locked"):
                observer.sqlite.execute("BEGIN IMMEDIATE")

    handling.complete(first=check_alone)
    assert completed(handling.run)
    connection = observer.connection(database)
    found = run(inspect.get_many([handling.job.id]), connection)[handling.job.id]
    assert (found.state, found.result) == (JobState.SUCCEEDED, 7)
    [left] = [job for job in run(_listed(), connection) if job.id != found.id]
    assert (left.job_type, left.parent_id, left.state) == ("follow_up", found.id, "queued")

    # And who no longer holds the job writes nothing.
    after = observer.rows(database)
    handling.ctx = Context(handling.run, handling.app.clients)
    with pytest.raises(LeaseLost):
        handling.complete()
    assert observer.rows(database) == after


def test_a_transaction_that_is_open_is_not_the_handlers_to_end(handling: Handling, observer: Observer):
    caller = handling.caller
    before = observer.rows(caller.kind.database)
    caller.begin()
    put(caller.go)
    if "autocommit=False" in caller.kind.name:
        # There is always one: it is taken over, with what was written before.
        handling.complete()
        assert observer.rows(caller.kind.database)["live"] == 2
        return
    with pytest.raises(TransactionOpen):
        handling.complete()
    caller.rollback()
    assert observer.rows(caller.kind.database) == before


def completed(run: Running) -> bool:
    return run.completion is not None and run.completion.sure


def _listed():
    page = yield from listing.list_jobs(JobFilter(), limit=50)
    return page.items
