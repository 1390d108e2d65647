"""What a handler may ask of the worker that runs it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

import msgspec

from onward.core.job import Job, NewJob
from onward.core.lifecycle import Cancelled
from onward.errors import InvalidSetting
from onward.handlers.clients import Clients
from onward.handlers.handle import Handle
from onward.handlers.handler import Run

__all__ = ["Context"]

T = TypeVar("T")

_log = logging.getLogger("onward.job")


class Context:
    """The running job, as its handler sees it; a parameter with this annotation is given one."""

    __slots__ = ("_adapter", "_clients", "_run")

    def __init__(self, run: Run, clients: Clients) -> None:
        self._run = run
        self._clients = clients
        self._adapter: logging.LoggerAdapter[logging.Logger] | None = None

    @property
    def job(self) -> Job:
        """Give the job as it was claimed."""
        return self._run.job

    @property
    def log(self) -> logging.LoggerAdapter[logging.Logger]:
        """Give a logger whose records carry `job_id`, `job_type` and `attempt`."""
        if self._adapter is None:
            job = self._run.job
            about = {"job_id": job.id, "job_type": job.job_type, "attempt": job.attempt}
            self._adapter = logging.LoggerAdapter(_log, about)
        return self._adapter

    @property
    def cancelled(self) -> bool:
        """Tell whether the handler should give way."""
        return self._run.cancel_reason is not None

    def check_cancelled(self) -> None:
        """Raise Cancelled if the handler should give way."""
        reason = self._run.cancel_reason
        if reason is not None:
            raise Cancelled(reason)

    def sleep(self, seconds: float) -> None:
        """Sleep in a sync handler; raises Cancelled as soon as it should give way."""
        if asyncio._get_running_loop() is not None:  # noqa: SLF001 - the public form raises, in every thread
            raise InvalidSetting("ctx.sleep() would block the event loop; use await asyncio.sleep(…) here")
        if self._run.wait_cancelled(seconds):
            raise Cancelled(self._run.cancel_reason or "cancelled")

    def progress(self, items: Iterable[T]) -> Iterator[T]:
        """Give the items one by one, each time with a look whether to give way."""
        for item in items:
            self.check_cancelled()
            yield item

    def enqueue(self, new: NewJob) -> Handle[Any]:
        """Store a child of this job, which carries on its org, project, actor, correlation and trace."""
        return Handle(self._clients.sync.enqueue(self._child(new)), self._clients)

    async def aenqueue(self, new: NewJob) -> Handle[Any]:
        """Do the same, awaited."""
        return Handle(await self._clients.current().enqueue(self._child(new)), self._clients)

    def _child(self, new: NewJob) -> NewJob:
        job = self._run.job
        inherited = {
            "org_id": job.org_id,
            "project_id": job.project_id,
            "request_id": job.request_id,
            "correlation_id": job.correlation_id or job.id,
            "traceparent": job.traceparent,
            "parent_id": job.id,
        }
        # The two name one actor together.
        if new.actor_type is None and new.actor_id is None:
            inherited |= {"actor_type": job.actor_type, "actor_id": job.actor_id}
        unset = {name: value for name, value in inherited.items() if getattr(new, name) is None}
        return msgspec.structs.replace(new, **unset)
