"""The handlers of the built-in jobs.

They have the lowest priority; the prune works in short rounds, with longer pauses while other jobs are ready.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from onward.clients.client import AsyncClient
from onward.core.jobs.actor import Actor
from onward.core.policy.built_in import CHECKUP, PRUNE, Q_ONWARD
from onward.core.work.lifecycle import Snooze
from onward.handlers.clients import Clients
from onward.handlers.definition import define
from onward.handlers.enqueue_options import Defaults
from onward.handlers.handler import Handler
from onward.logs import get_logger

log = get_logger("onward.maintenance")

_IDLE_SECONDS = 30.0
_BUSY_SECONDS = 2.0
_SNOOZE_SECONDS = 5.0
# A round is followed by a pause as long as the round; nine times as long while other jobs are ready.
_BUSY_PAUSE = 9
_LEAST_PAUSE = 0.01
_PRIORITY = 10


def built_in(clients: Clients) -> dict[str, Handler]:
    """Return the handlers that a worker has besides those of its application."""

    async def prune() -> dict[str, int]:
        async with clients.open_async() as client:
            return await prune_in_rounds(client)

    async def checkup() -> dict[str, Any]:
        async with clients.open_async() as client:
            return await check_up(client)

    options: Defaults = {"category": "maintenance", "queue": Q_ONWARD, "priority": _PRIORITY}
    made = [define(prune, clients, {**options, "name": PRUNE})]
    made.append(define(checkup, clients, {**options, "name": CHECKUP}))
    return {one.name: one.handler for one in made}


def served(queues: Mapping[str, int | None] | None) -> Mapping[str, int | None] | None:
    """Add the queue of the built-in jobs to the queues of a worker that names some: one job at a time."""
    return queues if not queues or Q_ONWARD in queues else {**queues, Q_ONWARD: 1}


async def prune_in_rounds(
    client: AsyncClient,
    *,
    limit: int = 1000,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> dict[str, int]:
    """Remove what is past its retention; when its time is over, raise Snooze to continue later from there."""
    client = client.acting_as(Actor("system", PRUNE))
    began = clock()
    counts: Counter[str] = Counter()
    own = client.worker.maintenance
    place = await own.read_place()
    unfinished = place is not None
    while True:
        started = clock()
        done = await client.maintenance.prune(cursor=place, limit=limit)
        counts.update(done.counts)
        place = done.next_cursor
        if place is None:
            if unfinished:
                await own.keep_place(None)
            return dict(counts)
        busy = bool((await client.worker.ready_queues()).queues - {Q_ONWARD})
        if clock() - began > (_BUSY_SECONDS if busy else _IDLE_SECONDS):
            await own.keep_place(place)
            raise Snooze(_SNOOZE_SECONDS)
        await sleep(max(_LEAST_PAUSE, (clock() - started) * (_BUSY_PAUSE if busy else 1)))


async def check_up(client: AsyncClient) -> dict[str, Any]:
    """Create the partitions of the next months; log and return advice for the operator."""
    tended = await client.worker.maintenance.tend()
    for one in tended:
        if one.done == "failed":
            log.warning(
                "partition %s could not be created or dropped: %s; it will be retried", one.name, one.detail
            )
    advice = (await client.maintenance.report()).advice
    for advised in advice:
        log.warning("%s: %s", advised.what, advised.sql)
    return {
        "partitions": {one.name: one.done for one in tended},
        "advice": [{"what": advised.what, "sql": advised.sql} for advised in advice],
    }
