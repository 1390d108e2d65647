"""Asks the database once a second which periodic work is due, and wakes the loops that do it."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from contextlib import suppress

from onward.clients.client import AsyncClient
from onward.operations.schedules.fire import Known
from onward.worker.outage import Outage

_LONGEST_WAIT = 1.0
_MOMENT = 0.005


class DuePoll:
    """One query for several loops: due jobs and schedules, ends with follow-up work, and new signals.

    A loop that has done something triggers the next query at once. A loop that could do nothing, because
    another worker does it or a caller's transaction is in the way, is woken again by the next regular query.
    """

    def __init__(self, client: AsyncClient, outage: Outage, known: Callable[[], Known]) -> None:
        self._client = client
        self._outage = outage
        self._known = known
        self._more = asyncio.Event()
        self.urgent = False
        self.jobs, self.occurrences, self.ends, self.signals = (asyncio.Event() for _ in range(4))

    async def run(self) -> None:
        """Ask until cancelled."""
        while True:
            self._more.clear()
            try:
                pause = await self._ask()
            except Exception as error:  # noqa: BLE001 - no error may end this
                await asyncio.sleep(self._outage.pause("due poll", error))
                continue
            self._outage.over("due poll")
            with suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self._more.wait()

    def follow_up(self) -> None:
        """Request the follow-up work of a job whose handler has committed its end itself."""
        self.urgent = True
        self.ends.set()

    async def see_to(self, bell: asyncio.Event, do: Callable[[], Awaitable[bool]], source: str) -> None:
        """Call `do` whenever `bell` is set; it returns whether it did something, so there may be more."""
        while True:
            await bell.wait()
            bell.clear()
            try:
                if await do():
                    self._more.set()
            except Exception as error:  # noqa: BLE001 - no error may end this
                # Try again in any case: only a success shows that the database is back.
                bell.set()
                await asyncio.sleep(self._outage.pause(source, error))
            else:
                self._outage.over(source)
                # Work that comes within a moment is done together.
                await asyncio.sleep(_MOMENT)

    async def _ask(self) -> float:
        found = await self._client.worker.due(self._known())
        # Spread, else workers that were started together would all ask at the same moment.
        pause = _LONGEST_WAIT * random.uniform(0.75, 1.0)  # noqa: S311
        for at, bell in ((found.next_due, self.jobs), (found.next_occurrence, self.occurrences)):
            if at is None:
                continue
            if at <= found.now:
                bell.set()
            else:
                pause = min(pause, (at - found.now).total_seconds())
        if found.follow_up:
            self.ends.set()
        if found.signals:
            self.signals.set()
        return pause
