# Generated from src/onward/clients/work/effects.py by tools/make_sync.py. Edit that file instead.
"""The effects of jobs: handlers record them, and operators look at them and reset them."""

from __future__ import annotations

from uuid import UUID

from onward.clients.sync.binding import Binding
from onward.core.jobs.ids import JobId, normalise_id
from onward.core.work.effect import Effect
from onward.operations.work import effects


class Effects:
    """The effects that handlers did by `ctx.once()`, and the steps they remember by `ctx.step()`."""

    def __init__(self, binding: Binding) -> None:
        self._run = binding.run
        self._policies = binding.policies

    def list(self, job_id: JobId | UUID) -> list[Effect]:
        """Read the effects of a job, in the order of their names."""
        asked = normalise_id(job_id)
        return self._run(lambda: effects.list_effects(asked), write=False)

    def reset(self, job_id: JobId | UUID, name: str, *, reason: str) -> Effect:
        """Let an effect happen again, under a new key, the next time its job reaches it.

        It does not run the job. Raises EffectNotFound.
        """
        asked = normalise_id(job_id)
        return self._run(lambda: effects.reset(asked, name, self._policies, reason=reason))
