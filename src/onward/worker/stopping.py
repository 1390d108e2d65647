"""How urgently a worker is asked to stop: each request adds one level."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Callable

_ONE_REQUEST = 0.3


def stop_signals() -> list[signal.Signals]:
    """Return the signals that ask a process to stop; without HUP under nohup, which has it ignored."""
    ignored = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    return [signal.SIGTERM, signal.SIGINT, *([] if ignored else [signal.SIGHUP])]


class StopRequests:
    """Counts the signals to stop; those within 0.3 s of a counted one are the same request.

    `timeout` signals its child and then the child's whole process group, a closed terminal sends HUP twice.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._counted_at = float("-inf")
        self.count = 0

    def add(self) -> bool:
        """Count a signal; return False if it belongs to the request before. Safe in a signal handler."""
        now = self._clock()
        # Nothing is called between these lines, so no other signal handler runs in between.
        if now - self._counted_at < _ONE_REQUEST:
            return False
        self._counted_at = now
        self.count += 1
        return True


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
