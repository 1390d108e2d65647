# Generated from src/onward/clients/work/effects.py by tools/make_sync.py. Edit that file instead.
"""The effects of jobs: handlers record them, and operators look at them and reset them."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from onward.clients.sync.binding import Binding
from onward.core.jobs.ids import JobId, normalise_id
from onward.core.jobs.job import Job
from onward.core.work.effect import Effect
from onward.errors import LeaseLost
from onward.operations.work import effects


class Effects:
    """The effects that handlers did by `ctx.once()`, and the steps they remember by `ctx.step()`."""

    def __init__(self, binding: Binding) -> None:
        self._run = binding.run
        self._rules = binding.rules

    def list(self, job_id: JobId | UUID) -> list[Effect]:
        """Read the effects of a job, in the order of their names."""
        asked = normalise_id(job_id)
        return self._run(lambda: effects.list_effects(asked), write=False)

    def reset(self, job_id: JobId | UUID, name: str, *, reason: str) -> Effect:
        """Let an effect happen again, under a new key, the next time its job reaches it.

        It does not run the job. Raises EffectNotFound.
        """
        asked = normalise_id(job_id)
        return self._run(lambda: effects.reset(asked, name, self._rules, reason=reason))

    def read(self, job_id: JobId | UUID, name: str) -> Effect | None:
        """Read one effect of a job; None if there is no record of it."""
        asked = normalise_id(job_id)
        return self._run(lambda: effects.read(asked, name), write=False)

    def begin(self, job: Job, name: str) -> Effect:
        """Record that a running job is about to do an effect, or return the effect that is already done.

        Raises LeaseLost.
        """
        begun = self._run(lambda: effects.begin(job, name))
        if begun is None:
            raise _lost(job, name, "begun")
        return begun

    def done(self, job: Job, begun: Effect, result: Any = None) -> None:
        """Record that an effect that had begun is done; raises LeaseLost."""
        name = begun.name
        if not self._run(lambda: effects.keep(job, name, result, kind="once", after=begun)):
            raise _lost(job, name, "recorded as done")

    def remember(self, job: Job, name: str, result: Any, *, after: Effect | None = None) -> None:
        """Record the result of a step of a running job; raises LeaseLost.

        `after` is what `read` returned.
        """
        if not self._run(lambda: effects.keep(job, name, result, kind="step", after=after)):
            raise _lost(job, name, "remembered")


def _lost(job: Job, name: str, what: str) -> LeaseLost:
    return LeaseLost(f"job {job.id}: lease {job.lease} is not the newest, so effect {name!r} was not {what}")
