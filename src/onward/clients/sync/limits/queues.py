# Generated from src/onward/clients/limits/queues.py by tools/make_sync.py. Edit that file instead.
"""Queues: read their policies, override their bounds for a time, and pause them."""

from __future__ import annotations

from onward.clients.sync.binding import Binding
from onward.core.bulk import Changed
from onward.core.limits.bounds import Bound, Burst, RateBound
from onward.core.limits.queue_policy import Queue
from onward.core.page import MOST_PER_PAGE, Cursor, Page, PageSize
from onward.operations.limits import pauses, queues


class Queues:
    """The policy of a queue: how many jobs run at once, how fast they start, and the turns of orgs."""

    def __init__(self, binding: Binding) -> None:
        self._run = binding.run

    def list(self, *, limit: PageSize = MOST_PER_PAGE, cursor: Cursor | None = None) -> Page[Queue]:
        """Read a page of the queues that an application has declared or an operator has bounded, by name.

        Raises InvalidSetting for an invalid limit or cursor.
        """
        return self._run(lambda: queues.list_queues(limit, cursor), write=False)

    def get(self, name: str) -> Queue:
        """Read the policy of a queue; an unknown queue has an empty one. Raises InvalidJob for a bad name."""
        return self._run(lambda: queues.get_queue(name), write=False)

    def limit(
        self,
        name: str,
        *,
        concurrency: Bound | None = None,
        rate: RateBound | None = None,
        burst: Burst | None = None,
        reason: str,
    ) -> Queue:
        """Override the declared bounds until `reset`; "none" lifts a bound.

        Raises InvalidJob for an invalid name, and InvalidSetting for an invalid bound or reason.
        """
        return self._run(
            lambda: queues.limit_queue(name, concurrency=concurrency, rate=rate, burst=burst, reason=reason),
            atomic=True,
        )

    def reset(self, name: str, *, reason: str) -> Changed:
        """Remove the override, so that the declared bounds hold again; nothing changes if there is none.

        Raises InvalidJob for an invalid name, and InvalidSetting for an invalid reason.
        """
        return self._run(lambda: queues.reset_queue(name, reason=reason), atomic=True)

    def pause(self, name: str, *, reason: str) -> Changed:
        """Stop claims of a queue; running jobs continue.

        Nothing changes if it is paused for that reason already; another reason replaces the first one.
        Raises InvalidJob for an invalid name, and InvalidSetting for an invalid reason.
        """
        return self._run(lambda: pauses.pause("queue", name, reason=reason))

    def resume(self, name: str, *, reason: str | None = None) -> Changed:
        """End the pause of a queue; nothing changes if there is none.

        Raises InvalidJob for an invalid name, and InvalidSetting for an invalid reason.
        """
        return self._run(lambda: pauses.resume("queue", name, reason=reason))
