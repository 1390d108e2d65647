"""The handlers of a worker: which can run, which must be imported first, and which job types are skipped."""

from __future__ import annotations

from collections.abc import Callable, Mapping, MutableMapping
from datetime import timedelta
from types import CoroutineType
from typing import Any, TypeAlias, cast

from onward.clients.client import AsyncClient
from onward.core.jobs.job import Job
from onward.core.work.lifecycle import Failed, Outcome, RateLimited, Skip
from onward.errors import StoreError
from onward.handlers.handler import Handler
from onward.logs import get_logger
from onward.worker.attempts.handler_frames import without_worker_frames
from onward.worker.attempts.outcomes import outcome_of, unknown, unknown_for
from onward.worker.attempts.thread_slots import Threads

log = get_logger("onward.worker")

_OFF = "its job type has enabled=False"

Rest: TypeAlias = "CoroutineType[Any, Any, Outcome]"
"""The rest of a run that has to wait."""


class KnownHandlers:
    """The handlers by job type; those in `runnable` need nothing before they run."""

    def __init__(
        self,
        handlers: Mapping[str, Handler],
        client: AsyncClient,
        *,
        threads: Threads,
        errors: MutableMapping[str, BaseException],
    ) -> None:
        self._handlers = dict(handlers)
        self._client = client
        self._policies = client.policies
        self._threads = threads
        self._errors = errors
        self._off = {name: _OFF for name, one in handlers.items() if not one.declared.enabled}
        self.skipped: Mapping[str, str] = {}
        self.runnable: dict[str, Handler] = {}
        self.skip({})

    def skip(self, reasons: Mapping[str, str]) -> None:
        """Skip the jobs of these types from now on, besides those that the code disables."""
        self.skipped = {**self._off, **reasons}
        self.runnable = {
            name: one for name, one in self._handlers.items() if one.load is None and name not in self.skipped
        }

    def otherwise(self, job: Job, start: Callable[[], Outcome | Rest]) -> Outcome | Rest:
        """Return what becomes of a job whose type is not runnable; `start` is called once it is."""
        reason = self.skipped.get(job.job_type)
        if reason is not None:
            log.info("job %s %s is skipped: %s", job.job_type, job.id, reason)
            return Skip(reason)
        handler = self._handlers.get(job.job_type)
        if handler is None or handler.load is None:
            return cast("Rest", self._unknown(job))
        return cast("Rest", self._load(job, handler.load, start))

    async def _unknown(self, job: Job) -> Outcome:
        """Return the outcome of a job without a handler; ask for workers that know it before it dies."""
        length, longest = unknown_for(job), self._policies.settings.unknown_after
        if length >= longest:
            try:
                silence = await self._client.worker.type_unknown_for(
                    job.job_type, org_id=job.org_id, project_id=job.project_id
                )
            except StoreError:
                silence = timedelta()
            length = length if silence is None else min(length, silence)
        return unknown(job, length, longest, self._handlers.keys())

    async def _load(
        self, job: Job, load: Callable[[], Handler], start: Callable[[], Outcome | Rest]
    ) -> Outcome:
        """Import a handler in a thread, because that may take long, and run the job by it."""
        try:
            self._handlers[job.job_type] = await self._threads.call(load, {})
        except (Exception, SystemExit) as error:  # noqa: BLE001 - a module may raise anything
            failed = outcome_of(error, job, self._policies)
            if isinstance(failed, Failed | RateLimited):
                self._errors[job.id] = without_worker_frames(error)
            return failed
        self.skip({name: reason for name, reason in self.skipped.items() if name not in self._off})
        outcome = start()
        return await outcome if isinstance(outcome, CoroutineType) else outcome
