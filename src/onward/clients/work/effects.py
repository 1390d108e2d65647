"""The effects of jobs: handlers record them, and operators look at them and reset them."""

from __future__ import annotations

from onward.clients.binding import AsyncBinding
from onward.core.jobs.ids import AnyJobId, normalise_id
from onward.core.page import MOST_PER_PAGE, Cursor, Page, PageSize
from onward.core.work.effect import Effect
from onward.operations.work import effects


class AsyncEffects:
    """The effects that handlers did by `ctx.once()`, and the steps they remember by `ctx.step()`."""

    def __init__(self, binding: AsyncBinding) -> None:
        self._run = binding.run
        self._policies = binding.policies

    async def list(
        self, job_id: AnyJobId, *, limit: PageSize = MOST_PER_PAGE, cursor: Cursor | None = None
    ) -> Page[Effect]:
        """Read a page of the effects of a job, in the order of their names."""
        wanted = normalise_id(job_id)
        return await self._run(lambda: effects.list_effects(wanted, limit=limit, cursor=cursor), write=False)

    async def reset(self, job_id: AnyJobId, name: str, *, reason: str) -> Effect:
        """Let an effect happen again, under a new key, the next time its job reaches it.

        It does not run the job. Raises EffectNotFound.
        """
        wanted = normalise_id(job_id)
        return await self._run(lambda: effects.reset(wanted, name, self._policies, reason=reason))
