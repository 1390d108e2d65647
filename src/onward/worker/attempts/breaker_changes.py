"""Logs which breakers have opened or closed, each change once."""

from __future__ import annotations

import time
from collections.abc import Callable, Coroutine
from typing import Any

from onward.clients.client import AsyncClient
from onward.core.failures.breaker import Breaker
from onward.logs import get_logger
from onward.worker.attempts.provider_queue import Line

log = get_logger("onward.worker")

_WARN_SECONDS = 10.0


class BreakerChanges:
    """Knows which breakers this process has logged as open; `start` runs a read in the background."""

    def __init__(self, client: AsyncClient, start: Callable[[Coroutine[Any, Any, None]], None]) -> None:
        self._client = client
        self._start = start
        self._warned_at: dict[str, float] = {}
        self._looking_at: set[str] = set()
        self.known_open: set[str] = set()

    def warn(self, text: str, line: Line, error: Exception) -> None:
        """Log that a breaker can't be read or written, each text at most every 10 s."""
        now = time.monotonic()
        if now - self._warned_at.get(text, -_WARN_SECONDS) >= _WARN_SECONDS:
            self._warned_at[text] = now
            log.warning(text, line.name, error)

    def look_at(self, line: Line) -> None:
        """Read a breaker in the background, unless that is under way."""
        if line.name not in self._looking_at:
            self._looking_at.add(line.name)
            self._start(self._look(line))

    async def _look(self, line: Line) -> None:
        """Read a breaker that another process or an operator has opened or closed, and log its state."""
        try:
            self.saw(await self._client.breakers.get(line.name))
        except Exception as error:  # noqa: BLE001 - it is only to be told; what is held is known
            self.warn("the breaker of %s can't be read: %s", line, error)
        finally:
            self._looking_at.discard(line.name)

    def saw(self, breaker: Breaker) -> None:
        """Log that a breaker has opened or closed, once."""
        name, until = breaker.name, breaker.until
        if breaker.state == "closed" and name in self.known_open:
            self.known_open.discard(name)
            log.info("the breaker of %s is closed: its jobs run again", name)
        elif breaker.state == "open" and name not in self.known_open:
            self.known_open.add(name)
            end = "an operator closes it" if until is None else until.isoformat(timespec="seconds")
            log.info("the breaker of %s is open until %s: %s", name, end, breaker.reason)
