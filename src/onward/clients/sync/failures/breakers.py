# Generated from src/onward/clients/failures/breakers.py by tools/make_sync.py. Edit that file instead.
"""Circuit breakers: see which jobs are held because their provider pushes back, and hold or free them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from onward.clients.sync.binding import Binding
from onward.core.failures.breaker import Breaker
from onward.core.inputs.duration import Duration
from onward.operations.failures import breakers


class Breakers:
    """The breakers, one for each provider, queue or key.

    A breaker exists once its provider has pushed back or an operator has opened it.
    """

    def __init__(self, binding: Binding) -> None:
        self._run = binding.run

    def list(self, *, limit: int = 1000) -> Sequence[Breaker]:
        """Read the breakers by name; a provider that never pushed back has none."""
        return self._run(lambda: breakers.list_breakers(limit=limit), write=False)

    def get(self, name: str) -> Breaker:
        """Read a breaker; an unknown one is closed. The breaker of a queue is named `queue:…`."""
        return self._run(lambda: breakers.get_breaker(name), write=False)

    def open(
        self, name: str, *, reason: str, for_: Duration | None = None, until: datetime | None = None
    ) -> Breaker:
        """Hold a provider's jobs until the breaker is closed by hand, or for a time.

        After that time one job is let through to try.
        """
        return self._run(lambda: breakers.open_breaker(name, reason=reason, for_=for_, until=until))

    def close(self, name: str, *, reason: str) -> bool:
        """Let a provider's jobs run again; False if nothing was held or counted."""
        return self._run(lambda: breakers.close_breaker(name, reason=reason))
