# Generated from src/onward/clients/work/worker_effects.py by tools/make_sync.py. Edit that file instead.
"""What a running job keeps and receives: its effects, its remembered steps, and its signals."""

from __future__ import annotations

from typing import Any

from onward.clients.sync.binding import Binding
from onward.core.jobs.ids import AnyJobId, normalise_id
from onward.core.jobs.job import Job
from onward.core.work.effect import Effect
from onward.core.work.wait import Signal
from onward.errors import LeaseLost
from onward.operations.flows import signals
from onward.operations.work import effects


class WorkerEffects:
    """Records the effects and steps of running jobs."""

    def __init__(self, binding: Binding) -> None:
        self._run = binding.run

    def read(self, job_id: AnyJobId, name: str) -> Effect | None:
        """Read one effect of a job; None if there is no record of it."""
        wanted = normalise_id(job_id)
        return self._run(lambda: effects.read(wanted, name), write=False)

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


class WorkerSignals:
    """Finds the signals for running jobs, and wakes the jobs that wait for one."""

    def __init__(self, binding: Binding) -> None:
        self._run = binding.run

    def find(
        self, job: Job, event: str, key: str | None = None, *, seen: tuple[str, ...] = ()
    ) -> Signal | None:
        """Return the oldest signal for a job that is not in `seen`; None if there is none yet."""
        return self._run(lambda: signals.find(job, event, key, seen), write=False)

    def wake(self) -> int:
        """Wake the jobs whose signal was stored without waking them; return how many."""
        # A read first: `signals.wake` needs a write transaction even when nothing is fresh.
        if not self._run(signals.any_fresh, write=False):
            return 0
        return self._run(signals.wake)


def _lost(job: Job, name: str, what: str) -> LeaseLost:
    return LeaseLost(f"job {job.id}: lease {job.lease} is not the newest, so effect {name!r} was not {what}")
