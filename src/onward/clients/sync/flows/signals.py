# Generated from src/onward/clients/flows/signals.py by tools/make_sync.py. Edit that file instead.
"""Signals: a caller sends one when something has happened, and the jobs that wait for it receive it."""

from __future__ import annotations

import os
import time
from typing import Annotated, Any

from msgspec import Meta

from onward.clients.sync.binding import Binding
from onward.core.bulk import Bulk
from onward.core.inputs.duration import Duration
from onward.core.jobs.ids import IdMaker
from onward.core.jobs.scope import ALL
from onward.core.page import Cursor, Page, PageSize
from onward.core.work.wait import KEEP, Awaited, NewSignal, Sent, Signal
from onward.operations.flows import signals

_ids = IdMaker(time.time_ns, os.urandom)


class Signals:
    """Send signals, and see which signals are kept and which jobs wait for them."""

    def __init__(self, binding: Binding) -> None:
        self._binding = binding
        self._run = binding.run
        self._policies = binding.policies

    def send(self, event: str, key: str | None = None, payload: Any = None, *, keep: Duration = KEEP) -> Sent:
        """Send a signal to every job of the org, and of the project if there is one, that waits for it.

        Both are those of the client, or else those of the running code. Jobs that start to wait while the
        signal is kept receive it too. In a caller's transaction the signal is only stored; the waiting jobs
        come back within a second of the commit. Raises InvalidJob, PayloadTooLarge, PayloadRejected,
        SecretInPayload, and ContractBroken if the application requires an org or an actor.
        """
        binding = self._binding
        binding.check_change()
        scope = binding.scope
        actor = binding.bound.acting()
        new = NewSignal(_ids.make(), event, key, payload, *scope, keep, *actor)
        # Promotion makes jobs of every org ready, so a client confined to one org leaves it to the workers.
        bound, promotes = binding.is_within, binding.bound.scope == ALL
        return self._run(
            lambda: signals.send(new, self._policies, only_store=bound, promotes=promotes),
            org_id=scope.org_id,
            # The code around confines the signal by its org; promotion is Onward's own work.
            scope=binding.bound.scope,
        )

    def list(
        self,
        event: str | None = None,
        key: str | None = None,
        *,
        limit: PageSize = 50,
        cursor: Cursor | None = None,
    ) -> Page[Signal]:
        """Return a page of the signals that are kept, newest first.

        Raises InvalidSetting, and InvalidJob for a bad event or key.
        """
        return self._run(
            lambda: signals.list_signals(event=event, key=key, limit=limit, cursor=cursor), write=False
        )

    def awaited(
        self,
        event: str | None = None,
        key: str | None = None,
        *,
        limit: PageSize = 50,
        cursor: Cursor | None = None,
    ) -> Page[Awaited]:
        """Return a page of the waits of jobs for a signal, in the order of the job ids.

        Raises InvalidSetting, and InvalidJob for a bad event or key.
        """
        return self._run(
            lambda: signals.list_awaited(event=event, key=key, limit=limit, cursor=cursor), write=False
        )

    def prune(
        self,
        limit: Annotated[int, Meta(ge=1, le=signals.MOST_PRUNED)] = 1000,
        *,
        cursor: Cursor | None = None,
    ) -> Bulk:
        """Remove signals that are no longer kept, and waits that are over: at most `limit` of each.

        Raises InvalidSetting, and NotAllowed for a client of one org.
        """
        return self._run(lambda: signals.prune(limit, cursor))
