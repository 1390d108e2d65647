"""Circuit breakers: see which jobs are held because their provider pushes back, and hold or free them."""

from __future__ import annotations

from onward.clients.binding import AsyncBinding
from onward.core.bulk import Changed
from onward.core.failures.breaker import Breaker
from onward.core.inputs.duration import Duration
from onward.core.inputs.wire_form import Instant
from onward.core.page import MOST_PER_PAGE, Cursor, Page, PageSize
from onward.operations.failures import breakers


class AsyncBreakers:
    """The breakers, one for each provider, queue or key; that of a queue is named `queue:…`.

    A breaker exists once its provider has pushed back or an operator has opened it. Every method raises
    NotAllowed for a client of one org.
    """

    def __init__(self, binding: AsyncBinding) -> None:
        self._run = binding.run

    async def list(self, *, limit: PageSize = MOST_PER_PAGE, cursor: Cursor | None = None) -> Page[Breaker]:
        """Read a page of the breakers: the open ones first, then those that count failures, each by name."""
        return await self._run(lambda: breakers.list_breakers(limit=limit, cursor=cursor), write=False)

    async def get(self, name: str) -> Breaker:
        """Read a breaker; an unknown one is closed."""
        return await self._run(lambda: breakers.get_breaker(name), write=False)

    async def open(
        self, name: str, *, reason: str, for_: Duration | None = None, until: Instant | None = None
    ) -> Breaker:
        """Hold a provider's jobs until the breaker is closed by hand, or for a time.

        After that time one job is let through to try. Raises InvalidSetting for a time in the past, or for
        both `for_` and `until`.
        """
        return await self._run(lambda: breakers.open_breaker(name, reason=reason, for_=for_, until=until))

    async def close(self, name: str, *, reason: str) -> Changed:
        """Let a provider's jobs run again; nothing changes if none was held and no failure was counted."""
        return await self._run(lambda: breakers.close_breaker(name, reason=reason))
