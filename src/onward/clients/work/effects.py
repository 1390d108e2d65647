"""The effects of jobs: handlers record them, and operators look at them and reset them."""

from __future__ import annotations

from uuid import UUID

from onward.clients.binding import AsyncBinding
from onward.core.jobs.ids import JobId, normalise_id
from onward.core.work.effect import Effect
from onward.operations.work import effects


class AsyncEffects:
    """The effects that handlers did by `ctx.once()`, and the steps they remember by `ctx.step()`."""

    def __init__(self, binding: AsyncBinding) -> None:
        self._run = binding.run
        self._policies = binding.policies

    async def list(self, job_id: JobId | UUID) -> list[Effect]:
        """Read the effects of a job, in the order of their names."""
        asked = normalise_id(job_id)
        return await self._run(lambda: effects.list_effects(asked), write=False)

    async def reset(self, job_id: JobId | UUID, name: str, *, reason: str) -> Effect:
        """Let an effect happen again, under a new key, the next time its job reaches it.

        It does not run the job. Raises EffectNotFound.
        """
        asked = normalise_id(job_id)
        return await self._run(lambda: effects.reset(asked, name, self._policies, reason=reason))
