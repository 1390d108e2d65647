"""Makes the parts of a worker, connects them and starts their loops; no loop is started elsewhere."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine, Mapping
from typing import Any

from onward.core.inputs.duration import duration
from onward.core.upkeep.worker_findings import shared_types
from onward.core.work.claim import Instructions
from onward.handlers.clients import Clients
from onward.handlers.handler import Handler
from onward.logs import get_logger
from onward.stores import open_wakeups
from onward.worker.attempts.breaker_gate import Breakers
from onward.worker.attempts.executor import Executor
from onward.worker.claiming.buffer import Buffer
from onward.worker.claiming.claimer import Claimer
from onward.worker.claiming.exclusions import Exclusions
from onward.worker.claiming.throughput import Pace
from onward.worker.description import about, declared_types
from onward.worker.finishing.finisher import Finisher
from onward.worker.held_jobs import HeldJobs
from onward.worker.loops.admitter import Admitter
from onward.worker.loops.alerter import Alerter
from onward.worker.loops.due_poll import DuePoll
from onward.worker.loops.lease_keeper import Keeper
from onward.worker.loops.periodic import Sweeper, follow_up, promote, seal, vacuum, wake
from onward.worker.loops.reporter import Reporter
from onward.worker.loops.scheduler import Scheduler
from onward.worker.loops.timeouts import Tidier
from onward.worker.options import WorkerSettings
from onward.worker.outage import Outage
from onward.worker.stopping import Stopping
from onward.worker.tally import Tally

log = get_logger("onward.worker")


class Parts:
    """The parts of one worker, made once its event loop is running."""

    def __init__(
        self,
        handlers: Mapping[str, Handler],
        clients: Clients,
        settings: WorkerSettings,
        stopping: Stopping,
        tally: Tally,
    ) -> None:
        self._settings = settings
        queues, concurrency = settings.queues, settings.concurrency
        self.client = client = clients.open_async(for_worker=True)
        self.outage = outage = Outage()
        self.wakeups = open_wakeups(client.store)
        self.pace, self.buffer = Pace(time.monotonic(), concurrency), Buffer(concurrency, queues)
        self.breakers = Breakers.of(
            handlers, clients.policies, client, lambda: self.keeper.worker_id,
            patience=settings.timings.provider,
        )  # fmt: skip
        self.exclusions = Exclusions(self.breakers, None if settings.types is None else frozenset(handlers))
        self.held = held = HeldJobs(self.buffer, self.exclusions, self.pace, tally, settings.on_end)
        self.admitter = Admitter(client, outage)
        self.scheduler = Scheduler(client, handlers, drain=settings.drain)
        self.due_poll = DuePoll(client, outage, self.scheduler.known)
        self.executor = held.executor = Executor(
            handlers, clients, self.buffer, held.ended,
            client=client, concurrency=concurrency, patience=settings.timings.stop,
            authorize=settings.authorize, around=settings.around, breakers=self.breakers,
        )  # fmt: skip
        self.reporter = Reporter(client, outage, self.executor.running)
        self.finisher = held.finisher = Finisher(
            client, outage, patience=settings.timings.batch, busy=lambda: self.buffer.busy,
            written=held.written, spent=held.spent, freed=self.admitter.free,
            completed=self.due_poll.follow_up,
        )  # fmt: skip
        self.keeper = self._new_keeper(handlers, clients)
        self.claimer = held.claimer = self._new_claimer(stopping)
        self.admitter.ready = self.claimer.add_ready
        self.alerter = Alerter(
            client, self.keeper, outage, timings=settings.timings, check=client.doctor.check
        )

    def _new_keeper(self, handlers: Mapping[str, Handler], clients: Clients) -> Keeper:
        settings = self._settings
        self._declared = declared_types(handlers, clients.application or "")
        info = about(handlers, settings.queues, settings.concurrency, settings.kind, self._declared)
        return Keeper(
            clients.open(for_worker=True), self.outage, lease=duration("lease", settings.lease),
            info=info, on_instructions=self._update, lost=self.held.lose,
            blocking=self.executor.running.blocking, registered=settings.on_registered,
        )  # fmt: skip

    def _new_claimer(self, stopping: Stopping) -> Claimer:
        settings = self._settings
        return Claimer(
            self.client, self.keeper, self.outage, self.wakeups, stopping=stopping,
            exclusions=self.exclusions, buffer=self.buffer, pace=self.pace,
            start_jobs=self.held.start, held_ids=self.held.ids,
            queue_names=self.admitter.take_keys, writes_lag=self.finisher.lags,
            queues=settings.queues, budget=settings.max_jobs, drain=settings.drain,
        )  # fmt: skip

    async def start(self) -> list[asyncio.Task[None]]:
        """Register the worker, declare what its code defines, and start the loops; the claimer is first.

        Raises InvalidSetting if another application declares one of the job types otherwise.
        """
        await self.keeper.start()
        for other in await self.client.worker.check_declared(self.keeper.worker_id, self._declared):
            log.warning("%s", shared_types(self._declared, other))
        if self.client.policies.registry.queues:
            await self.client.worker.declare_queues()
        await self.scheduler.begin(self.claimer.add_ready, self._settings.on_start)
        self.executor.start()
        return [asyncio.create_task(loop, name=f"onward {name}") for name, loop in self._loops().items()]

    def _loops(self) -> dict[str, Coroutine[Any, Any, None]]:
        client, keeper, outage = self.client, self.keeper, self.outage
        tidier = Tidier(
            client, keeper, self.executor.running, self.finisher, self.claimer.idle,
            buffer=self.buffer, pace=self.pace, concurrency=self._settings.concurrency,
        )  # fmt: skip
        loops: dict[str, Coroutine[Any, Any, None]] = {
            "claimer": self.claimer.run(),
            "finisher": self.finisher.run(),
            "due poll": self.due_poll.run(),
            "promoter": promote(client, self.due_poll, self.claimer.add_ready),
            "sweeper": Sweeper(client, keeper, outage).sweep(),
            "admitter": self.admitter.run(),
            "vacuum": vacuum(client, outage),
            "follow-up": follow_up(client, self.due_poll),
            "waker": wake(client, self.due_poll, self.claimer.add_ready),
            "tidier": tidier.run(),
            "scheduler": self.scheduler.run(self.due_poll),
            "reporter": self.reporter.run(),
        }
        if client.policies.settings.audit_chain:
            loops["sealer"] = seal(client, keeper, outage)
        if client.policies.registry.sinks:
            loops["alerter"] = self.alerter.run()
        return loops

    def _update(self, instructions: Instructions) -> None:
        self.claimer.update(instructions)
        self.executor.known.skip({one.job_type: one.reason for one in instructions.skips})
        self.executor.running.cancel_requested(instructions.cancel_requested)
        if self.breakers is not None:
            self.breakers.update(instructions.breakers)
