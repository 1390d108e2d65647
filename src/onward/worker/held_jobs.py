"""The jobs that a worker holds, on their way from the claim to a slot and from there to the finisher."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence

from onward.core.jobs.job import Job
from onward.core.work.lifecycle import End, Transition
from onward.logs import get_logger
from onward.worker.attempts.attempt import Ran
from onward.worker.attempts.executor import Executor
from onward.worker.claiming.buffer import Buffer
from onward.worker.claiming.claimer import Claimer
from onward.worker.claiming.exclusions import Exclusions
from onward.worker.claiming.throughput import Pace
from onward.worker.finishing.finisher import Finisher
from onward.worker.tally import Tally

log = get_logger("onward.worker")


class HeldJobs:
    """Passes jobs on from the claimer to the executor to the finisher; `resting` is set if there are none."""

    claimer: Claimer
    executor: Executor
    finisher: Finisher

    def __init__(
        self,
        buffer: Buffer,
        exclusions: Exclusions,
        pace: Pace,
        tally: Tally,
        on_end: Callable[[Job, Transition], None] | None,
    ) -> None:
        self._buffer = buffer
        self._exclusions = exclusions
        self._pace = pace
        self._tally = tally
        self._on_end = on_end
        self.resting = asyncio.Event()
        self.resting.set()

    def ids(self) -> set[str]:
        """Return the ids of all jobs that wait or run here, or whose ends are not written."""
        return self._buffer.ids() | set(self.executor.running.runs) | self.finisher.ids()

    def start(self) -> None:
        """Let the claimed jobs begin."""
        # A claim that was under way when a budget was spent may have brought jobs of that org.
        if self._buffer.length and (spent := self._exclusions.spent_orgs):
            self.spent(spent)
        if self._buffer.length:
            self.resting.clear()
            self._pace.began(time.monotonic())
            self.executor.wake()

    def ended(self, ran: Sequence[Ran]) -> None:
        """Pass on runs that are over."""
        self.finisher.add_all(ran)
        self._pace.ended(time.monotonic(), len(ran))
        self.claimer.slot_freed()
        self._check_resting()

    def written(self, batch: Sequence[tuple[Job, End]], lost: frozenset[str]) -> None:
        """Count the ends that were written; those of `lost` jobs were refused, as their lease was lost."""
        self.claimer.ends_written(job.queue for job, _ in batch)
        if lost:
            kept = [pair for pair in batch if pair[0].id not in lost]
            self._tally.refused += len(batch) - len(kept)
            batch = kept
        self._tally.add_all(batch)
        if (on_end := self._on_end) is None:
            return
        for job, end in batch:
            try:
                on_end(job, end.transition)
            except Exception:
                log.exception("on_end failed for job %s", job.id)

    def spent(self, orgs: frozenset[str]) -> None:
        """Release the waiting jobs of orgs whose budget is spent."""
        self._exclusions.add_spent(orgs)
        self.finisher.release(self._buffer.take_out(orgs))
        self._check_resting()

    def release(self) -> None:
        """Release the jobs that wait for a slot."""
        self.finisher.release(self._buffer.trim(0))
        self._check_resting()

    def lose(self) -> None:
        """Stop all jobs: the worker has lost its lease, so they belong to others now."""
        self._buffer.trim(0)
        self.executor.running.cancel_all("lease_lost")
        self._check_resting()

    def _check_resting(self) -> None:
        if not self._buffer.busy:
            self.resting.set()
            self._pace.rested(time.monotonic())
