"""The Context of a handler: what it may ask of the worker that runs it."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Iterable, Iterator
from datetime import datetime
from decimal import Decimal
from functools import partial
from typing import IO, Any, ParamSpec, TypeVar, Unpack, overload

from onward.blobs.content import ArtifactOptions, Content
from onward.clients.client import AsyncClient
from onward.clients.sync.client import Client
from onward.core.inputs.duration import Duration
from onward.core.jobs.job import Job, NewJob
from onward.core.policy.category import Capability
from onward.core.policy.contract import check_may
from onward.core.records.artifact import Artifact
from onward.core.records.usage import Usage
from onward.core.secrets.redaction import Hide
from onward.core.work.lifecycle import Cancelled
from onward.core.work.progress import Report
from onward.core.work.retry import RetryPolicy
from onward.errors import TransactionOpen
from onward.handlers.clients import Clients, confined, trusted
from onward.handlers.context.context_effects import Acting, once, perform, perform_async, step
from onward.handlers.context.context_progress import track
from onward.handlers.context.context_waits import MISSING, Awaiting, Waits, sleep_for, sleep_until, wait_for
from onward.handlers.context.event_loop import check_may_block
from onward.handlers.context.providers import call, call_async, calls_of, check_plain
from onward.handlers.context.transaction_entry import Opening
from onward.handlers.handler import Run
from onward.handlers.handles.batch_handle import BatchHandle, HandlerAccess, OwnBatch
from onward.handlers.handles.handle import Handle
from onward.logs import HIDE, get_logger
from onward.origin import running

P = ParamSpec("P")
T = TypeVar("T")

_log = get_logger("onward.job")
_CHECK_SECONDS = 0.5
# The default lets `ctx.once(fn)`, which leaves out the name, reach a check whose error says so; Python would
# only report a missing argument.
_NO_FUNCTION: Any = None


class Context:
    """The running job, as its handler sees it; a parameter with this annotation receives it."""

    __slots__ = ("_adapter", "_cancellation_seen", "_clients", "_hider", "_opening", "_run", "_waits")

    def __init__(self, run: Run, clients: Clients) -> None:
        self._run = run
        self._clients = clients
        self._cancellation_seen = False
        self._adapter: logging.LoggerAdapter[logging.Logger] | None = None
        self._hider: Hide | None = None
        self._opening: Opening | None = None
        self._waits: Waits | None = None

    @property
    def job(self) -> Job:
        """The job as it was claimed."""
        return self._run.job

    @property
    def client(self) -> Client:
        """A client confined to the org and the project of this job; without any, the application's client.

        It can change other jobs, so the category of this job must have the capability "domain".
        """
        self.require("domain")
        open_client = self._opening and self._opening.sync
        return open_client or confined(self._clients.sync, self._run.job)

    @property
    def aclient(self) -> AsyncClient:
        """An async client for the running event loop, confined to the org and the project of this job.

        Without any it is the application's client. It can change other jobs, so the category of this job must
        have the capability "domain".
        """
        self.require("domain")
        open_client = self._opening and self._opening.current
        return open_client or confined(self._clients.current(), self._run.job)

    @property
    def _sync(self) -> Client:
        if self._opening is not None and self._opening.sync is not None:
            return self._opening.sync
        return trusted(self._clients.sync, self._run.job)

    @property
    def _current(self) -> AsyncClient:
        if self._opening is not None and self._opening.current is not None:
            return self._opening.current
        return trusted(self._clients.current(), self._run.job)

    def transaction(self, connection: Any = None) -> Opening:
        """Begin a transaction, by `with` or `async with`, that ends this job and commits with its block.

        It runs on your connection, of any kind that `within()` takes, or on a new one. What `ctx` does inside
        the block belongs to the transaction. An error rolls it back. So does a lost lease, which raises
        LeaseLost.
        """
        self.require("domain")
        self._opening = Opening(self._run, self._clients, connection, self._opening)
        return self._opening

    @property
    def log(self) -> logging.LoggerAdapter[logging.Logger]:
        """A logger whose records carry `job_id`, `job_type` and `attempt`."""
        if self._adapter is None:
            job = self._run.job
            about = {"job_id": job.id, "job_type": job.job_type, "attempt": job.attempt}
            self._adapter = logging.LoggerAdapter(_log, {**about, HIDE: self._hide})
        return self._adapter

    @property
    def _hide(self) -> Hide:
        self._hider = self._hider or self._clients.policies.settings.redact.hider(self._run.job.payload)
        return self._hider

    @property
    def cancelled(self) -> bool:
        """Whether the handler should stop early."""
        self._cancellation_seen = self._cancellation_seen or self._run.cancel_reason is not None
        return self._cancellation_seen

    def check_cancelled(self) -> None:
        """Raise Cancelled if the handler should stop early."""
        if self.cancelled:
            raise Cancelled(self._run.cancel_reason or "cancelled")

    def _give_way(self) -> None:
        # Only once: a handler that knows of the cancellation may still undo its work, by steps and effects.
        if not self._cancellation_seen:
            self.check_cancelled()

    def sleep(self, seconds: float) -> None:
        """Sleep; raises Cancelled as soon as the handler should give way."""
        check_may_block("ctx.sleep()", "await ctx.asleep(…)")
        if self._run.wait_cancelled(seconds):
            self.check_cancelled()

    async def asleep(self, seconds: float) -> None:
        """Sleep; raises Cancelled as soon as the handler should give way."""
        ends_at = time.monotonic() + seconds
        while (left := ends_at - time.monotonic()) > 0:
            await asyncio.sleep(min(left, _CHECK_SECONDS))
            # An event loop that a thread runs for itself is not cancelled from outside, so check here.
            self.check_cancelled()

    @overload
    def call_provider(
        self, function: Callable[..., T], /, *args: Any, retry: RetryPolicy, **kwargs: Any
    ) -> T: ...
    @overload
    def call_provider(self, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T: ...
    def call_provider(self, function: Callable[..., T], /, *args: Any, **kwargs: Any) -> T:
        """Call a function, and repeat the call while the provider reports too many calls.

        The pauses follow `retry`, or the `inner_retry` of the category. Any other error is raised at once.
        """
        check_plain(function)
        calls = calls_of(self._run, self._clients.policies, kwargs)
        return call(calls, partial(function, *args, **kwargs), self.sleep)

    @overload
    async def acall_provider(
        self, function: Callable[..., Awaitable[T]], /, *args: Any, retry: RetryPolicy, **kwargs: Any
    ) -> T: ...
    @overload
    async def acall_provider(
        self, function: Callable[P, Awaitable[T]], /, *args: P.args, **kwargs: P.kwargs
    ) -> T: ...
    async def acall_provider(self, function: Callable[..., Awaitable[T]], /, *args: Any, **kwargs: Any) -> T:
        """Await a function's call, and repeat it while the provider reports too many calls.

        The pauses follow `retry`, or the `inner_retry` of the category. Any other error is raised at once.
        """
        calls = calls_of(self._run, self._clients.policies, kwargs)
        return await call_async(calls, partial(function, *args, **kwargs), self.asleep)

    @overload
    def progress(self, items: Iterable[T], total: float | None = None) -> Iterator[T]: ...
    @overload
    def progress(self, items: AsyncIterable[T], total: float | None = None) -> AsyncIterator[T]: ...
    def progress(
        self, items: Iterable[T] | AsyncIterable[T], total: float | None = None
    ) -> Iterator[T] | AsyncIterator[T]:
        """Yield the items, by `for` or `async for` as they are, and report how many of `total` are done.

        Without a `total` it is len(items), if they have one. Raises Cancelled if the handler should give way.
        """
        return track(items, total, self._run.report, self.check_cancelled)

    def report(self, done: float, total: float | None = None, note: str | None = None) -> None:
        """Report how far the job is; the worker stores the newest report, at most once a second."""
        self._run.report(Report.checked(done, total, note, self._hide))

    def audit(self, action: str, /, **detail: Any) -> None:
        """Add a record to this job's audit, at every audit level; raises LeaseLost if the lease is lost."""
        self.require("audit")
        self._sync.worker.note(self._run.job.held_lease, action, detail)

    async def aaudit(self, action: str, /, **detail: Any) -> None:
        """Add a record to this job's audit, at every audit level; raises LeaseLost if the lease is lost."""
        self.require("audit")
        await self._current.worker.note(self._run.job.held_lease, action, detail)

    @property
    def dry_run(self) -> bool:
        """Whether effects are skipped, because the application or ONWARD_DRY_RUN turns dry runs on."""
        return self._clients.policies.settings.dry_run

    def once(self, name: str, function: Callable[..., Any] = _NO_FUNCTION) -> Any:
        """Do an effect that a retry does not repeat; return its result, as JSON stores it.

        A function that takes an argument gets the idempotency key, which stays the same until the effect is
        done. Raises LeaseLost if the lease is lost. In a dry run the function is not called, and the result
        is None.
        """
        self.require("domain")
        self._give_way()
        return perform(once(self._acting(self._sync, self._run.wait_cancelled), name, function))

    async def aonce(self, name: str, function: Callable[..., Any] = _NO_FUNCTION) -> Any:
        """Do an effect that a retry does not repeat; return its result, as JSON stores it.

        The function may be async or plain. If it takes an argument, it gets the idempotency key, which stays
        the same until the effect is done. Raises LeaseLost if the lease is lost. In a dry run the function is
        not called, and the result is None.
        """
        self.require("domain")
        return await perform_async(once(self._acting(self._current, asyncio.sleep), name, function))

    def step(self, name: str, function: Callable[[], Any] = _NO_FUNCTION) -> Any:
        """Return the function's result, as JSON stores it; a retry returns the stored result."""
        self._give_way()
        return perform(step(self._acting(self._sync, self._run.wait_cancelled), name, function))

    async def astep(self, name: str, function: Callable[[], Any] = _NO_FUNCTION) -> Any:
        """Return the function's result, as JSON stores it; a retry returns the stored result.

        The function may be async or plain.
        """
        return await perform_async(step(self._acting(self._current, asyncio.sleep), name, function))

    def sleep_until(self, instant: datetime) -> None:
        """Free the slot until `instant`, then run the handler again from its start.

        Return at once if the attempt began later. Remember work done before the wait, by `step` or `once`.
        """
        self._check_may_leave()
        sleep_until(instant, self._run.job.started_at)

    async def asleep_until(self, instant: datetime) -> None:
        """Free the slot until `instant`, then run the handler again from its start.

        Return at once if the attempt began later. Remember work done before the wait, by `astep` or `aonce`.
        """
        self.sleep_until(instant)

    def sleep_for(self, length: Duration, *, name: str | None = None) -> None:
        """Free the slot until `length` after the handler first reached this call; then run it from its start.

        A retry recognises the wait by its `name`, or by its number among the unnamed ones. Work done before
        must be remembered, by `step` or `once`.
        """
        waits = self._check_may_leave()
        perform(sleep_for(self._acting(self._sync, self._run.wait_cancelled), waits, length, name))

    async def asleep_for(self, length: Duration, *, name: str | None = None) -> None:
        """Free the slot until `length` after the handler first reached this call; then run it from its start.

        A retry recognises the wait by its `name`, or by its number among the unnamed ones. Work done before
        must be remembered, by `astep` or `aonce`.
        """
        waits = self._check_may_leave()
        await perform_async(sleep_for(self._acting(self._current, asyncio.sleep), waits, length, name))

    def wait_for(
        self,
        event: str,
        key: str | None = None,
        *,
        timeout: Duration | None = None,
        default: Any = MISSING,
    ) -> Any:
        """Leave the slot until `app.signal(event, key=…)` is sent in the job's org; return its payload.

        A signal sent earlier counts while it is kept, and each wait takes a signal of its own. After
        `timeout` the call raises WaitTimedOut, or returns the default.
        """
        waits, awaited = self._check_may_leave(), Awaiting(event, key, timeout, default)
        client = self._sync
        acting = self._acting(client, self._run.wait_cancelled)
        return perform(wait_for(acting, client.worker.signals, waits, awaited))

    async def await_for(
        self,
        event: str,
        key: str | None = None,
        *,
        timeout: Duration | None = None,  # noqa: ASYNC109 - the job waits, not this call
        default: Any = MISSING,
    ) -> Any:
        """Leave the slot until `app.signal(event, key=…)` is sent in the job's org; return its payload.

        A signal sent earlier counts while it is kept, and each wait takes a signal of its own. After
        `timeout` the call raises WaitTimedOut, or returns the default.
        """
        waits, awaited = self._check_may_leave(), Awaiting(event, key, timeout, default)
        client = self._current
        acting = self._acting(client, asyncio.sleep)
        return await perform_async(wait_for(acting, client.worker.signals, waits, awaited))

    def _check_may_leave(self) -> Waits:
        if self._opening is not None and (self._opening.sync or self._opening.current):
            raise TransactionOpen("a wait would roll back ctx.transaction(); wait before it begins")
        self._waits = self._waits or Waits()
        return self._waits

    def _acting(self, client: Client | AsyncClient, wait: Callable[[float], Any]) -> Acting:
        return Acting(self._run.job, client.worker.effects, self.log, wait, client.worker.note, self.dry_run)

    def meter(self, unit: str, amount: float | Decimal = 1, *, cost_micros: int = 0) -> None:
        """Count what this attempt uses, and its cost in millionths of a currency.

        It is written with the end of the attempt, whatever the outcome. It is lost if the worker dies before.
        """
        self._run.meter(Usage.checked(unit, amount, cost_micros))

    def artifact(
        self, name: str, data: Content | None = None, **options: Unpack[ArtifactOptions]
    ) -> Artifact:
        """Store a file that this job made: `path=`, `text=` or bytes; raises LeaseLost for a lost lease."""
        self.require("artifact")
        return self._sync.worker.artifacts.add(self._run.job, name, data, **options)

    async def aartifact(
        self, name: str, data: Content | None = None, **options: Unpack[ArtifactOptions]
    ) -> Artifact:
        """Store a file that this job made: `path=`, `text=` or bytes; raises LeaseLost for a lost lease."""
        self.require("artifact")
        return await self._current.worker.artifacts.add(self._run.job, name, data, **options)

    def open_artifact(self, artifact: str, *, role: str | None = None) -> IO[bytes]:
        """Open a verified copy of an artifact of this job's org, by id or ref; raises ArtifactNotFound."""
        return self._sync.worker.artifacts.open(self._run.job, artifact, role=role)

    async def aopen_artifact(self, artifact: str, *, role: str | None = None) -> IO[bytes]:
        """Open a verified copy of an artifact of this job's org, by id or ref; raises ArtifactNotFound."""
        return await self._current.worker.artifacts.open(self._run.job, artifact, role=role)

    def enqueue(self, new: NewJob) -> Handle[Any]:
        """Store a child of this job, which inherits its org, project, actor, correlation and trace."""
        with running(self._run.job):
            # Inside a transaction there is no other client.
            client = self._clients.sync if self._opening is None else self._sync
            return Handle(client.enqueue(new), self._clients)

    async def aenqueue(self, new: NewJob) -> Handle[Any]:
        """Store a child of this job, which inherits its org, project, actor, correlation and trace."""
        with running(self._run.job):
            client = self._clients.current() if self._opening is None else self._current
            return Handle(await client.enqueue(new), self._clients)

    @property
    def batch(self) -> BatchHandle:
        """The batch that this job is in, or whose callback it is.

        It shows the batch's progress, and adds jobs to it.
        """
        access = HandlerAccess(self._run.job, lambda: self._sync, lambda: self._current, self.require)
        return OwnBatch(access, self._clients)

    def parents(self) -> list[Job]:
        """Return the jobs that this one has waited for, with `job_type`, `state`, `result`; oldest first."""
        return self._sync.worker.parents(self._run.job.id)

    async def aparents(self) -> list[Job]:
        """Return the jobs that this one has waited for, with `job_type`, `state`, `result`; oldest first."""
        return await self._current.worker.parents(self._run.job.id)

    def require(self, capability: Capability) -> None:
        """Raise NotAllowed if the category of this job does not have a capability."""
        check_may(self._run.job, capability, self._clients.policies)
