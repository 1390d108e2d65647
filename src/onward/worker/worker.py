"""The worker: starts, connects and stops its loops; no loop is started elsewhere."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from types import TracebackType
from typing import Any, Self

from onward.core.inputs.checks import whole
from onward.core.inputs.duration import Duration, duration
from onward.core.jobs.job import Job
from onward.core.work.claim import Watch
from onward.core.work.lifecycle import End, Released, Transition
from onward.errors import StoreUnreachable
from onward.handlers.clients import Clients
from onward.handlers.handler import Handler
from onward.handlers.start_hooks import StartHook
from onward.logs import get_logger
from onward.stores import open_wakeups
from onward.worker.attempts.attempt import Ran
from onward.worker.attempts.authorization import Authorize
from onward.worker.attempts.breaker_gate import Breakers
from onward.worker.attempts.executor import Executor
from onward.worker.claiming.buffer import Buffer
from onward.worker.claiming.claimer import Claimer
from onward.worker.claiming.throughput import Pace
from onward.worker.description import Kind, about, check_queues, describe
from onward.worker.finishing.finisher import Finisher
from onward.worker.loops.admitter import Admitter
from onward.worker.loops.alerter import Alerter
from onward.worker.loops.due_poll import Chores
from onward.worker.loops.lease_keeper import Keeper
from onward.worker.loops.periodic import Sweeper, promote, seal, settle, vacuum, wake
from onward.worker.loops.scheduler import Scheduler
from onward.worker.loops.timeouts import Tidier
from onward.worker.outage import Outage
from onward.worker.stopping import Stopping
from onward.worker.tally import Tally

log = get_logger("onward.worker")

LEASE = GRACE = timedelta(seconds=30)
_LAST_WRITES = 2.0
_LAST_WORDS = 0.5
_LAST_ALERTS = 5.0


class Worker:
    """Runs the jobs of some queues until it is stopped."""

    def __init__(
        self,
        handlers: Mapping[str, Handler],
        clients: Clients,
        *,
        queues: Mapping[str, int | None] | None = None,
        concurrency: int = 10,
        lease: Duration = LEASE,
        grace: Duration = GRACE,
        drain: bool = False,
        max_jobs: int | None = None,
        max_time: Duration | None = None,
        on_registered: Callable[[str], None] | None = None,
        on_end: Callable[[Job, Transition], None] | None = None,
        authorize: Authorize | None = None,
        on_start: Sequence[StartHook] = (),
        kind: Kind = "worker",
    ) -> None:
        whole("concurrency", concurrency, 1, 10_000)
        check_queues(queues)
        self._handlers = handlers
        self._clients = clients
        self._queues = queues
        self._concurrency = concurrency
        self._lease = duration("lease", lease)
        self._grace = duration("grace", grace)
        self._drain = drain
        self._max_jobs = max_jobs
        self._max_time = None if max_time is None else duration("max_time", max_time)
        self._on_registered, self._on_end = on_registered, on_end
        self._authorize, self._hooks = authorize, on_start
        self._kind: Kind = kind
        self._loop: asyncio.AbstractEventLoop | None = None
        self._quiet = False
        self._stopping = Stopping()
        self._resting, self._tied = asyncio.Event(), asyncio.Event()
        self._resting.set()
        self._running: asyncio.Task[Tally] | None = None
        self.ready = asyncio.Event()
        self.tally = Tally()

    @property
    def worker_id(self) -> str | None:
        """The id under which the worker holds its jobs now; None before it is ready."""
        return self._keeper.worker_id if self.ready.is_set() else None

    async def __aenter__(self) -> Self:
        """Start the worker in the background; return when it is ready."""
        self._running = asyncio.create_task(self.run(), name="onward worker")
        ready = asyncio.create_task(self.ready.wait())
        await asyncio.wait({self._running, ready}, return_when=asyncio.FIRST_COMPLETED)
        ready.cancel()
        if self._running.done():
            self._running.result()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop the worker, and wait until it has ended."""
        self.stop()
        if self._running is not None:
            await self._running

    def stop(self) -> None:
        """Stop the worker; each further call stops it faster. May be called from any thread.

        The first call ends claiming and lets running jobs finish within the grace. The second releases the
        running jobs now. The third abandons them.
        """
        self._stopping.ask()

    def quiet(self, on: bool) -> None:
        """Stop claiming and let running jobs end, or claim again; from any thread, also before the start."""
        self._quiet = on
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._hush)

    def describe(self) -> str:
        """Return a text of the running jobs, and where in its code each handler is."""
        if not self.ready.is_set():
            return "the worker has not started"
        return describe(str(self.worker_id), self._executor.runs.values(), self._buffer.length)

    async def run(self) -> Tally:
        """Work until stopped or drained, or until `max_jobs` or `max_time` is reached; return the counts."""
        self._stopping.begin()
        self._open()
        loops: list[asyncio.Task[None]] = []
        try:
            await self._keeper.start()
            if self._client.rules.queues:
                await self._client.queues.declare()
            await self._scheduler.begin(self._claimer.ready, self._hooks)
            self._executor.start()
            loops = self._start_loops()
            self.ready.set()
            await self._until_over(loops)
            await self._finish(loops)
        finally:
            await self._close(loops)
        return self.tally

    def _open(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._client = self._clients.open_async(steady=True)
        self._outage = Outage()
        self._admitter = Admitter(self._client, self._outage)
        self._wakeups = self._admitter.overhear(open_wakeups(self._client.store))
        self._pace = Pace(time.monotonic(), self._concurrency)
        self._buffer = Buffer(self._concurrency, self._queues)
        self._keeper = Keeper(
            self._clients.open(steady=True), self._outage, lease=self._lease,
            info=about(self._handlers, self._queues, self._concurrency, self._kind),
            told=self._told, lost=self._lost, blocking=self._blocking, registered=self._on_registered,
        )  # fmt: skip
        self._breakers = Breakers.of(
            self._handlers, self._clients.rules, self._client, lambda: self._keeper.worker_id
        )
        self._executor = Executor(
            self._handlers, self._clients, self._buffer, self._ended,
            concurrency=self._concurrency, authorize=self._authorize, breakers=self._breakers,
        )  # fmt: skip
        self._finisher = Finisher(
            self._client, self._outage, busy=self._busy, written=self._written, spent=self._spent,
            freed=self._admitter.free, completed=self._completed,
        )  # fmt: skip
        self._sweeper = Sweeper(self._client, self._keeper, self._outage)
        check = self._client.doctor.check
        self._alerter = Alerter(self._client, self._keeper, self._outage, check=check)
        self._claimer = Claimer(
            self._client, self._keeper, self._outage, self._wakeups, stopping=self._stopping,
            buffer=self._buffer, pace=self._pace, feed=self._feed, known=self._known,
            behind=self._finisher.behind, queues=self._queues, budget=self._max_jobs, drain=self._drain,
            breakers=self._breakers,
        )  # fmt: skip
        self._scheduler = Scheduler(self._client, self._handlers, drain=self._drain)
        self._chores = Chores(self._client, self._outage, self._scheduler.known)
        self._admitter.ready = self._claimer.ready
        self._hush()

    def _start_loops(self) -> list[asyncio.Task[None]]:
        loops: dict[str, Coroutine[Any, Any, None]] = {
            "claimer": self._claimer.run(),
            "finisher": self._finisher.run(),
            "chores": self._chores.run(),
            "promoter": promote(self._client, self._chores, self._claimer.ready),
            "sweeper": self._sweeper.sweep(),
            "admitter": self._admitter.run(),
            "vacuum": vacuum(self._client, self._outage),
            "settler": settle(self._client, self._chores, self._tied),
            "waker": wake(self._client, self._chores, self._claimer.ready),
            "tidier": self._tidy(),
            "scheduler": self._scheduler.run(self._chores),
        }
        if self._client.rules.audit_chain:
            loops["sealer"] = seal(self._client, self._keeper, self._outage)
        if self._client.rules.alerts:
            loops["alerter"] = self._alerter.run()
        return [asyncio.create_task(loop, name=f"onward {name}") for name, loop in loops.items()]

    def _tidy(self) -> Coroutine[Any, Any, None]:
        return Tidier(
            self._client, self._keeper, self._executor, self._finisher, self._claimer,
            buffer=self._buffer, pace=self._pace, concurrency=self._concurrency, lease=self._lease,
        ).run()  # fmt: skip

    async def _until_over(self, loops: list[asyncio.Task[None]]) -> None:
        """Wait for a reason to end; a failed loop is a reason, because jobs would wait for it unnoticed."""
        over = [asyncio.create_task(self._stopping.finish.wait()), asyncio.create_task(self._worked_off())]
        seconds = None if self._max_time is None else self._max_time.total_seconds()
        try:
            done, _ = await asyncio.wait(
                {*over, *loops[1:]}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED
            )
            for task in done:
                task.result()
        finally:
            for task in over:
                task.cancel()

    async def _worked_off(self) -> None:
        """Wait until no work is left; without `drain` and `max_jobs`, wait until the worker is stopped."""
        if not self._drain and self._max_jobs is None:
            await self._stopping.finish.wait()
        while True:
            await self._claimer.dry.wait()
            claims = self._claimer.claims
            await self._resting.wait()
            await self._finisher.emptied()
            # Twice: a job that changes state during the first look is seen by the second.
            if self._claimer.spent or not (await self._more(claims) or await self._more(claims)):
                return

    async def _more(self, claims: int) -> bool:
        return await self._claimer.more(claims, self._admitter.more)

    async def _finish(self, loops: list[asyncio.Task[None]]) -> None:
        """Claim no more, let running jobs end within the grace, release the rest; the lease is kept."""
        until = time.monotonic() + self._grace.total_seconds()

        def left() -> float:
            return max(0.0, until - time.monotonic())

        self._claimer.close()
        if self._breakers is not None:
            self._breakers.give_back()
        await asyncio.wait({loops[0]}, timeout=left())
        for job in self._buffer.trim(0):
            self._finisher.add(job, Released())
        self._rest()
        await self._wait_for(self._resting, left(), self._stopping.release)
        if not self._resting.is_set():
            log.warning("giving back what still runs (jobs: %s)", self._buffer.running)
            self._executor.cancel_all("shutdown")
            await self._wait_for(self._resting, 2.0, self._stopping.abandon)
            self._executor.abandon_all()
            await asyncio.sleep(0)
        if not self._stopping.abandon.is_set():
            written = asyncio.ensure_future(self._finisher.emptied())
            await asyncio.wait({written}, timeout=max(left(), _LAST_WRITES))
            if not written.done():
                written.cancel()
                raise StoreUnreachable(
                    "stopped before all results could be written; their jobs will be rescued and run again"
                )
            if self._outage.lasts:
                await self._require_database()
            elif self._drain:
                await self._alerter.finish(_LAST_ALERTS)

    async def _require_database(self) -> None:
        look = asyncio.ensure_future(self._client.look())
        await asyncio.wait({look}, timeout=_LAST_WRITES)
        if not look.done() or look.exception() is not None:
            look.cancel()
            raise StoreUnreachable("stopped while its database was away; nothing was left to write")

    async def _wait_for(self, event: asyncio.Event, seconds: float, unless: asyncio.Event) -> None:
        waits = [asyncio.ensure_future(event.wait()), asyncio.ensure_future(unless.wait())]
        await asyncio.wait(waits, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        for wait in waits:
            wait.cancel()

    async def _close(self, loops: Sequence[asyncio.Task[None]]) -> None:
        # Twice: after the first cancellation psycopg asks the server to cancel, and waits for an answer.
        for _ in range(2 if loops else 0):
            for loop in loops:
                loop.cancel()
            await asyncio.wait(loops, timeout=_LAST_WORDS)
        for loop in loops:
            if loop.done() and not loop.cancelled():
                loop.exception()
        await self._executor.close()
        if self._breakers is not None:
            await self._breakers.close()
        with suppress(TimeoutError):
            async with asyncio.timeout(_LAST_WORDS):
                await self._wakeups.close()
        await self._keeper.close(retire=not self._outage.lasts)
        await self._client.close()

    def _spent(self, orgs: frozenset[str]) -> None:
        """Release the buffered jobs of orgs whose budget is spent."""
        self._claimer.hold(orgs)
        for job in self._buffer.take_out(orgs):
            self._finisher.add(job, Released())
        self._rest()

    def _feed(self) -> None:
        # A claim that was under way when a budget was spent may have brought jobs of that org.
        if self._buffer.length and (spent := self._claimer.spent_orgs):
            self._spent(spent)
        if self._buffer.length:
            self._resting.clear()
            self._pace.began(time.monotonic())
            self._executor.feed()

    def _ended(self, ran: Sequence[Ran]) -> None:
        self._finisher.add_all(ran)
        self._pace.ended(time.monotonic(), len(ran))
        self._claimer.ended()
        self._rest()

    def _completed(self) -> None:
        """Request the follow-up work of a job whose handler has committed its end itself."""
        self._tied.set()
        self._chores.ends.set()

    def _rest(self) -> None:
        if not self._busy():
            self._resting.set()
            self._pace.rested(time.monotonic())

    def _busy(self) -> bool:
        return self._buffer.running > 0 or self._buffer.length > 0

    def _written(self, batch: Sequence[tuple[Job, End]], lost: frozenset[str]) -> None:
        """Count the ends that were written; those of `lost` jobs were refused, as their lease was lost."""
        self._claimer.caught_up(job.queue for job, _ in batch)
        if lost:
            kept = [pair for pair in batch if pair[0].id not in lost]
            self.tally.refused += len(batch) - len(kept)
            batch = kept
        self.tally.add_all(batch)
        if (on_end := self._on_end) is None:
            return
        for job, end in batch:
            try:
                on_end(job, end.transition)
            except Exception:
                log.exception("on_end failed for job %s", job.id)

    def _told(self, watch: Watch) -> None:
        self._claimer.told(watch)
        self._executor.requested(watch.cancel_requested)
        if self._breakers is not None:
            self._breakers.told(watch.breakers)

    def _lost(self, _worker_id: str) -> None:
        self._buffer.trim(0)
        self._executor.cancel_all("lease_lost")
        self._rest()

    def _blocking(self) -> str:
        """Return a text that names the job that blocks the event loop; called from another thread."""
        run = self._executor.running_in(asyncio.current_task(self._loop))
        return "something that is no job" if run is None else f"job {run.job.job_type} {run.job.id}"

    def _known(self) -> set[str]:
        return self._buffer.ids() | set(self._executor.runs) | self._finisher.ids()

    def _hush(self) -> None:
        self._claimer.set_quiet(self._quiet)
