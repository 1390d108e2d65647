"""How urgently a worker is asked to stop: each request adds one level."""

from __future__ import annotations

import asyncio


class Stopping:
    """First request: claim no more, finish running jobs; second: release them; third: abandon them."""

    def __init__(self) -> None:
        self.finish = asyncio.Event()
        self.release = asyncio.Event()
        self.abandon = asyncio.Event()
        self.loop: asyncio.AbstractEventLoop | None = None
        self._requests = 0
        self.requested = False

    def begin(self) -> None:
        """Bind to the running event loop; from now on `request` may be called from any thread."""
        self.loop = asyncio.get_running_loop()

    def request(self) -> None:
        """Add one request; `requested` is true at once, the events are set when the event loop runs next."""
        self.requested = True
        if self.loop is None:
            self._count()
        else:
            self.loop.call_soon_threadsafe(self._count)

    def _count(self) -> None:
        self._requests += 1
        for event in (self.finish, self.release, self.abandon)[: self._requests]:
            event.set()
