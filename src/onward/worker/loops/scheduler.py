"""Fires the schedules, and runs the application's start hooks.

Every worker fires without a leader, because the database accepts each occurrence only once.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from datetime import timedelta
from itertools import groupby

from onward.clients.client import AsyncClient
from onward.core.policy.built_in import BUILT_IN
from onward.core.schedules.firing import Fired
from onward.core.upkeep.diagnosis import lasting, stamp
from onward.handlers.handler import Handler
from onward.handlers.hooks.worker_hooks import StartHook
from onward.logs import get_logger
from onward.operations.schedules.fire import Known
from onward.worker.hooks.hook_calls import call_hook
from onward.worker.loops.due_poll import DuePoll

log = get_logger("onward.worker")


class Scheduler:
    """Enqueues due jobs of the schedules that this worker's code defines, or whose job types it knows."""

    def __init__(
        self,
        client: AsyncClient,
        handlers: Mapping[str, Handler],
        *,
        drain: bool,
    ) -> None:
        self._client = client
        self._hooks: Collection[StartHook] = ()
        self._ready: Callable[[Iterable[str]], None] | None = None
        self._drain = drain
        self._types = frozenset(handlers)
        self._defined = [one.schedule for one in handlers.values() if one.schedule is not None]
        self._built_in = BUILT_IN & self._types
        self._started = time.monotonic()
        self._logged: dict[str, str] = {}

    async def begin(self, ready: Callable[[Iterable[str]], None], hooks: Collection[StartHook] = ()) -> None:
        """Store the schedules that the code defines; a worker that drains also fires what is due now.

        `ready` is called with the queues of the jobs that were fired.
        """
        self._ready = ready
        # A worker that drains runs for a moment only, so its start does not count for hooks.
        self._hooks = () if self._drain else hooks
        self._started = time.monotonic()
        if self._built_in:
            await self._client.worker.schedules.declare_built_in()
        if self._defined:
            await self._client.worker.schedules.declare(self._defined)
        if self._drain:
            fired = await self._fire()
            while fired.more and fired.jobs:
                fired = await self._fire()

    async def run(self, due_poll: DuePoll) -> None:
        """Fire each occurrence within a moment of its time, and call each hook once its delay is over."""
        async with asyncio.TaskGroup() as group:
            for hook in self._hooks:
                group.create_task(_run_hook(hook))
            await due_poll.see_to(due_poll.occurrences, self._once, "scheduler")

    async def _once(self) -> bool:
        return (await self._fire()).moved > 0

    async def _fire(self) -> Fired:
        fired = await self._client.worker.schedules.fire(self.known())
        if fired.queues and self._ready is not None:
            self._ready(fired.queues)
        self._log(fired)
        return fired

    def known(self) -> Known:
        """Return which schedules this worker may fire, and for how long it has been up."""
        up = timedelta.max if self._drain else timedelta(seconds=time.monotonic() - self._started)
        return Known(self._types, [*self._built_in, *(one.name for one in self._defined)], up)

    def _log(self, fired: Fired) -> None:
        late = [one for one in fired.late if one.schedule not in BUILT_IN]
        for name, occurrences in groupby(late, key=lambda one: one.schedule):
            first, *others = occurrences
            also = f", and {len(others)} more after it" if others else ""
            log.warning(
                "schedule %s: the occurrence of %s was fired %s late%s",
                name, stamp(first.occurrence), lasting(first.drift), also,
            )  # fmt: skip
        for name, error in fired.errors.items():
            if self._logged.get(name) != error:
                log.error("schedule %s could not be fired: %s", name, error)
        self._logged = {**self._logged, **fired.errors}


async def _run_hook(hook: StartHook) -> None:
    await asyncio.sleep(hook.delay.total_seconds())
    if not hook.begin():
        return
    await call_hook(hook)
