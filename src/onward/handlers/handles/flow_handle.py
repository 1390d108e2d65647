"""The values of `.using(after=…)`, and the handle of a flow that was enqueued."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Protocol
from uuid import UUID

from onward.core.flows.flow import Flow
from onward.core.inputs.duration import Duration
from onward.core.jobs.history import Cancellation
from onward.core.jobs.ids import JobId, normalise_id
from onward.core.jobs.job import Enqueued, Job, NewJob
from onward.errors import InvalidJob
from onward.handlers.clients import Clients
from onward.handlers.handles.handle import Handle, check_may_wait, countdown, result_of


class _HasId(Protocol):
    """A handle, the answer to an enqueue, or a job."""

    @property
    def id(self) -> JobId: ...


After = _HasId | str | UUID | Iterable[_HasId | str | UUID]
"""The jobs that a job waits for: a handle, a job or an id, or many of them."""


def read_after(value: object) -> tuple[JobId, ...]:
    """Return the ids of the jobs to wait for; none for None."""
    if value is None:
        return ()
    values: Iterable[Any] = value if isinstance(value, Iterable) and not isinstance(value, str) else [value]
    return tuple(map(_read_id, values))


def _read_id(one: Any) -> JobId:
    if isinstance(one, NewJob | Flow):
        raise InvalidJob(
            "after has a job that is not stored yet; enqueue it first, or put both into a flow: a.then(b)"
        )
    found = getattr(one, "id", one)
    if not isinstance(found, str | UUID):
        raise InvalidJob(f"after has {one!r:.80}; give handles, jobs or ids")
    return normalise_id(found)


class FlowHandle(Sequence[Handle[Any]]):
    """The jobs of a flow that was enqueued: a sequence of their handles, in the order of the flow."""

    def __init__(self, enqueued: Iterable[Enqueued], clients: Clients) -> None:
        self._handles = [Handle[Any](one, clients) for one in enqueued]
        self._clients = clients

    def __repr__(self) -> str:
        return f"FlowHandle({len(self._handles)} jobs, the first is {self._handles[0].id})"

    def __len__(self) -> int:
        return len(self._handles)

    def __getitem__(self, place: Any) -> Any:
        return self._handles[place]

    @property
    def ids(self) -> list[JobId]:
        """The ids of the jobs."""
        return [one.id for one in self._handles]

    def refresh(self) -> list[Job]:
        """Read the jobs, and update the states of their handles."""
        return self._seen(self._clients.sync.jobs.get_many(self.ids))

    async def arefresh(self) -> list[Job]:
        """Read the jobs, and update the states of their handles."""
        return self._seen(await self._clients.current().jobs.get_many(self.ids))

    def join(self, timeout: Duration | None = None) -> list[Job]:
        """Wait for the end of all jobs and return them; raises JobNotEnded after `timeout`."""
        check_may_wait("flow.join()", "await flow.ajoin()", timeout)
        left = countdown(timeout)
        return [one.join(left()) for one in self._handles]

    async def ajoin(self, timeout: Duration | None = None) -> list[Job]:  # noqa: ASYNC109 - as a handle's
        """Wait for the end of all jobs and return them; raises JobNotEnded after `timeout`."""
        left = countdown(timeout)
        return [await one.ajoin(left()) for one in self._handles]

    def result(self, timeout: Duration | None = None) -> list[Any]:
        """Wait for the end of all jobs and return their results, in the order of the flow.

        Raises JobFailed for the first that is dead or cancelled, JobNotEnded after `timeout`.
        """
        check_may_wait("flow.result()", "await flow.aresult()", timeout)
        return [result_of(job) for job in self.join(timeout)]

    async def aresult(self, timeout: Duration | None = None) -> list[Any]:  # noqa: ASYNC109 - as a handle's
        """Wait for the end of all jobs and return their results, in the order of the flow.

        Raises JobFailed for the first that is dead or cancelled, JobNotEnded after `timeout`.
        """
        return [result_of(job) for job in await self.ajoin(timeout)]

    def cancel(self, *, reason: str) -> list[Cancellation]:
        """Cancel the waiting jobs, and ask the running ones to give way; raises JobNotFound."""
        return [one.cancel(reason=reason) for one in self._last_first()][::-1]

    async def acancel(self, *, reason: str) -> list[Cancellation]:
        """Cancel the waiting jobs, and ask the running ones to give way; raises JobNotFound."""
        return [await one.acancel(reason=reason) for one in self._last_first()][::-1]

    def _last_first(self) -> list[Handle[Any]]:
        # Followers first: each job is then cancelled for this reason, not because its parent was cancelled.
        return self._handles[::-1]

    def _seen(self, found: dict[JobId, Job]) -> list[Job]:
        for one in self._handles:
            one.state = found[one.id].state if one.id in found else None
        return [found[one.id] for one in self._handles if one.id in found]
