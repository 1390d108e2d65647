"""Writes the outcomes of attempts, many at once.

An end that can't be written now is kept until it can.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress

from msgspec.structs import replace

from onward.clients.client import AsyncClient
from onward.core.failures.classify import describe
from onward.core.jobs.job import Job
from onward.core.page import Cursor
from onward.core.records.usage import Usage
from onward.core.work.error_record import ErrorRecord
from onward.core.work.lifecycle import End, Failed, Outcome, Released, Succeeded
from onward.core.work.progress import Report
from onward.errors import OnwardError, StoreError, TransactionOpen
from onward.logs import get_logger
from onward.worker.attempts.attempt import Completion, Ran
from onward.worker.claiming.throughput import AT_ONCE
from onward.worker.outage import Outage

log = get_logger("onward.worker")

_PATIENCE = 0.005
_CROWD = 20
_MANY_UNWRITTEN = 5000


class Finisher:
    """Collects ends and writes them by hundreds; a single end is written at once when nothing else runs."""

    def __init__(
        self,
        client: AsyncClient,
        outage: Outage,
        *,
        busy: Callable[[], bool],
        written: Callable[[Sequence[tuple[Job, End]], frozenset[str]], None],
        spent: Callable[[frozenset[str]], None],
        freed: Callable[[frozenset[str]], None],
        completed: Callable[[], None],
    ) -> None:
        self._client = client
        self._at_once = AT_ONCE[client.store.database]
        self._outage = outage
        self._busy = busy
        self._written = written
        self._spent, self._freed, self._completed = spent, freed, completed
        self._ends: list[tuple[Job, End]] = []
        self._writing: list[tuple[list[tuple[Job, End]], asyncio.Task[None]]] = []
        self._doubts: dict[tuple[str, int], End] = {}
        self._apart: dict[asyncio.Task[None], tuple[Job, End]] = {}
        self._over = False
        self._crowded_until = 0.0
        self._any = asyncio.Event()
        self._many = asyncio.Event()
        self._empty = asyncio.Event()
        self._empty.set()

    def release(self, jobs: Iterable[Job]) -> None:
        """Take jobs that did not run: they go back to their queues."""
        self.add_all((job, Released(), (), None, None) for job in jobs)

    def add_all(self, ran: Iterable[Ran]) -> None:
        """Take the outcomes of attempts, what they used, and how far they were."""
        for job, outcome, usage, completion, report in ran:
            if completion is None:
                self._ends.append((job, self._settled(job, outcome, usage, report)))
            else:
                self._complete(completion, (job, outcome, usage, None, report))
                self._completed()
        if self._ends and not self._any.is_set():
            self._any.set()
            self._empty.clear()
        if len(self._ends) >= self._at_once:
            self._many.set()

    def _complete(self, completion: Completion, ran: Ran) -> None:
        """Take the end that a handler committed itself; if the commit is in doubt, ask the database.

        If the handler did not commit, the outcome in `ran` is that of the attempt.
        """
        job, outcome, usage, _, report = ran
        if completion.end is None or not completion.sure:
            if completion.end is not None:
                self._doubts[job.id, job.lease] = completion.end
            elif isinstance(outcome, Succeeded):
                # A transaction that is open now will never be committed.
                outcome = Failed(replace(describe(_left_open()), rule="transaction_open"))
            self._write_apart((job, outcome, usage, None, report))
            return
        _warn_of_what_came_after(job, completion.end, outcome)
        self._written([(job, completion.end)], frozenset())
        if completion.spent:
            self._spent(completion.spent)

    def _write_apart(self, ran: Ran) -> None:
        """Write an end that may wait for the handler's own transaction; alone, so that no other end waits."""
        if self._over:
            self.add_all([ran])
            return
        job, outcome, usage, _, report = ran
        pair = job, self._settled(job, outcome, usage, report)
        writing = asyncio.create_task(self._write([pair], apart=True))
        self._apart[writing] = pair
        writing.add_done_callback(self._apart.pop)

    def lags(self) -> bool:
        """Whether more than `_MANY_UNWRITTEN` ends wait, so that claiming should wait for the writes."""
        return len(self._ends) > _MANY_UNWRITTEN

    def ids(self) -> set[str]:
        """Return the ids of the jobs whose ends are not written yet."""
        batches = [self._ends, *(batch for batch, _ in self._writing)]
        return {job.id for batch in (*batches, self._apart.values()) for job, _ in batch}

    async def emptied(self) -> None:
        """Wait until all ends are written."""
        await self._empty.wait()
        while self._apart:
            await asyncio.wait(self._apart)
            await self._empty.wait()

    async def run(self) -> None:
        """Write until cancelled."""
        try:
            while True:
                await self._rest()
                batch = await self._next()
                self._writing.append((batch, asyncio.create_task(self._write(batch))))
                # Only a full batch is written beside another, else there would be many small writes.
                await self._see_off(1 if len(batch) == self._at_once else 0)
        finally:
            self._over = True
            for writing in (*self._apart, *(task for _, task in self._writing)):
                writing.cancel()

    async def _rest(self) -> None:
        """Wait for something to write."""
        if not self._ends:
            await self._see_off(0)
        if not self._ends:
            self._any.clear()
            self._empty.set()
        await self._any.wait()

    async def _see_off(self, left: int) -> None:
        while len(self._writing) > left:
            await self._writing[0][1]
            self._writing.pop(0)

    async def _next(self) -> list[tuple[Job, End]]:
        """Return the next batch; a small one first waits a moment if more ends are likely to come.

        More are likely while jobs run here, or if many ends were written a moment ago. Else a small batch
        does not wait, as in a chain of jobs.
        """
        patience = _PATIENCE if self._busy() else self._crowded_until - time.monotonic()
        if len(self._ends) < self._at_once and patience > 0:
            with suppress(TimeoutError):
                async with asyncio.timeout(patience):
                    await self._many.wait()
        if len(self._ends) >= _CROWD:
            self._crowded_until = time.monotonic() + _PATIENCE
        batch, self._ends = self._ends[: self._at_once], self._ends[self._at_once :]
        if len(self._ends) < self._at_once:
            self._many.clear()
        return batch

    async def _write(self, batch: list[tuple[Job, End]], *, apart: bool = False) -> None:
        unsure = bool(self._doubts) and bool(self._doubtful(batch))
        while batch:
            try:
                if unsure:
                    batch = await self._unwritten(batch)
                ends = [end for _, end in batch]
                leases = await self._client.worker.write(ends, keep_slots=True, apart=apart)
                if self._doubts and leases.lost:
                    batch = await self._without_committed(batch, leases.lost)
            except StoreError as error:
                unsure = True
                await asyncio.sleep(self._outage.pause("finisher", error))
            except Exception as error:  # noqa: BLE001 - whichever end it is about, the others must be written
                await self._part(batch, error, apart=apart)
                return
            else:
                self._outage.over("finisher")
                self._tell(batch, leases.lost)
                if leases.spent_orgs:
                    self._spent(leases.spent_orgs)
                if leases.slots:
                    self._freed(leases.slots)
                return

    async def _unwritten(self, batch: list[tuple[Job, End]]) -> list[tuple[Job, End]]:
        """Return the ends that are still to write: an earlier write may have succeeded without an answer."""
        found = await self._client.jobs.get_many([job.id for job, _ in batch])
        done: list[tuple[Job, End]] = []
        left: list[tuple[Job, End]] = []
        for job, end in batch:
            # The end that the handler may have committed comes first.
            asked = [self._doubts.get((job.id, job.lease)), end] if job.id in found else []
            did = [one for one in asked if one is not None and await self._did(one, found[job.id])]
            (done if did else left).append((job, did[0] if did else end))
        self._tell(done, frozenset())
        return left

    def _doubtful(self, batch: list[tuple[Job, End]]) -> list[tuple[Job, End]]:
        return [pair for pair in batch if (pair[0].id, pair[0].lease) in self._doubts]

    async def _without_committed(
        self, batch: list[tuple[Job, End]], lost: frozenset[str]
    ) -> list[tuple[Job, End]]:
        """Return the batch without ends that were refused because the handler's commit in doubt succeeded."""
        refused = [pair for pair in self._doubtful(batch) if pair[0].id in lost]
        left = await self._unwritten(refused)
        return [pair for pair in batch if pair not in refused] + left

    async def _did(self, end: End, now: Job) -> bool:
        # Only the holder of a lease can end its job, and an ended job keeps the lease under which it ended.
        if now.lease == end.lease:
            instead = now.outcome == "cancelled" and not end.transition.ends
            return now.ended_at is not None and (instead or now.outcome == end.transition.outcome)
        # The job was released, reset, replayed or rescued: the record of that attempt shows its outcome.
        cursor: Cursor | None = None
        while True:
            runs = await self._client.jobs.attempts(end.job_id, cursor=cursor)
            if any(run.lease == end.lease and run.outcome == end.transition.outcome for run in runs):
                return True
            if (cursor := runs.next_cursor) is None:
                return False

    async def _part(self, batch: list[tuple[Job, End]], error: Exception, *, apart: bool) -> None:
        """Halve the batch until the end that the database refuses is found; fail that job instead."""
        if len(batch) > 1:
            await self._write(batch[: len(batch) // 2])
            await self._write(batch[len(batch) // 2 :])
            return
        [(job, end)] = batch
        log.error("the end of job %s %s can't be written: %s", job.job_type, job.id, error)
        if end.transition.outcome != "failed":
            failed = Failed(replace(describe(error), rule="unwritable"), retryable=False)
            await self._write([(job, self._settled(job, failed, end.usage))], apart=apart)

    def _tell(self, batch: list[tuple[Job, End]], lost: frozenset[str]) -> None:
        for job, _ in batch if lost or self._doubts else ():
            if job.id in lost:
                log.warning(
                    "job %s %s: lease %d was lost, its result is refused", job.job_type, job.id, job.lease
                )
            if self._doubts:
                self._doubts.pop((job.id, job.lease), None)
        self._written(batch, lost)

    def _settled(
        self, job: Job, outcome: Outcome, usage: tuple[Usage, ...], report: Report | None = None
    ) -> End:
        policies, dice = self._client.policies, random.random()  # noqa: S311
        try:
            end = policies.end_of(job, outcome, dice, usage)
        except OnwardError as error:
            # The handler's outcome is invalid, for example its delay: the attempt has failed.
            failed = Failed(replace(describe(error), rule="invalid_outcome"))
            end = policies.end_of(job, failed, dice, usage)
        return end if report is None else replace(end, progress=report)


def _left_open() -> TransactionOpen:
    return TransactionOpen(
        "the handler returned while its ctx.transaction() was open, which is rolled back; "
        "leave the block before, and await each task that is in it"
    )


def _warn_of_what_came_after(job: Job, end: End, outcome: Outcome) -> None:
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
            )
