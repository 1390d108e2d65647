"""So many at once: places that are taken and freed, waited for in a thread or on an event loop."""

from __future__ import annotations

import asyncio
from queue import Empty, SimpleQueue


class Places:
    """Places for threads."""

    def __init__(self, count: int) -> None:
        # Not a semaphore, which is Python throughout: that was a twentieth of an enqueue's own time.
        self._free: SimpleQueue[None] = SimpleQueue()
        for _ in range(count):
            self._free.put(None)

    def take(self, timeout: float) -> bool:
        """Take a place; False if none came free in time."""
        try:
            self._free.get(timeout=timeout)
        except Empty:
            return False
        return True

    def free(self) -> None:
        """Give a place back."""
        self._free.put(None)


class AsyncPlaces:
    """Places for tasks."""

    def __init__(self, count: int) -> None:
        self._semaphore = asyncio.Semaphore(count)

    async def take(self, timeout: float) -> bool:  # noqa: ASYNC109
        """Take a place; False if none came free in time."""
        if not self._semaphore.locked():
            return await self._semaphore.acquire()
        try:
            async with asyncio.timeout(timeout):
                return await self._semaphore.acquire()
        except TimeoutError:
            return False

    def free(self) -> None:
        """Give a place back."""
        self._semaphore.release()
