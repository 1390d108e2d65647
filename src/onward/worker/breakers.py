"""Circuit breakers as one worker process sees them: who may call a provider now, and what is held.

As long as a provider is well this costs no statement. A process that does not know it yet has one call under
way; each answer that does not push back allows twice as many. After one that does, every call needs a turn,
and in all processes together there is one.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Coroutine, Mapping
from contextvars import Context
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from onward.client_async import AsyncClient
from onward.core.breaker import (
    QUEUE,
    Answer,
    BreakerSettings,
    answer_of,
    check_provider,
    settings_of,
)
from onward.core.job import Job
from onward.core.lifecycle import Outcome, Released
from onward.core.rules import Rules
from onward.handlers.handler import Handler
from onward.logs import get_logger
from onward.operations.breakers import Standing
from onward.worker.running import Running

__all__ = ["Breakers", "Line", "Ticket"]

log = get_logger("onward.worker")

_ASK_SECONDS = 0.2
_CHECK_SECONDS = 0.1
_IN_SLOT_SECONDS = 5.0
_WITHOUT_END_SECONDS = 60.0
_LAST_WORDS = 1.0
_MANY_LINES = 1000
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
        self.held_until = 0.0
        self.epoch = 0
        self.writing = 0
        self.asking = False
        self.ask_at = 0.0
        self.one_at_a_time = asyncio.Lock()
        self._turn: str | None = None
        self._turn_until = 0.0
        self._moved_at = time.monotonic()
        self._waiters: list[asyncio.Future[None]] = []

    @property
    def idle(self) -> bool:
        """Nothing is known of it that a new one would not know."""
        return not (self.suspect or self.running or self.writing or self.asking or self._waiters)

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
        self._moved_at = time.monotonic()

    def doubt(self) -> None:
        """Let nobody call without a turn; what is under way says nothing good any more."""
        self.suspect = True
        self.allowed = 1
        self.epoch += 1

    def trust(self, allowed: int) -> None:
        """Let calls begin without a turn, so many at once."""
        self.suspect = False
        self.allowed = allowed
        self.held_until = 0.0
        self._turn = None
        self._moved_at = time.monotonic()

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


class Breakers:
    """Lets the jobs of a worker through to their providers, and tells the database how those answer."""

    def __init__(
        self,
        handlers: Mapping[str, Handler],
        rules: Rules,
        client: AsyncClient,
        worker_id: Callable[[], str],
    ) -> None:
        self._handlers = handlers
        self._settings = rules.breakers
        self._client = client
        self._worker_id = worker_id
        self._queues = {name.removeprefix(QUEUE) for name in rules.breakers if name.startswith(QUEUE)}
        self._lines: dict[str, Line] = {}
        self._tickets: dict[str, Ticket] = {}
        self._turns = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._closed = False

    @classmethod
    def of(
        cls,
        handlers: Mapping[str, Handler],
        rules: Rules,
        client: AsyncClient,
        worker_id: Callable[[], str],
    ) -> Breakers | None:
        """Give the breakers of a worker; None if none of its jobs can have one."""
        wanted = rules.breakers or any(handler.provider is not None for handler in handlers.values())
        return cls(handlers, rules, client, worker_id) if wanted else None

    @property
    def hold(self) -> bool:
        """Some jobs may be held now."""
        now = time.monotonic()
        return any(now < line.held_until for line in self._lines.values())

    def held_types(self) -> frozenset[str]:
        """Name the job types that are held by the breaker of their only provider."""
        now = time.monotonic()
        held = {name for name, line in self._lines.items() if now < line.held_until}
        if not held:
            return frozenset()
        return frozenset(
            name
            for name, handler in self._handlers.items()
            if isinstance(handler.provider, str) and handler.provider in held
        )

    def holds_queue(self, queue: str) -> bool:
        """Tell whether a queue is held by its own breaker."""
        line = self._lines.get(f"{QUEUE}{queue}") if queue in self._queues else None
        # Jobs that name a provider are no business of their queue's breaker, so then it holds one by one.
        return line is not None and time.monotonic() < line.held_until and not self._mixed

    @property
    def _mixed(self) -> bool:
        return any(handler.provider is not None for handler in self._handlers.values())

    async def enter(self, run: Running) -> Outcome | None:
        """Wait until the job may call its provider; gives its end if it may not, or was asked to give way."""
        line = self._line_of(run.job, run.handler)
        if line is None:
            return None
        began = now = time.monotonic()
        while True:
            if run.why is not None:
                return run.gave_way()
            if now < line.held_until:
                return _held(line.held_until - now)
            if (ticket := line.admit(now)) is not None:
                self._tickets[run.job.id] = ticket
                run.waited = now - began
                return None
            if self._closed:
                return Released()
            if now - began >= _IN_SLOT_SECONDS:
                # Its slot is for others; what it waits for takes long.
                return _held(_IN_SLOT_SECONDS)
            if line.suspect and not line.asking and not line.writing and now >= line.ask_at:
                line.asking = True
                self._start(self._ask(line))
            await line.wait()
            now = time.monotonic()

    def leave(self, job: Job, outcome: Outcome) -> None:
        """Take note of how the provider has answered, if the job was let through to one."""
        ticket = self._tickets.pop(job.id, None)
        if ticket is None:
            return
        line, answer = ticket.line, answer_of(outcome)
        line.running -= 1
        if answer.pushed_back:
            line.doubt()
        elif ticket.turn is None:
            if ticket.epoch == line.epoch:
                line.grow()
            line.wake()
            return
        line.writing += 1
        self._start(self._count(line, ticket, answer))

    def told(self, suspects: Mapping[str, timedelta | None]) -> None:
        """Take note of what the database says of all breakers."""
        if len(self._lines) > _MANY_LINES:
            self._lines = {name: line for name, line in self._lines.items() if not line.idle}
        for name, left in suspects.items():
            line = self._line(name)
            if not line.suspect:
                line.doubt()
            line.hold(left)
            line.wake()
        for name, line in self._lines.items():
            if line.held_until and name not in suspects:
                # The word may be older than what we know, so it frees nobody: it makes us ask.
                line.held_until = line.ask_at = 0.0
                line.wake()

    def give_back(self) -> None:
        """Let nobody wait here any longer."""
        self._closed = True
        for line in self._lines.values():
            line.wake()

    async def close(self) -> None:
        """Write what is left to write, for a moment."""
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=_LAST_WORDS)
        for task in self._tasks:
            task.cancel()

    def _line_of(self, job: Job, handler: Handler) -> Line | None:
        provider = handler.provider
        if provider is None:
            return self._line(f"{QUEUE}{job.queue}") if job.queue in self._queues else None
        if not isinstance(provider, str):
            provider = provider(job)
            if provider is None:
                return None
            check_provider(provider)
        return self._line(provider)

    def _line(self, name: str) -> Line:
        line = self._lines.get(name)
        if line is None:
            line = self._lines[name] = Line(name, settings_of(name, self._settings))
        return line

    async def _ask(self, line: Line) -> None:
        """Ask the database for a turn."""
        self._turns += 1
        turn = f"{self._worker_id()}/{self._turns}"
        line.ask_at = time.monotonic() + _ASK_SECONDS
        try:
            async with line.one_at_a_time:
                standing = await self._client.breakers.ask(line.name, turn, line.settings)
                if standing.entry == "turn":
                    line.give_turn(turn)
                elif not line.writing:
                    _learn(line, standing, allowed=1)
        except Exception as error:  # noqa: BLE001 - a job must not fail because its breaker can't be asked
            log.warning("the breaker of %s can't be asked: %s", line.name, error)
        finally:
            line.asking = False
            line.wake()

    async def _count(self, line: Line, ticket: Ticket, answer: Answer) -> None:
        """Tell the database what an answer says of the provider."""
        try:
            async with line.one_at_a_time:
                breakers = self._client.breakers
                standing = await breakers.answered(line.name, ticket.turn, answer, line.settings)
                # Others that push back are still to be counted.
                if line.writing == 1 or standing.entry == "held":
                    _learn(line, standing, allowed=2)
        except Exception as error:  # noqa: BLE001 - the job's own end is written in any case
            log.warning("the breaker of %s could not be told of an answer: %s", line.name, error)
            if answer.pushed_back:
                line.hold(line.settings.held_for(0, answer.retry_after))
        finally:
            line.writing -= 1
            line.ask_at = 0.0
            line.wake()

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        # In a context of its own: what the worker counts is not done by the job that happens to run here.
        task = asyncio.get_running_loop().create_task(work, context=Context())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _learn(line: Line, standing: Standing, allowed: int) -> None:
    match standing.entry:
        case "go":
            line.trust(allowed)
        case "held":
            line.hold(standing.wait)


def _held(seconds: float) -> Released:
    """Give a job back until its hold ends; spread, so that they do not all come at once."""
    wait = min(seconds, _WITHOUT_END_SECONDS) if seconds == float("inf") else seconds
    return Released(timedelta(seconds=wait + random.uniform(0, max(1.0, wait / 10))))  # noqa: S311
