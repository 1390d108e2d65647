"""Keeps the worker's lease, from a thread of its own with a connection of its own.

So a handler that blocks the event loop slows the worker but does not cost its lease. The log names that job.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from typing import Any

from onward.clients.sync.client import Client
from onward.core.work.claim import Instructions
from onward.errors import WorkerLost
from onward.logs import get_logger
from onward.worker.outage import Outage

log = get_logger("onward.worker")

_WATCH_SECONDS = 0.5
_LAG_SECONDS = 1.0
_LEAST_PATIENCE = 2.0
_LAST_WORDS = 1.0


class Keeper:
    """Registers the worker, renews its lease, and passes pauses and requests to the event loop."""

    def __init__(
        self,
        client: Client,
        outage: Outage,
        *,
        lease: timedelta,
        info: dict[str, Any],
        on_instructions: Callable[[Instructions], None],
        lost: Callable[[], None],
        blocking: Callable[[], str],
        registered: Callable[[str], None] | None,
    ) -> None:
        self._client = client
        self.lease = lease
        self._info = info
        self._on_instructions = on_instructions
        self._lost = lost
        self._blocking = blocking
        self._registered = registered
        self._loop = asyncio.get_running_loop()
        self._outage = outage
        self._retires = False
        self._end = threading.Event()
        self._thread: threading.Thread | None = None
        self._extended = 0.0
        self._pinged_at: float | None = None
        self._blocker: str | None = None
        self.worker_id = ""
        self.idle = False
        self.marked_idle = False

    async def start(self) -> None:
        """Register the worker and read what is paused; raise if the database can't be used."""
        await asyncio.to_thread(self._register)
        await asyncio.to_thread(self._beat)
        self._thread = threading.Thread(target=self._keep, name="onward keeper", daemon=True)
        self._thread.start()

    async def close(self, *, retire: bool) -> None:
        """Stop renewing the lease; with `retire`, release at once the jobs that the worker still holds."""
        self._retires = retire
        self._end.set()
        if self._thread is None:
            self._client.close()
        else:
            # With a limit: the thread may wait for a database that does not answer. It is a daemon.
            await asyncio.to_thread(self._thread.join, _LAST_WORDS)

    def hang_up(self) -> None:
        """Break off a call to the database that takes a third of the lease: it endangers the lease."""
        self._client.store.hang_up(max(_LEAST_PATIENCE, self.lease.total_seconds() / 3))

    def _register(self) -> None:
        worker_id = f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(4)}"
        # Counted from before the call, so the lease never ends earlier than this worker believes.
        before = time.monotonic()
        self._client.worker.register(worker_id, lease=self.lease, info=self._info)
        self._extended = before
        self.worker_id = worker_id
        self.marked_idle = False
        if self._registered is not None:
            self._registered(worker_id)

    def _keep(self) -> None:
        pause = _WATCH_SECONDS
        while not self._end.wait(pause):
            self._check_loop()
            try:
                self._beat()
            except Exception as error:  # noqa: BLE001 - whatever it is, the lease must be kept
                pause = self._outage.pause("keeper", error)
            else:
                pause = _WATCH_SECONDS
                self._outage.over("keeper")
        with suppress(Exception):
            # Best effort: if the database is away, the lease runs out by itself.
            if self._retires:
                self._client.worker.retire(self.worker_id)
        self._client.close()

    def _beat(self) -> None:
        now = time.monotonic()
        try:
            if now - self._extended >= self.lease.total_seconds() / 6 or self.idle != self.marked_idle:
                idle = self.idle
                # Cleared before the call: until it is answered, it is unknown whether wake-ups still come.
                self.marked_idle = self.marked_idle and idle
                self._client.worker.extend(self.worker_id, (), lease=self.lease, idle=idle)
                self._extended, self.marked_idle = now, idle
            instructions = self._client.worker.instructions(self.worker_id)
        except WorkerLost:
            self._start_again()
            return
        if not instructions.alive and now - self._extended > self.lease.total_seconds():
            self._start_again()
            return
        self._call(self._on_instructions, instructions)

    def _start_again(self) -> None:
        """Register under a new id, because the worker no longer holds any job under the old one."""
        old = self.worker_id
        log.error(
            "worker %s lost its lease: its jobs were given to others, their handlers are cancelled", old
        )
        self._register()
        self._call(self._lost)

    def _check_loop(self) -> None:
        """Check that the event loop responds; log the job that blocks it if it does not."""
        now = time.monotonic()
        if self._pinged_at is None:
            self._pinged_at = now
            self._call(self._respond)
        elif now - self._pinged_at > _LAG_SECONDS and self._blocker is None:
            self._blocker = self._blocking()
            log.warning(
                "event loop blocked for %.1f s by %s; nothing else runs here until it is over. "
                "Make its handler a plain function (it then gets a thread), or use executor='process'",
                now - self._pinged_at,
                self._blocker,
            )

    def _respond(self) -> None:
        if self._blocker is not None and self._pinged_at is not None:
            log.warning(
                "event loop runs again after %.1f s; blocked by %s",
                time.monotonic() - self._pinged_at,
                self._blocker,
            )
        self._pinged_at = self._blocker = None

    def _call(self, function: Callable[..., None], *arguments: Any) -> None:
        try:
            self._loop.call_soon_threadsafe(function, *arguments)
        except RuntimeError:
            # The loop is closed: the worker is gone and needs no lease.
            self._end.set()
