"""Delivers stored alerts to each sink; no error of a sink reaches a job.

Each message is stored before it is sent, so the next leader sends what a worker that died has left.
"""

from __future__ import annotations

import asyncio
import time
from datetime import timedelta
from functools import partial

from onward.clients.client import AsyncClient
from onward.core.failures.alert import Send, Sink, error_text
from onward.logs import get_logger
from onward.worker.attempts.thread_slots import Threads
from onward.worker.outage import Outage

log = get_logger("onward.worker")

_LAST_WORDS = 0.5
# Longer than a sink may take, so that no other worker takes a message that is under way.
_HOLD = timedelta(seconds=40)
_FIRST_WAIT, _LONGEST_WAIT = timedelta(seconds=10), timedelta(minutes=10)
_MOST_TRIES = 20


def back_off(tries: int) -> timedelta | None:
    """Return how long to wait after a failed send; None when the message is given up."""
    if tries >= _MOST_TRIES:
        return None
    return min(_FIRST_WAIT * 2.0 ** (tries - 1), _LONGEST_WAIT)


class Delivery:
    """Sends alerts to their sinks; each sink has a thread, so one that hangs delays no other."""

    def __init__(self, client: AsyncClient, outage: Outage, *, limit: float) -> None:
        self._limit = limit
        self._client = client
        self._outage = outage
        self._sinks: dict[str, Sink] = {sink.name: sink for sink in client.policies.registry.sinks}
        self._threads = Threads()
        self._under_way: dict[str, asyncio.Task[None]] = {}
        self._stuck: dict[str, asyncio.Future[object]] = {}
        self._resting: dict[str, float] = {}
        self._leaving = False

    async def wait(self, seconds: float) -> None:
        """Wait for the messages that are under way, at most `seconds`."""
        if self._under_way:
            await asyncio.wait(self._under_way.values(), timeout=seconds)

    async def close(self) -> None:
        """Stop sending; a message that is under way is taken again when its hold is over."""
        self._leaving = True
        self._threads.close()
        if not self._under_way:
            return
        # Wait a moment: a message that was just sent must be recorded, else it would be sent again.
        _, late = await asyncio.wait(list(self._under_way.values()), timeout=_LAST_WORDS)
        for task in late:
            task.cancel()
        if late:
            await asyncio.wait(late, timeout=_LAST_WORDS)

    async def start(self) -> None:
        """Begin to send the stored messages; a sink that rests, or is being served, is passed over."""
        for name in await self._client.worker.alerts.prepare(self._sinks):
            if name in self._under_way or time.monotonic() < self._resting.get(name, 0.0):
                continue
            if name in self._stuck and not self._stuck[name].done():
                continue
            task = asyncio.create_task(self._serve(self._sinks[name]), name=f"onward alerts {name}")
            self._under_way[name] = task
            task.add_done_callback(partial(self._served, name))

    def _served(self, name: str, _task: asyncio.Task[None]) -> None:
        self._under_way.pop(name, None)

    async def _serve(self, sink: Sink) -> None:
        """Send a sink its waiting messages, until there are no more or it fails."""
        alerts = self._client.worker.alerts
        try:
            while not self._leaving and (send := await alerts.take(sink.name, hold=_HOLD)) is not None:
                error = await self._try(sink, send)
                if error is None:
                    await alerts.record_send(send)
                    self._works(sink.name)
                else:
                    await self._put_off(send, error)
                    return
        except Exception as error:  # noqa: BLE001 - the message is there still
            self._outage.pause("alerter", error)

    async def _try(self, sink: Sink, send: Send) -> str | None:
        """Send one message; return why that failed, or None."""
        sent = self._threads.call(partial(sink.send, send.alert), {})
        done, _ = await asyncio.wait({sent}, timeout=self._limit)
        if not done:
            self._stuck[sink.name] = sent
            sent.add_done_callback(lambda late: late.cancelled() or late.exception())
            return f"it did not come back within {self._limit:g} s"
        error = sent.exception()
        return None if error is None else error_text(error, self._client.policies.settings.redact)

    async def _put_off(self, send: Send, error: str) -> None:
        wait = back_off(send.tries)
        await self._client.worker.alerts.record_send(send, error, wait=wait)
        if send.sink not in self._resting:
            log.warning("alert sink %s fails, and is tried again for a while: %s", send.sink, error)
        # The whole sink rests, because its other messages would fail too, each after its full time.
        self._resting[send.sink] = time.monotonic() + (wait or _LONGEST_WAIT).total_seconds()

    def _works(self, name: str) -> None:
        if self._resting.pop(name, None) is not None:
            log.warning("alert sink %s works again", name)
