"""The jobs that wait for one provider in one worker process, and how many may call it at once.

While the provider is suspect, a call needs the probe, the only right to call in all processes.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from datetime import timedelta

from onward.core.failures.breaker import BreakerSettings

_CHECK_SECONDS = 0.1
_LOOK_IN_SECONDS = 0.5
# Each is a write, and all jobs of a provider may have failed.
_MOST_PUT_OFF = 100
_MOST_AT_ONCE = 1 << 20

COURTESY_SECONDS = 1.0
"""Long enough for a ready job to be claimed once the hold has ended."""


@dataclass(frozen=True, slots=True)
class Admission:
    """The right to one call; `probe` is set if that call is the probe, the only one in all processes."""

    line: Line
    epoch: int
    probe: str | None = None


class Courtesy:
    """The time after a hold in which jobs that have failed leave the probe and their slots to others."""

    def __init__(self) -> None:
        self.until = 0.0
        self._left = 0

    def begin(self, at: float) -> None:
        """Begin it at the end of a hold."""
        self.until, self._left = at + COURTESY_SECONDS, _MOST_PUT_OFF

    def puts_off(self, now: float) -> bool:
        """Whether a job that has failed before must return later."""
        if now >= self.until or not self._left:
            return False
        self._left -= 1
        return True


class Line:
    """The jobs that wait for one provider in this process, and how many may call it at once."""

    def __init__(self, name: str, settings: BreakerSettings, patience: float) -> None:
        self.name = name
        self.settings = settings
        self._patience = patience
        self.allowed = 1
        self.running = 0
        self.suspect = False
        self.doubted_at = 0.0
        self.held_until = 0.0
        self.epoch = 0
        self.writing = 0
        self.probing = False
        self.probe_at = 0.0
        self.crowded_until = 0.0
        self.courtesy = Courtesy()
        self.turned_away = 0
        self._stalled = False
        self.one_at_a_time = asyncio.Lock()
        self._probe: str | None = None
        self._probe_until = 0.0
        self._moved_at = time.monotonic()
        self._waiters: dict[asyncio.Future[None], bool] = {}

    @property
    def idle(self) -> bool:
        """Whether no job runs or waits here, and no statement about the provider is under way."""
        return not (self.running or self.writing or self.probing or self._waiters)

    @property
    def patience(self) -> float:
        """The seconds that a job may wait in its slot; fewer if the jobs before it waited in vain."""
        return _LOOK_IN_SECONDS if self._stalled else self._patience

    def may_request_probe(self, now: float) -> bool:
        """Whether a probe is needed and none is requested, granted or about to be unnecessary."""
        return self.suspect and not self.probing and not self.writing and now >= self.probe_at

    def is_closed(self, now: float) -> bool:
        """Whether jobs claimed for this provider now would only wait."""
        return now < self.held_until or now < self.crowded_until

    def admit(self, now: float, *, failed: bool = False) -> Admission | None:
        """Return the right to one call; None if no call may begin now.

        A job that has `failed` before gets no probe while one waits that has not.
        """
        probe = None
        if self.suspect:
            others_wait = not all(self._waiters.values())
            if self._probe is None or now >= self._probe_until or (failed and others_wait):
                return None
            probe, self._probe = self._probe, None
        else:
            self._adjust(now)
            if self.running >= self.allowed:
                return None
        self.running += 1
        return Admission(self, self.epoch, probe)

    def _adjust(self, now: float) -> None:
        """Start from one call again after a quiet window; allow more if long calls block the others."""
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
        """Let no call begin without the probe; answers to calls under way no longer raise the limit."""
        self.suspect = True
        self.doubted_at = time.monotonic()
        self.allowed = 1
        self.epoch += 1

    def trust(self, allowed: int) -> None:
        """Let calls begin without the probe, at most `allowed` at once."""
        self.suspect = False
        self.allowed = allowed
        self.held_until = 0.0
        self._probe = None
        self._move()

    def crowd(self, now: float) -> None:
        """Keep all jobs away for a while, because each that waits here occupies a slot."""
        self.crowded_until, self._stalled = now + self._patience, True
        self.wake()

    def _move(self) -> None:
        self._moved_at = time.monotonic()
        self.crowded_until, self._stalled = 0.0, False
        self.turned_away = 0

    def hold(self, left: timedelta | None) -> None:
        """Hold all jobs for `left`, or without an end if it is None."""
        self.held_until = float("inf") if left is None else time.monotonic() + left.total_seconds()
        if left != timedelta():
            # Opening a breaker revokes the probe that was granted.
            self._probe = None
            self.courtesy.begin(self.held_until)

    def grant_probe(self, probe: str) -> None:
        """Grant the probe to the next job; ask for another once it is answered, or after `patience`."""
        self._probe = probe
        self._probe_until = self.probe_at = time.monotonic() + self.settings.patience.total_seconds()

    def unused(self) -> str | None:
        """Take back and return the probe if no job waits for it any more, else None."""
        if self._probe is None or self._waiters:
            return None
        probe, self._probe = self._probe, None
        return probe

    def wake(self) -> None:
        """Make all waiting jobs check again."""
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)

    async def wait(self, *, failed: bool = False) -> None:
        """Wait for a change, for a moment only, because the waiting job may be asked to stop."""
        waiter = asyncio.get_running_loop().create_future()
        self._waiters[waiter] = failed
        try:
            await asyncio.wait({waiter}, timeout=_CHECK_SECONDS)
        finally:
            del self._waiters[waiter]
            waiter.cancel()
