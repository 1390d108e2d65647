"""The handle of a batch: follow its progress, wait for its end, add jobs to it, cancel it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from types import TracebackType
from typing import Any, NoReturn, Self, TypedDict
from uuid import UUID

import msgspec

from onward.clients.client import AsyncClient
from onward.clients.sync.client import Client
from onward.core.bulk import Bulk
from onward.core.flows.batch import Batch
from onward.core.inputs.duration import Duration, duration
from onward.core.jobs.ids import JobId, normalise_id
from onward.core.jobs.job import Enqueued, Job, NewJob
from onward.core.policy.category import Capability
from onward.errors import BatchFailed, InvalidJob, InvalidSetting, JobNotEnded
from onward.handlers.clients import Clients
from onward.handlers.handles.handle import Handle, check_may_wait, pauses
from onward.origin import running


class BatchOptions(TypedDict, total=False):
    """The options of a new batch: jobs that are enqueued at its end, and a human-readable name."""

    on_success: NewJob | None
    on_failure: NewJob | None
    on_complete: NewJob | None
    name: str | None


@dataclass(frozen=True, slots=True)
class HandlerAccess:
    """The job of a handler, its clients, and a check that its category has a capability."""

    job: Job
    sync: Callable[[], Client]
    current: Callable[[], AsyncClient]
    require: Callable[[Capability], None]


class BatchHandle:
    """A handle to a batch, which it knows by its id."""

    def __init__(self, batch_id: JobId, clients: Clients) -> None:
        self.id = batch_id
        self._clients = clients

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.id})"

    def refresh(self) -> Batch:
        """Read the batch, with the number of its jobs by outcome."""
        return self._sync().batches.get(self.id)

    async def arefresh(self) -> Batch:
        """Read the batch, with the number of its jobs by outcome."""
        return await self._current().batches.get(self.id)

    def join(self, timeout: Duration | None = None) -> Batch:
        """Wait for the end of all jobs and return the batch; raises JobNotEnded after `timeout`."""
        check_may_wait("batch.join()", "await batch.ajoin()", timeout)
        for pause in pauses(timeout):
            batch = self.refresh()
            if batch.ended_at is not None:
                return batch
            time.sleep(pause)
        return _ended(self.refresh(), timeout)

    async def ajoin(self, timeout: Duration | None = None) -> Batch:  # noqa: ASYNC109 - an error of its own
        """Wait for the end of all jobs and return the batch; raises JobNotEnded after `timeout`."""
        for pause in pauses(timeout):
            batch = await self.arefresh()
            if batch.ended_at is not None:
                return batch
            await asyncio.sleep(pause)
        return _ended(await self.arefresh(), timeout)

    def result(self, timeout: Duration | None = None) -> Batch:
        """Wait for the end of all jobs and return the batch; raises BatchFailed unless all succeeded.

        Raises JobNotEnded after `timeout`.
        """
        check_may_wait("batch.result()", "await batch.aresult()", timeout)
        return _succeeded(self.join(timeout))

    async def aresult(self, timeout: Duration | None = None) -> Batch:  # noqa: ASYNC109 - as ajoin()
        """Wait for the end of all jobs and return the batch; raises BatchFailed unless all succeeded.

        Raises JobNotEnded after `timeout`.
        """
        return _succeeded(await self.ajoin(timeout))

    def add(self, *jobs: NewJob) -> list[Handle[Any]]:
        """Add jobs while the batch is open, or later in a handler of one of its jobs; raises BatchClosed."""
        with self._around():
            return self._handles(self._sync().enqueue_many(self._members(jobs)))

    async def aadd(self, *jobs: NewJob) -> list[Handle[Any]]:
        """Add jobs while the batch is open, or later in a handler of one of its jobs; raises BatchClosed."""
        with self._around():
            return self._handles(await self._current().enqueue_many(self._members(jobs)))

    def cancel(self, *, reason: str) -> Bulk:
        """Cancel the jobs of the batch, and accept no more."""
        return self._sync().batches.cancel(self.id, reason=reason)

    async def acancel(self, *, reason: str) -> Bulk:
        """Cancel the jobs of the batch, and accept no more."""
        return await self._current().batches.cancel(self.id, reason=reason)

    def _sync(self) -> Client:
        return self._clients.sync

    def _current(self) -> AsyncClient:
        return self._clients.current()

    def _around(self) -> AbstractContextManager[None]:
        """Return a context in which to enqueue; OwnBatch makes its job the parent there."""
        return nullcontext()

    def _members(self, jobs: tuple[NewJob, ...]) -> list[NewJob]:
        return [
            msgspec.structs.replace(new, batch_id=self.id) if isinstance(new, NewJob) else _no_job(new)
            for new in jobs
        ]

    def _handles(self, enqueued: list[Enqueued]) -> list[Handle[Any]]:
        return [Handle(one, self._clients) for one in enqueued]


class OpenBatch(BatchHandle):
    """A batch that is made when its `with` or `async with` block begins, and closed when the block ends.

    If the block raises, the added jobs are cancelled.
    """

    def __init__(self, clients: Clients, options: BatchOptions) -> None:
        super().__init__("", clients)
        self._options = options

    def __enter__(self) -> Self:
        """Make the batch."""
        self._check_new()
        self.id = self._clients.sync.batches.open(**self._options)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        """Close the batch, or cancel the added jobs if the block raised."""
        if kind is None:
            self._sync().batches.close(self.id)
        else:
            self.cancel(reason=_why(kind))

    async def __aenter__(self) -> Self:
        """Make the batch."""
        self._check_new()
        self.id = await self._clients.current().batches.open(**self._options)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        """Close the batch, or cancel the added jobs if the block raised."""
        if kind is None:
            await self._current().batches.close(self.id)
        else:
            await self.acancel(reason=_why(kind))

    def check_made(self) -> None:
        """Raise InvalidSetting if the block has not begun."""
        if not self.id:
            raise InvalidSetting(
                "this batch does not exist yet; use it inside its block: with app.batch() as batch: …"
            )

    def _sync(self) -> Client:
        self.check_made()
        return super()._sync()

    def _current(self) -> AsyncClient:
        self.check_made()
        return super()._current()

    def _check_new(self) -> None:
        if self.id:
            raise InvalidSetting(f"batch {self.id} was made already; call app.batch() for another one")


class OwnBatch(BatchHandle):
    """The batch of a job, as its handler sees it.

    It uses the clients of the handler's Context, and the job is the parent of the jobs that it adds.
    """

    def __init__(self, access: HandlerAccess, clients: Clients) -> None:
        batch_id = access.job.batch_id
        if batch_id is None:
            raise InvalidSetting(f"job {access.job.id} is in no batch, and is no batch's callback")
        super().__init__(batch_id, clients)
        self._access = access

    def cancel(self, *, reason: str) -> Bulk:
        """Cancel the jobs of the batch, including this one; its category needs the capability "domain"."""
        self._access.require("domain")
        return super().cancel(reason=reason)

    async def acancel(self, *, reason: str) -> Bulk:
        """Cancel the jobs of the batch, including this one; its category needs the capability "domain"."""
        self._access.require("domain")
        return await super().acancel(reason=reason)

    def _sync(self) -> Client:
        return self._access.sync()

    def _current(self) -> AsyncClient:
        return self._access.current()

    def _around(self) -> AbstractContextManager[None]:
        return running(self._access.job)


def read_batch(value: object) -> JobId | None:
    """Return the id of a batch, from its handle or from an id; None for None."""
    if value is None:
        return None
    if isinstance(value, OpenBatch):
        value.check_made()
    found = getattr(value, "id", value)
    if not isinstance(found, str | UUID) or not found:
        raise InvalidJob(f"batch is {value!r:.80}; give a batch, or its id")
    return normalise_id(found, of="batch")


def _why(kind: type[BaseException]) -> str:
    return f"the block that filled it raised {kind.__name__}"


def _no_job(value: object) -> NoReturn:
    raise InvalidJob(f"{value!r:.80} is no job; give a NewJob, such as .build() returns")


def _ended(batch: Batch, timeout: Duration | None) -> Batch:
    if batch.ended_at is None:
        waited = duration("timeout", timeout).total_seconds()
        left = batch.waiting + batch.running
        raise JobNotEnded(
            f"batch {batch.id} has {left} of {batch.total} jobs left after {waited:g} s"
            f"{', and is open' if batch.open else ''}; give a longer timeout="
        )
    return batch


def _succeeded(batch: Batch) -> Batch:
    if batch.dead or batch.cancelled:
        raise BatchFailed(
            f"of {batch.total} jobs of batch {batch.id}, {batch.dead} are dead and {batch.cancelled} "
            "cancelled; join() returns the batch, client.batches.jobs() its jobs",
            batch_id=batch.id,
        )
    return batch
