# Generated from src/onward/clients/flows/signals.py by tools/make_sync.py. Edit that file instead.
"""Signals: sent by whoever knows that something has happened, seen by the jobs that wait for it."""

from __future__ import annotations

import os
import time
from typing import Any

from onward.clients.sync.binding import Binding
from onward.core.inputs.duration import Duration
from onward.core.jobs.ids import IdMaker, JobId, normalise_id
from onward.core.jobs.job import Job
from onward.core.work.wait import Awaited, Sent, Signal
from onward.operations.flows import signals
from onward.operations.flows.signals import NewSignal
from onward.origin import ambient_org

_ids = IdMaker(time.time_ns, os.urandom)

# In the class, `list` is a method.
Waits = list[Awaited]


class Signals:
    """Send signals, and see which are kept and who waits for them."""

    def __init__(self, binding: Binding) -> None:
        self._binding = binding
        self._run = binding.run
        self._rules = binding.rules

    def send(
        self,
        event: str,
        key: str | None = None,
        payload: Any = None,
        *,
        org_id: str | None = None,
        keep: Duration = signals.KEEP,
    ) -> Sent:
        """Tell every job of the org that waits for this event and key, now or as long as the signal is kept.

        In a caller's transaction it is only stored, and the jobs come back within a second of its commit.
        """
        org = org_id or self._binding.org_id or ambient_org(self._rules)
        actor = self._binding.bound.acting()
        new = NewSignal(_ids.make(), event, key, payload, org, keep, *actor)
        # A client of one org makes no other jobs ready, so it leaves that to the workers.
        bound, promotes = self._binding.is_within, self._binding.org_id is None
        return self._run(
            lambda: signals.send(new, self._rules, only_store=bound, promotes=promotes), org_id=org
        )

    def list(
        self,
        event: str | None = None,
        key: str | None = None,
        *,
        org_id: str | None = None,
        limit: int = 50,
        cursor: str | None = None,
    ) -> list[Signal]:
        """Read the signals that are kept, the newest first; the id of the last one leads to the next page."""
        after = None if cursor is None else normalise_id(cursor)
        return self._run(
            lambda: signals.list_signals(event=event, key=key, org_id=org_id, limit=limit, cursor=after),
            write=False,
        )

    def awaited(
        self,
        event: str | None = None,
        key: str | None = None,
        *,
        org_id: str | None = None,
        limit: int = 50,
        cursor: JobId | None = None,
    ) -> Waits:
        """Read which jobs wait for a signal, in the order of their ids."""
        after = None if cursor is None else normalise_id(cursor)
        return self._run(
            lambda: signals.list_awaited(event=event, key=key, org_id=org_id, limit=limit, cursor=after),
            write=False,
        )

    def find(
        self, job: Job, event: str, key: str | None = None, *, seen: tuple[str, ...] = ()
    ) -> Signal | None:
        """Give the oldest signal for a job that is none of those; None if there is none yet."""
        return self._run(lambda: signals.find(job, event, key, seen), write=False)

    def wake(self) -> int:
        """Call back the jobs whose signal is there, where whoever sent it did not; says how many."""
        # Asked first, because to look at what is fresh is to write.
        if not self._run(signals.any_fresh, write=False):
            return 0
        return self._run(signals.wake)

    def prune(self, limit: int = 1000) -> int:
        """Remove signals that are no longer kept, and what is left of waits that are over; says how many."""
        return sum(self._run(lambda: signals.prune(limit)))
