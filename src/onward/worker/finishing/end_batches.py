"""The ends that wait to be written, and when a batch of them is due."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress

from onward.core.jobs.job import Job
from onward.core.work.lifecycle import End

CROWD = 20
"""After a batch of this many ends, more are likely to come."""


class EndBatches:
    """Collects ends in batches of at most `at_once`; `emptied` is set while none waits or is written."""

    def __init__(self, *, at_once: int, patience: float, busy: Callable[[], bool]) -> None:
        self.at_once = at_once
        self._patience = patience
        self._busy = busy
        self._crowded_until = 0.0
        self._any = asyncio.Event()
        self._full = asyncio.Event()
        self.ends: list[tuple[Job, End]] = []
        self.emptied = asyncio.Event()
        self.emptied.set()

    def announce(self) -> None:
        """Wake the writer after `ends` has grown."""
        if self.ends and not self._any.is_set():
            self._any.set()
            self.emptied.clear()
        if len(self.ends) >= self.at_once:
            self._full.set()

    async def wait(self) -> None:
        """Wait for an end; called when no write is under way if there is none yet."""
        if not self.ends:
            self._any.clear()
            self.emptied.set()
        await self._any.wait()

    async def take(self) -> list[tuple[Job, End]]:
        """Return the next batch; a small one first waits a moment if more ends are likely to come.

        More are likely while jobs run here, or if many ends were written a moment ago. Else a small batch
        does not wait, as in a chain of jobs.
        """
        patience = self._patience if self._busy() else self._crowded_until - time.monotonic()
        if len(self.ends) < self.at_once and patience > 0:
            with suppress(TimeoutError):
                async with asyncio.timeout(patience):
                    await self._full.wait()
        if len(self.ends) >= CROWD:
            self._crowded_until = time.monotonic() + self._patience
        batch, self.ends = self.ends[: self.at_once], self.ends[self.at_once :]
        if len(self.ends) < self.at_once:
            self._full.clear()
        return batch
