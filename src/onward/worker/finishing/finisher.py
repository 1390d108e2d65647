"""Writes the outcomes of attempts, many at once.

An end that can't be written now is kept until it can.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence

from msgspec.structs import replace

from onward.clients.client import AsyncClient
from onward.core.failures.classify import describe
from onward.core.jobs.job import Job
from onward.core.work.error_record import ErrorRecord
from onward.core.work.lifecycle import End, Failed, Outcome, Released, Succeeded
from onward.errors import TransactionOpen
from onward.logs import get_logger
from onward.worker.attempts.attempt import Completion, Ran
from onward.worker.claiming.throughput import AT_ONCE
from onward.worker.finishing.end_batches import EndBatches
from onward.worker.finishing.end_writer import EndWriter, end_of
from onward.worker.finishing.failure_log import log_failure
from onward.worker.outage import Outage

log = get_logger("onward.worker")

_MANY_UNWRITTEN = 5000


class Finisher:
    """Collects ends and writes them by hundreds; a single end is written at once when nothing else runs."""

    def __init__(
        self,
        client: AsyncClient,
        outage: Outage,
        *,
        patience: float,
        busy: Callable[[], bool],
        written: Callable[[Sequence[tuple[Job, End]], frozenset[str]], None],
        spent: Callable[[frozenset[str]], None],
        freed: Callable[[frozenset[str]], None],
        completed: Callable[[], None],
    ) -> None:
        self._policies = client.policies
        self._batches = EndBatches(at_once=AT_ONCE[client.store.database], patience=patience, busy=busy)
        self._writer = EndWriter(client, outage, written=written, spent=spent, freed=freed)
        self._written, self._spent, self._completed = written, spent, completed
        self._writing: list[tuple[list[tuple[Job, End]], asyncio.Task[None]]] = []
        self._apart: dict[asyncio.Task[None], tuple[Job, End]] = {}
        self._over = False

    def release(self, jobs: Iterable[Job]) -> None:
        """Take jobs that did not run: they go back to their queues."""
        self.add_all((job, Released(), (), None, None, None) for job in jobs)

    def add_all(self, ran: Iterable[Ran]) -> None:
        """Take the outcomes of attempts, what they used, and how far they were."""
        policies, batches = self._policies, self._batches
        for job, outcome, usage, completion, report, raised in ran:
            if completion is None:
                end = end_of(policies, job, outcome, usage, report)
                if end.transition.error is not None:
                    log_failure(policies, job, end.transition, raised)
                batches.ends.append((job, end))
            else:
                self._complete(completion, (job, outcome, usage, None, report, raised))
                self._completed()
        batches.announce()

    def _complete(self, completion: Completion, ran: Ran) -> None:
        """Take the end that a handler committed itself; if the commit is in doubt, ask the database.

        If the handler did not commit, the outcome in `ran` is that of the attempt.
        """
        job, outcome, usage, _, report, raised = ran
        if completion.end is None or not completion.sure:
            if completion.end is not None:
                self._writer.doubts[job.id, job.lease] = completion.end
            elif isinstance(outcome, Succeeded):
                # A transaction that is open now will never be committed.
                outcome = Failed(replace(describe(_left_open()), rule="transaction_open"))
            self._write_apart((job, outcome, usage, None, report, raised))
            return
        _warn_of_later_end(job, completion.end, outcome, raised)
        self._written([(job, completion.end)], frozenset())
        if completion.spent:
            self._spent(completion.spent)

    def _write_apart(self, ran: Ran) -> None:
        """Write an end that may wait for the handler's own transaction; alone, so that no other end waits."""
        if self._over:
            self.add_all([ran])
            return
        job, outcome, usage, _, report, raised = ran
        pair = job, end_of(self._policies, job, outcome, usage, report)
        log_failure(self._policies, job, pair[1].transition, raised)
        writing = asyncio.create_task(self._writer.write([pair], apart=True))
        self._apart[writing] = pair
        writing.add_done_callback(self._apart.pop)

    def lags(self) -> bool:
        """Whether more than `_MANY_UNWRITTEN` ends wait, so that claiming should wait for the writes."""
        return len(self._batches.ends) > _MANY_UNWRITTEN

    def ids(self) -> set[str]:
        """Return the ids of the jobs whose ends are not written yet."""
        batches = [self._batches.ends, *(batch for batch, _ in self._writing)]
        return {job.id for batch in (*batches, self._apart.values()) for job, _ in batch}

    async def emptied(self) -> None:
        """Wait until all ends are written."""
        await self._batches.emptied.wait()
        while self._apart:
            await asyncio.wait(self._apart)
            await self._batches.emptied.wait()

    async def run(self) -> None:
        """Write until cancelled."""
        batches = self._batches
        try:
            while True:
                if not batches.ends:
                    await self._await_writes(0)
                await batches.wait()
                batch = await batches.take()
                self._writing.append((batch, asyncio.create_task(self._writer.write(batch))))
                # Only a full batch is written beside another, else there would be many small writes.
                await self._await_writes(1 if len(batch) == batches.at_once else 0)
        finally:
            self._over = True
            for writing in (*self._apart, *(task for _, task in self._writing)):
                writing.cancel()

    async def _await_writes(self, left: int) -> None:
        while len(self._writing) > left:
            await self._writing[0][1]
            self._writing.pop(0)


def _left_open() -> TransactionOpen:
    return TransactionOpen(
        "the handler returned while its ctx.transaction() was open, which is rolled back; "
        "leave the block before, and await each task that is in it"
    )


def _warn_of_later_end(job: Job, end: End, outcome: Outcome, raised: BaseException | None) -> None:
    match outcome:
        case Succeeded(result) if result is not None and result != end.transition.result:
            log.warning(
                "job %s %s ended with its transaction; what its handler returned is not kept: set tx.result",
                job.job_type,
                job.id,
            )
        case Failed(error):
            log.warning(
                "job %s %s ended with its transaction and stays succeeded; after that its handler failed: %s",
                job.job_type,
                job.id,
                ErrorRecord.of(error).error_class or error,
                exc_info=raised,
            )
