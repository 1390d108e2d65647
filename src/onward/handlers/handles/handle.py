"""The handle of a job that was enqueued: read its state, wait for its end, take its result, cancel it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from typing import Any, Generic, TypeVar
from uuid import UUID

import msgspec
from msgspec.structs import replace

from onward.core.inputs.checks import not_negative
from onward.core.inputs.duration import Duration
from onward.core.jobs.history import Cancellation
from onward.core.jobs.ids import JobId, normalise_id
from onward.core.jobs.job import ENDED, Change, Enqueued, Job, JobState
from onward.core.secrets.redaction import REDACTION
from onward.core.work.error_record import ErrorRecord
from onward.core.work.progress import Progress
from onward.errors import JobFailed, JobNotEnded
from onward.handlers.clients import Clients
from onward.handlers.context.event_loop import check_may_block

R_co = TypeVar("R_co", covariant=True)

_FIRST_PAUSE, _GROWTH, _LONGEST_PAUSE = 0.02, 1.5, 0.5


# `gc=False`: no reference cycle leads through a handle. With many thousands of handles, the search for cycles
# took longer than making them.
class Handle(msgspec.Struct, Generic[R_co], eq=False, gc=False):
    """A job that was enqueued."""

    _enqueued: Enqueued
    _clients: Clients
    _progress: Progress | None = None

    @property
    def id(self) -> JobId:
        """The id of the job."""
        return self._enqueued.id

    @property
    def state(self) -> JobState | None:
        """The state that was last read; None if none was, or if the job was removed and its key is left."""
        return self._enqueued.state

    @state.setter
    def state(self, state: JobState | None) -> None:
        self._enqueued = replace(self._enqueued, state=state)

    @property
    def created(self) -> bool:
        """Whether this enqueue made a new job; False if an earlier job held its key."""
        return self._enqueued.created

    @property
    def change(self) -> Change | None:
        """What the enqueue did to the job that held the key."""
        return self._enqueued.change

    @property
    def progress(self) -> Progress | None:
        """How far the job was when it was last read; None if its handler reported nothing."""
        return self._progress

    def __repr__(self) -> str:
        return f"Handle({self.id}, {self.state}, created={self.created})"

    def refresh(self) -> Job:
        """Read the job, and update the state of this handle."""
        return self._seen(self._clients.sync.jobs.get(self.id))

    async def arefresh(self) -> Job:
        """Read the job, and update the state of this handle."""
        return self._seen(await self._clients.current().jobs.get(self.id))

    def join(self, timeout: Duration | None = None) -> Job:
        """Wait until the job has ended and return it, whatever its outcome.

        Raises JobNotEnded after `timeout`.
        """
        check_may_wait("handle.join()", "await handle.ajoin()", timeout)
        return self._joined(timeout)

    def _joined(self, timeout: Duration | None) -> Job:
        for pause in pauses(timeout):
            job = self.refresh()
            if job.state in ENDED:
                return job
            time.sleep(pause)
        return _ended(self.refresh(), timeout)

    async def ajoin(self, timeout: Duration | None = None) -> Job:  # noqa: ASYNC109 - an error of its own
        """Wait until the job has ended and return it, whatever its outcome.

        Raises JobNotEnded after `timeout`.
        """
        for pause in pauses(timeout):
            job = await self.arefresh()
            if job.state in ENDED:
                return job
            await asyncio.sleep(pause)
        return _ended(await self.arefresh(), timeout)

    def result(self, timeout: Duration | None = None) -> R_co:
        """Wait for the end and return what the handler returned, as JSON stores it.

        Raises JobFailed for a job that is dead or cancelled, JobNotEnded after `timeout`.
        """
        check_may_wait("handle.result()", "await handle.aresult()", timeout)
        return result_of(self._joined(timeout))  # type: ignore[no-any-return]

    async def aresult(self, timeout: Duration | None = None) -> R_co:  # noqa: ASYNC109 - as ajoin()
        """Wait for the end and return what the handler returned, as JSON stores it.

        Raises JobFailed for a job that is dead or cancelled, JobNotEnded after `timeout`.
        """
        return result_of(await self.ajoin(timeout))  # type: ignore[no-any-return]

    def cancel(self, *, reason: str) -> Cancellation:
        """Cancel the job if it waits, or ask its handler to give way; raises JobNotFound."""
        answer = self._clients.sync.jobs.cancel(self.id, reason=reason)
        self.state = answer.state
        return answer

    async def acancel(self, *, reason: str) -> Cancellation:
        """Cancel the job if it waits, or ask its handler to give way; raises JobNotFound."""
        answer = await self._clients.current().jobs.cancel(self.id, reason=reason)
        self.state = answer.state
        return answer

    def run_now(self, *, reason: str) -> Job:
        """Let the job run now if it waits for its time; raises JobNotFound and JobNotScheduled."""
        return self._seen(self._clients.sync.jobs.run_now(self.id, reason=reason))

    async def arun_now(self, *, reason: str) -> Job:
        """Let the job run now if it waits for its time; raises JobNotFound and JobNotScheduled."""
        return self._seen(await self._clients.current().jobs.run_now(self.id, reason=reason))

    def _seen(self, job: Job) -> Job:
        self.state, self._progress = job.state, job.progress
        return job


def check_may_wait(call: str, instead: str, timeout: Duration | None) -> None:
    """Raise InvalidSetting on a thread whose event loop runs, unless the call only reads: with 0 it does."""
    if timeout != 0:
        check_may_block(call, instead)


def handle_of(job_id: str | UUID, clients: Clients) -> Handle[Any]:
    """Return the handle of a job by its id, with an unknown state; raises InvalidJob for what is no id."""
    return Handle(Enqueued(normalise_id(job_id), None, created=False), clients)


def pauses(timeout: Duration | None) -> Iterator[float]:
    """Yield growing pauses, in seconds, until `timeout` is over."""
    end = None if timeout is None else time.monotonic() + not_negative("timeout", timeout).total_seconds()
    pause = _FIRST_PAUSE
    while True:
        left = pause if end is None else end - time.monotonic()
        if left <= 0:
            return
        yield min(pause, left)
        pause = min(pause * _GROWTH, _LONGEST_PAUSE)


def countdown(timeout: Duration | None) -> Callable[[], float | None]:
    """Return a function that returns the seconds left of `timeout`, or None without a timeout."""
    if timeout is None:
        return lambda: None
    end = time.monotonic() + not_negative("timeout", timeout).total_seconds()
    return lambda: max(0.0, end - time.monotonic())


def _ended(job: Job, timeout: Duration | None) -> Job:
    if job.state not in ENDED:
        waited = not_negative("timeout", timeout).total_seconds()
        raise JobNotEnded(
            f"job {job.id} ({job.job_type}) is still {job.state} after {waited:g} s; give a longer timeout="
        )
    return job


def result_of(job: Job) -> Any:
    """Return the result of an ended job; raise JobFailed unless it succeeded."""
    if job.state == JobState.SUCCEEDED:
        return job.result
    error = (job.error or ErrorRecord()).redacted(REDACTION)
    if job.state == JobState.CANCELLED:
        why = f"was cancelled: {error.reason or 'no reason was given'}"
    else:
        what = error.summary or "no error was stored"
        why = f"is dead after attempt {job.attempt} of {job.max_attempts}: {what}"
    raise JobFailed(f"job {job.id} ({job.job_type}) {why}", job_id=job.id)
