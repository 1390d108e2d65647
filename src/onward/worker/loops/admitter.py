"""Makes limited jobs ready as soon as their limits allow it.

Every worker does so, and together they never exceed a limit.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from datetime import datetime

from onward.clients.client import AsyncClient
from onward.core.limits.limit_use import MOST_KEYS
from onward.errors import StoreError
from onward.worker.outage import Outage

_LIMIT_PREFIX = "limit:"
_ROUND_SECONDS = 1.0
# If this worker declares no limit, there may still be jobs of a limit that was declared before.
_RARE_SECONDS = 5.0
_SHORTEST_PAUSE = 0.01
_LONGEST_LOOK = 0.05
_FORGET_SECONDS = 600.0


class Admitter:
    """Finds keys whose jobs need not wait any longer, and makes those jobs ready.

    It passes on the permits of jobs that ended here. It also admits new jobs, jobs that a rate now
    allows, jobs whose limit was raised, and jobs for permits that another worker did not pass on.
    """

    def __init__(self, client: AsyncClient, outage: Outage) -> None:
        self._client = client
        self._outage = outage
        # Called with the queues that have a ready job. Set after construction, because the claimer itself
        # needs `take_keys` of this admitter.
        self.ready: Callable[[Iterable[str]], None] = lambda _queues: None
        self._own = bool(client.policies.registry.limits)
        self._rated = any(limit.rate is not None for limit in client.policies.registry.limits.values())
        self._declared = False
        self._woken_keys: set[str] = set()
        self._freed: set[str] = set()
        self._all = self._own
        self._cursor = ""
        self._woken = asyncio.Event()
        self._last = float("-inf")
        self._next_round = self._last if self._own else time.monotonic() + self._pause()
        self._forget_at = time.monotonic() + _FORGET_SECONDS

    async def run(self) -> None:
        """Admit until cancelled."""
        while True:
            try:
                pause = await self._once()
            except Exception as error:  # noqa: BLE001 - no error may end this
                pause = self._outage.pause("admitter", error)
            else:
                self._outage.over("admitter")
            with suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self._woken.wait()
            self._woken.clear()
            # On SQLite every change wakes this loop: handle changes that come together in one look.
            if not self._freed:
                await asyncio.sleep(max(0.0, self._last + _SHORTEST_PAUSE - time.monotonic()))

    async def more(self) -> bool:
        """Whether jobs were made ready, or will be within a second; for a worker that is about to end."""
        try:
            await self._declare()
            made, again = await self.admit_ready("")
        except StoreError:
            return False
        if not made and again is not None and again < _ROUND_SECONDS:
            await asyncio.sleep(again)
            return True
        return made

    def free(self, keys: Collection[str]) -> None:
        """Pass on the permits of jobs that ended here; the loop does so, to keep such writes in sequence."""
        self._freed |= set(keys)
        self._woken.set()

    def take_keys(self, woken: frozenset[str]) -> frozenset[str]:
        """Take the limits' keys, which enqueues add, from the names of a wake-up; return the other names."""
        limits = {name for name in woken if name.startswith(_LIMIT_PREFIX)}
        self._woken_keys |= {name.removeprefix(_LIMIT_PREFIX) for name in limits}
        # A wake-up without names may be about any key.
        self._all = self._all or (not woken and self._own)
        if limits or self._all:
            self._woken.set()
        return woken - limits

    async def _once(self) -> float:
        await self._declare()
        again: float | None = None
        if self._freed:
            freed, self._freed = self._freed, set()
            _, again = await self._admit(freed)
        woken_keys, self._woken_keys = self._woken_keys, set()
        self._last = now = time.monotonic()
        if woken_keys and len(woken_keys) <= MOST_KEYS:
            _, later = await self._look(keys=woken_keys)
            again = _sooner(again, later)
        if self._all or len(woken_keys) > MOST_KEYS or now >= self._next_round:
            self._all = False
            _, later = await self.admit_ready(self._cursor)
            again = _sooner(again, later)
            self._next_round = time.monotonic() + self._pause()
        if again is not None:
            self._next_round = min(self._next_round, time.monotonic() + again)
        if self._rated and now >= self._forget_at:
            self._forget_at = now + _FORGET_SECONDS
            await self._client.worker.limits.forget()
        return max(0.0, self._next_round - time.monotonic())

    def _pause(self) -> float:
        return (_ROUND_SECONDS if self._own else _RARE_SECONDS) * random.uniform(0.75, 1.0)  # noqa: S311

    async def _declare(self) -> None:
        if not self._declared:
            await self._client.worker.limits.declare()
            self._declared = True

    async def admit_ready(self, cursor: str) -> tuple[bool, float | None]:
        """Check key after key for at most `_LONGEST_LOOK`; the next round continues where this one ends."""
        made, again = False, None
        until = time.monotonic() + _LONGEST_LOOK
        while True:
            cursor, (some, later) = await self._part(cursor)
            made, again = made or some, _sooner(again, later)
            self._cursor = cursor
            if not cursor or time.monotonic() > until:
                return made, again

    async def _part(self, cursor: str) -> tuple[str, tuple[bool, float | None]]:
        found = await self._client.worker.limits.find(cursor)
        made, again = await self._admit(found.keys)
        return found.cursor or "", (made, _sooner(again, _seconds(found.again, found.now)))

    async def _look(self, keys: Collection[str]) -> tuple[bool, float | None]:
        found = await self._client.worker.limits.find(keys=keys)
        made, again = await self._admit(found.keys)
        return made, _sooner(again, _seconds(found.again, found.now))

    async def _admit(self, keys: Collection[str]) -> tuple[bool, float | None]:
        """Make jobs of these keys ready; return whether any were, and the seconds until a rate has more."""
        made, again = False, None
        while keys:
            admitted = await self._client.worker.limits.admit(keys)
            again = _sooner(again, _seconds(admitted.again, admitted.now))
            if admitted.queues:
                made = True
                self.ready(admitted.queues)
            keys = admitted.left
        return made, again


def _seconds(again: datetime | None, now: datetime | None) -> float | None:
    return None if again is None or now is None else max(0.0, (again - now).total_seconds())


def _sooner(one: float | None, other: float | None) -> float | None:
    return min((at for at in (one, other) if at is not None), default=None)
