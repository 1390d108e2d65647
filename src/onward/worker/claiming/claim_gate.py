"""Whether a worker may claim at all."""

from __future__ import annotations

import asyncio

from onward.worker.stopping import Stopping


class ClaimGate:
    """Open unless the worker is quiet or an operator has closed the gate of the database."""

    def __init__(self, stopping: Stopping) -> None:
        self._stopping = stopping
        self._quiet = self._held = self._closed = False
        self._open = asyncio.Event()
        self._open.set()

    @property
    def over(self) -> bool:
        """Whether the worker will never claim again."""
        return self._closed or self._stopping.requested

    @property
    def is_open(self) -> bool:
        """Whether the worker may claim now."""
        return self._open.is_set()

    async def wait(self) -> None:
        """Wait until the worker may claim."""
        await self._open.wait()

    def set_quiet(self, on: bool) -> None:
        """Close the gate for this worker, or open it again."""
        self._quiet = on
        self._update()

    def set_held(self, on: bool) -> None:
        """Record whether an operator has closed the gate."""
        self._held = on
        self._update()

    def end(self) -> None:
        """Let the claimer see that claiming is over."""
        self._closed = True
        self._open.set()

    def _update(self) -> None:
        if self._quiet or self._held:
            self._open.clear()
        else:
            self._open.set()
