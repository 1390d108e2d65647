# Generated from src/onward/clients/limits/queues.py by tools/make_sync.py. Edit that file instead.
"""Queues: read their policies, override their bounds for a time, and pause them."""

from __future__ import annotations

from collections.abc import Sequence

from onward.clients.sync.binding import Binding
from onward.core.limits.queue_policy import Bound, Queue, RateBound
from onward.operations.limits import pauses, queues


class Queues:
    """The policy of a queue: how many jobs run at once, how fast they start, and the turns of orgs."""

    def __init__(self, binding: Binding) -> None:
        self._run = binding.run

    def list(self, *, limit: int = 1000) -> Sequence[Queue]:
        """Read the queues that an application has declared or an operator has bounded, by name."""
        return self._run(lambda: queues.list_queues(limit=limit), write=False)

    def get(self, name: str) -> Queue:
        """Read the policy of a queue; an unknown queue has an empty one."""
        return self._run(lambda: queues.get_queue(name), write=False)

    def limit(
        self,
        name: str,
        *,
        concurrency: Bound | None = None,
        rate: RateBound | None = None,
        burst: int | None = None,
        reason: str,
    ) -> Queue:
        """Override the declared bounds until `reset`; "none" lifts a bound."""
        bounds = {"concurrency": concurrency, "rate": rate, "burst": burst}
        return self._run(
            lambda: queues.limit_queue(name, **bounds, reason=reason),  # type: ignore[arg-type]
            atomic=True,
        )

    def reset(self, name: str, *, reason: str) -> bool:
        """Remove the override, so that the declared bounds hold again; False if there was none."""
        return self._run(lambda: queues.reset_queue(name, reason=reason), atomic=True)

    def pause(self, name: str, *, reason: str) -> bool:
        """Stop claims of a queue; running jobs go on.

        Return False if it is paused for that reason already; another reason replaces the first one.
        """
        return self._run(lambda: pauses.pause("queue", name, reason=reason))

    def resume(self, name: str, *, reason: str | None = None) -> bool:
        """End a pause; False if there was none."""
        return self._run(lambda: pauses.resume("queue", name, reason=reason))
