"""How urgently a worker is asked to stop."""

from __future__ import annotations

import asyncio


class Stopping:
    """Asked once: claim no more, finish what runs; twice: give back what runs; thrice: abandon it."""

    def __init__(self) -> None:
        self.finish = asyncio.Event()
        self.release = asyncio.Event()
        self.abandon = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._asked = 0
        self.asked = False

    def begin(self) -> None:
        """From now on it may be asked from any thread."""
        self._loop = asyncio.get_running_loop()

    def ask(self) -> None:
        """Ask once more; `asked` is true at once, the events follow when the loop has its turn."""
        self.asked = True
        if self._loop is None:
            self._ask()
        else:
            self._loop.call_soon_threadsafe(self._ask)

    def _ask(self) -> None:
        self._asked += 1
        for event in (self.finish, self.release, self.abandon)[: self._asked]:
            event.set()
