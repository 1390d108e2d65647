"""Circuit breakers in one worker process: which jobs may call a provider now, and which are held.

A healthy provider costs no statement. A process that does not know a provider yet makes one call at a time;
each answer that does not push back doubles the calls at once. After an answer that pushes back, every call
needs the probe, and all processes together have only one. A job that has failed before leaves it to others.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Coroutine, Mapping
from contextvars import Context
from datetime import timedelta
from typing import Any

from onward.clients.client import AsyncClient
from onward.core.failures.breaker import (
    QUEUE,
    Answer,
    Standing,
    answer_of,
    check_provider,
    has_failed,
    settings_of,
)
from onward.core.jobs.job import Job
from onward.core.policy.policies import Policies
from onward.core.work.lifecycle import Outcome, Released
from onward.handlers.handler import Handler
from onward.worker.attempts.attempt import Running
from onward.worker.attempts.breaker_changes import BreakerChanges
from onward.worker.attempts.provider_queue import COURTESY_SECONDS, Admission, Line

_ASK_SECONDS = 0.2
_KEPT_SECONDS = 10.0
_APART_SECONDS = 0.05
_LONGEST_AWAY = 60.0
# Not until the hold ends, because an operator may close the breaker long before.
_HELD_SECONDS, _HELD_SPREAD = 10.0, 5.0
_LAST_WORDS = 1.0
_MANY_LINES = 1000


class Breakers:
    """Admits the jobs of a worker to their providers, and records in the database how those answer."""

    def __init__(
        self,
        handlers: Mapping[str, Handler],
        policies: Policies,
        client: AsyncClient,
        worker_id: Callable[[], str],
        *,
        patience: float = 5.0,
    ) -> None:
        self._handlers = handlers
        self._settings = policies.registry.breakers
        self._client = client
        self._worker_id = worker_id
        self._patience = patience
        self._queues = {
            name.removeprefix(QUEUE) for name in policies.registry.breakers if name.startswith(QUEUE)
        }
        self.lines: dict[str, Line] = {}
        self._admissions: dict[tuple[str, int], Admission] = {}
        self._changes = BreakerChanges(client, self._start)
        self.probes = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._closed = False

    @classmethod
    def of(
        cls,
        handlers: Mapping[str, Handler],
        policies: Policies,
        client: AsyncClient,
        worker_id: Callable[[], str],
        *,
        patience: float = 5.0,
    ) -> Breakers | None:
        """Return the breakers of a worker; None if none of its jobs can have one."""
        wanted = policies.registry.breakers or any(
            handler.provider is not None for handler in handlers.values()
        )
        if not wanted:
            return None
        return cls(handlers, policies, client, worker_id, patience=patience)

    @property
    def hold(self) -> bool:
        """Whether some jobs may be held now."""
        now = time.monotonic()
        return any(line.is_closed(now) for line in self.lines.values())

    def held_types(self) -> frozenset[str]:
        """Return the job types that are held by the breaker of their only provider."""
        now = time.monotonic()
        held = {name for name, line in self.lines.items() if line.is_closed(now)}
        if not held:
            return frozenset()
        return frozenset(
            name
            for name, handler in self._handlers.items()
            if isinstance(handler.provider, str) and handler.provider in held
        )

    def holds_queue(self, queue: str) -> bool:
        """Whether the claimer should pass over a queue because of the queue's own breaker."""
        line = self.lines.get(f"{QUEUE}{queue}") if queue in self._queues else None
        # A queue's breaker must not hold jobs that name a provider. If there may be such jobs, each job is
        # held by itself when it enters.
        return line is not None and line.is_closed(time.monotonic()) and not self._mixed

    @property
    def _mixed(self) -> bool:
        return any(handler.provider is not None for handler in self._handlers.values())

    async def enter(self, run: Running) -> Outcome | None:
        """Wait until the job may call its provider; return its outcome if it may not, or must stop."""
        line = self._line_of(run.job, run.handler)
        if line is None:
            return None
        try:
            return await self._wait_in(line, run)
        finally:
            self._pass_on(line)

    async def _wait_in(self, line: Line, run: Running) -> Outcome | None:
        failed = has_failed(run.job)
        began = now = time.monotonic()
        while True:
            if run.why is not None:
                return run.gave_way()
            if now < line.held_until:
                return self._held(line, run.handler, line.held_until - now)
            if failed and line.suspect and line.courtesy.puts_off(now):
                return _after(COURTESY_SECONDS, COURTESY_SECONDS)
            if (admission := line.admit(now, failed=failed)) is not None:
                self._admissions[run.job.id, run.job.lease] = admission
                run.waited = now - began
                return None
            if self._closed:
                return Released()
            if now < line.crowded_until:
                return self._outside(line, run.handler, line.crowded_until - now)
            if now - began >= line.patience:
                # The job has waited too long: its slot is needed for other jobs.
                line.crowd(now)
                continue
            if line.may_request_probe(now) and not (failed and _is_courteous(line, now - began)):
                line.probing = True
                self._start(self.request_probe(line))
            await line.wait(failed=failed)
            now = time.monotonic()

    def leave(self, job: Job, outcome: Outcome) -> None:
        """Record how the provider answered, if the job was admitted to one."""
        admission = self._admissions.pop((job.id, job.lease), None)
        if admission is None:
            return
        line, answer = admission.line, answer_of(outcome, job.id)
        line.running -= 1
        if answer.pushed_back:
            line.doubt()
        elif admission.probe is None:
            if admission.epoch == line.epoch:
                line.grow()
            line.wake()
            return
        self._report(line, admission, answer)

    def update(self, suspects: Mapping[str, timedelta | None]) -> None:
        """Take over what the database knows of all breakers."""
        if len(self.lines) > _MANY_LINES:
            self._forget(suspects)
        for name, left in suspects.items():
            line = self.line(name)
            if not line.suspect:
                line.doubt()
            line.hold(left)
            line.wake()
            if left != timedelta() and name not in self._changes.known_open:
                self._changes.look_at(line)
        for name in self._changes.known_open - suspects.keys():
            self._changes.look_at(self.line(name))
        for name, line in self.lines.items():
            if line.held_until and name not in suspects:
                # This answer may be older than what the process knows. So it admits no job: it only makes
                # the process ask.
                line.held_until = line.probe_at = 0.0
                line.wake()

    def give_back(self) -> None:
        """Release all jobs that wait here, and let no other job wait."""
        self._closed = True
        for line in self.lines.values():
            line.wake()

    async def close(self) -> None:
        """Wait a moment for the writes that are under way, then cancel them."""
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=_LAST_WORDS)
        for task in self._tasks:
            task.cancel()

    def _forget(self, suspects: Mapping[str, timedelta | None]) -> None:
        """Drop lines that neither the database nor this process has used for a while."""
        old = time.monotonic() - _KEPT_SECONDS
        self.lines = {
            name: line
            for name, line in self.lines.items()
            if name in suspects or not line.idle or (line.suspect and line.doubted_at > old)
        }

    def _pass_on(self, line: Line) -> None:
        """Return an unused probe to the database if no job waits here: a job of another process may."""
        if (probe := line.unused()) is not None:
            self._report(line, Admission(line, line.epoch, probe), Answer())

    def _outside(self, line: Line, handler: Handler, seconds: float) -> Released:
        """Release a job of a crowded line; the delay is short if the claim passes such jobs over."""
        if self._passes_over(line, handler):
            return _after(0.1, 0.8)
        # The delay grows, else all of a long queue would be claimed and released every few seconds.
        line.turned_away += 1
        wait = min(seconds + line.turned_away * _APART_SECONDS, _LONGEST_AWAY)
        return _after(wait, max(1.0, wait / 10))

    def _held(self, line: Line, handler: Handler, seconds: float) -> Released:
        """Release a job that is held; the delay is short if the claim passes such jobs over."""
        if self._passes_over(line, handler):
            return _after(0.1, 0.8)
        return _after(min(seconds, _HELD_SECONDS), _HELD_SPREAD)

    def _passes_over(self, line: Line, handler: Handler) -> bool:
        """Whether the claim passes over all jobs of this handler while the line is closed."""
        return handler.provider == line.name or (handler.provider is None and not self._mixed)

    def _report(self, line: Line, admission: Admission, answer: Answer) -> None:
        line.writing += 1
        self._start(self._count(line, admission, answer))

    def _line_of(self, job: Job, handler: Handler) -> Line | None:
        provider = handler.provider
        if provider is None:
            return self.line(f"{QUEUE}{job.queue}") if job.queue in self._queues else None
        if not isinstance(provider, str):
            provider = provider(job)
            if provider is None:
                return None
            check_provider(provider)
        return self.line(provider)

    def line(self, name: str) -> Line:
        """Return the jobs that wait for a breaker, created at first use."""
        line = self.lines.get(name)
        if line is None:
            line = self.lines[name] = Line(name, settings_of(name, self._settings), self._patience)
        return line

    async def request_probe(self, line: Line) -> None:
        """Ask the database for the probe."""
        self.probes += 1
        probe = f"{self._worker_id()}/{self.probes}"
        line.probe_at = time.monotonic() + _ASK_SECONDS
        try:
            async with line.one_at_a_time:
                standing = await self._client.worker.breakers.ask(line.name, probe, line.settings)
                self._changes.saw(standing.breaker)
                if standing.entry == "probe":
                    line.grant_probe(probe)
                elif not line.writing:
                    _learn(line, standing, allowed=1)
        except Exception as error:  # noqa: BLE001 - a job must not fail because its breaker can't be asked
            self._changes.warn("the breaker of %s can't be asked: %s", line, error)
        finally:
            line.probing = False
            line.wake()
            self._pass_on(line)

    async def _count(self, line: Line, admission: Admission, answer: Answer) -> None:
        """Record an answer of the provider in the database."""
        try:
            async with line.one_at_a_time:
                breakers = self._client.worker.breakers
                standing = await breakers.answered(line.name, admission.probe, answer, line.settings)
                self._changes.saw(standing.breaker)
                # While other answers that push back wait to be written, only a hold is final.
                if line.writing == 1 or standing.entry == "held":
                    _learn(line, standing, allowed=2)
        except Exception as error:  # noqa: BLE001 - the job's own end is written in any case
            self._changes.warn("the breaker of %s could not be told of an answer: %s", line, error)
            if answer.pushed_back:
                line.hold(line.settings.held_for(0, answer.retry_after))
        finally:
            line.writing -= 1
            line.probe_at = 0.0
            line.wake()

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        # In a context of its own, else these statements would inherit from the job that happens to run here.
        task = asyncio.get_running_loop().create_task(work, context=Context())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _is_courteous(line: Line, waited: float) -> bool:
    """Whether a job that has failed waits in its slot for others; after a hold it was put off instead."""
    return not line.courtesy.until and waited < min(COURTESY_SECONDS, line.patience / 2)


def _learn(line: Line, standing: Standing, allowed: int) -> None:
    match standing.entry:
        case "go":
            line.trust(allowed)
        case "held":
            line.hold(standing.wait)


def _after(seconds: float, spread: float) -> Released:
    """Return a release with a random delay, so that the jobs do not all come back at once."""
    return Released(timedelta(seconds=seconds + random.uniform(0, spread)))  # noqa: S311
