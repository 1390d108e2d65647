"""Signals: a caller sends one when something has happened, and the jobs that wait for it receive it."""

from __future__ import annotations

import os
import time
from typing import Any

from onward.clients.binding import AsyncBinding
from onward.core.inputs.duration import Duration
from onward.core.jobs.ids import IdMaker, JobId, normalise_id
from onward.core.work.wait import KEEP, Awaited, NewSignal, Sent, Signal
from onward.operations.flows import signals
from onward.origin import ambient_org

_ids = IdMaker(time.time_ns, os.urandom)

# Inside the class, `list` is a method.
Waits = list[Awaited]


class AsyncSignals:
    """Send signals, and see which signals are kept and which jobs wait for them."""

    def __init__(self, binding: AsyncBinding) -> None:
        self._binding = binding
        self._run = binding.run
        self._policies = binding.policies

    async def send(
        self,
        event: str,
        key: str | None = None,
        payload: Any = None,
        *,
        org_id: str | None = None,
        keep: Duration = KEEP,
    ) -> Sent:
        """Send a signal to every job of the org that waits for this event and key.

        Jobs that start to wait while the signal is kept receive it too. In a caller's transaction the signal
        is only stored; the waiting jobs come back within a second of the commit.
        """
        org = org_id or self._binding.org_id or ambient_org(self._policies)
        actor = self._binding.bound.acting()
        new = NewSignal(_ids.make(), event, key, payload, org, keep, *actor)
        # Promotion makes jobs of every org ready, so a client confined to one org leaves it to the workers.
        bound, promotes = self._binding.is_within, self._binding.org_id is None
        return await self._run(
            lambda: signals.send(new, self._policies, only_store=bound, promotes=promotes), org_id=org
        )

    async def list(
        self,
        event: str | None = None,
        key: str | None = None,
        *,
        org_id: str | None = None,
        limit: int = 50,
        cursor: str | None = None,
    ) -> list[Signal]:
        """Read the signals that are kept, newest first; the last id is the cursor of the next page."""
        after = None if cursor is None else normalise_id(cursor)
        return await self._run(
            lambda: signals.list_signals(event=event, key=key, org_id=org_id, limit=limit, cursor=after),
            write=False,
        )

    async def awaited(
        self,
        event: str | None = None,
        key: str | None = None,
        *,
        org_id: str | None = None,
        limit: int = 50,
        cursor: JobId | None = None,
    ) -> Waits:
        """Read the waits of jobs for a signal, in the order of the job ids."""
        after = None if cursor is None else normalise_id(cursor)
        return await self._run(
            lambda: signals.list_awaited(event=event, key=key, org_id=org_id, limit=limit, cursor=after),
            write=False,
        )

    async def prune(self, limit: int = 1000) -> int:
        """Remove signals that are no longer kept, and the rows of waits that are over; return how many."""
        return sum(await self._run(lambda: signals.prune(limit)))
