"""Those who wait for one provider in one worker process, and how many of them may call it at once."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from datetime import timedelta

from onward.core.failures.breaker import BreakerSettings

_CHECK_SECONDS = 0.1
_IN_SLOT_SECONDS = 5.0
_LOOK_IN_SECONDS = 0.5
_MOST_AT_ONCE = 1 << 20


@dataclass(frozen=True, slots=True)
class Ticket:
    """The right to one call; `turn` is set where it is the only one of all processes."""

    line: Line
    epoch: int
    turn: str | None = None


class Line:
    """Those who wait for one provider in this process, and how many of them may call it at once."""

    def __init__(self, name: str, settings: BreakerSettings) -> None:
        self.name = name
        self.settings = settings
        self.allowed = 1
        self.running = 0
        self.suspect = False
        self.doubted_at = 0.0
        self.held_until = 0.0
        self.epoch = 0
        self.writing = 0
        self.asking = False
        self.ask_at = 0.0
        self.crowded_until = 0.0
        self.turned_away = 0
        self._stands = False
        self.one_at_a_time = asyncio.Lock()
        self._turn: str | None = None
        self._turn_until = 0.0
        self._moved_at = time.monotonic()
        self._waiters: list[asyncio.Future[None]] = []

    @property
    def idle(self) -> bool:
        """Nobody is concerned with it."""
        return not (self.running or self.writing or self.asking or self._waiters)

    @property
    def patience(self) -> float:
        """Say for how long one may wait in its slot: not for long, if those before it got nowhere."""
        return _LOOK_IN_SECONDS if self._stands else _IN_SLOT_SECONDS

    def is_closed(self, now: float) -> bool:
        """Tell whether to claim jobs for it would only bring them to wait."""
        return now < self.held_until or now < self.crowded_until

    def admit(self, now: float) -> Ticket | None:
        """Let one call, if one may; None otherwise."""
        turn = None
        if self.suspect:
            if self._turn is None or now >= self._turn_until:
                return None
            turn, self._turn = self._turn, None
        else:
            self._adjust(now)
            if self.running >= self.allowed:
                return None
        self.running += 1
        return Ticket(self, self.epoch, turn)

    def _adjust(self, now: float) -> None:
        """Forget what was long ago; and let calls that take long keep nobody waiting for ever."""
        still = now - self._moved_at
        if self.running == 0 and still > self.settings.window.total_seconds():
            self.allowed, self._moved_at = 1, now
        elif self.running >= self.allowed and still > self.settings.patience.total_seconds():
            self.grow()

    def grow(self) -> None:
        """Allow twice as many calls at once."""
        self.allowed = min(2 * self.allowed, _MOST_AT_ONCE)
        self._move()

    def doubt(self) -> None:
        """Let nobody call without a turn; what is under way says nothing good any more."""
        self.suspect = True
        self.doubted_at = time.monotonic()
        self.allowed = 1
        self.epoch += 1

    def trust(self, allowed: int) -> None:
        """Let calls begin without a turn, so many at once."""
        self.suspect = False
        self.allowed = allowed
        self.held_until = 0.0
        self._turn = None
        self._move()

    def crowd(self, now: float) -> None:
        """Keep everyone away for a while: who waits here keeps a slot from others."""
        self.crowded_until, self._stands = now + _IN_SLOT_SECONDS, True
        self.wake()

    def _move(self) -> None:
        self._moved_at = time.monotonic()
        self.crowded_until, self._stands = 0.0, False
        self.turned_away = 0

    def hold(self, left: timedelta | None) -> None:
        """Hold everyone for so long, or (None) without an end."""
        self.held_until = float("inf") if left is None else time.monotonic() + left.total_seconds()
        if left != timedelta():
            # Who opens a breaker takes back the turn that was given.
            self._turn = None

    def give_turn(self, turn: str) -> None:
        """Let the next one call; another turn may be asked for when its answer is in, or too late."""
        self._turn = turn
        self._turn_until = self.ask_at = time.monotonic() + self.settings.patience.total_seconds()

    def unused(self) -> str | None:
        """Take back a turn that nobody waits for any more."""
        if self._turn is None or self._waiters:
            return None
        turn, self._turn = self._turn, None
        return turn

    def wake(self) -> None:
        """Have everyone look again who waits."""
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)

    async def wait(self) -> None:
        """Wait for a change; for a moment only, because whoever waits may have to give way."""
        waiter = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        try:
            await asyncio.wait({waiter}, timeout=_CHECK_SECONDS)
        finally:
            self._waiters.remove(waiter)
            waiter.cancel()
