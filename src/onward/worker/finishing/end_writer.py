"""Writes ends to the database, each exactly once, also if an answer or a handler's commit is in doubt."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence

from msgspec.structs import replace

from onward.clients.client import AsyncClient
from onward.core.failures.classify import describe
from onward.core.jobs.job import Job
from onward.core.page import Cursor
from onward.core.policy.policies import Policies
from onward.core.records.usage import Usage
from onward.core.work.lifecycle import End, Failed, Outcome
from onward.core.work.progress import Report
from onward.errors import OnwardError, StoreError
from onward.logs import get_logger
from onward.worker.outage import Outage

log = get_logger("onward.worker")


class EndWriter:
    """Writes batches until the database accepts them; `doubts` are ends that handlers may have committed."""

    def __init__(
        self,
        client: AsyncClient,
        outage: Outage,
        *,
        written: Callable[[Sequence[tuple[Job, End]], frozenset[str]], None],
        spent: Callable[[frozenset[str]], None],
        freed: Callable[[frozenset[str]], None],
    ) -> None:
        self._client = client
        self._outage = outage
        self._written, self._spent, self._freed = written, spent, freed
        self.doubts: dict[tuple[str, int], End] = {}

    async def write(self, batch: list[tuple[Job, End]], *, apart: bool = False) -> None:
        """Write ends; with `apart`, a lock that a handler's own transaction holds may delay them."""
        unsure = bool(self.doubts) and bool(self._doubtful(batch))
        while batch:
            try:
                if unsure:
                    batch = await self._unwritten(batch)
                ends = [end for _, end in batch]
                leases = await self._client.worker.write(ends, keep_permits=True, apart=apart)
                if self.doubts and leases.lost:
                    batch = await self._without_committed(batch, leases.lost)
            except StoreError as error:
                unsure = True
                await asyncio.sleep(self._outage.pause("finisher", error))
            except Exception as error:  # noqa: BLE001 - whichever end it is about, the others must be written
                await self._halve(batch, error, apart=apart)
                return
            else:
                self._outage.over("finisher")
                self._report(batch, leases.lost)
                if leases.spent_orgs:
                    self._spent(leases.spent_orgs)
                if leases.permits:
                    self._freed(leases.permits)
                return

    async def _unwritten(self, batch: list[tuple[Job, End]]) -> list[tuple[Job, End]]:
        """Return the ends that are still to write: an earlier write may have succeeded without an answer."""
        found = await self._client.jobs.get_many([job.id for job, _ in batch])
        written: list[tuple[Job, End]] = []
        left: list[tuple[Job, End]] = []
        for job, end in batch:
            # The end that the handler may have committed comes first.
            candidates = [self.doubts.get((job.id, job.lease)), end] if job.id in found else []
            done = [
                one for one in candidates if one is not None and await self._is_written(one, found[job.id])
            ]
            (written if done else left).append((job, done[0] if done else end))
        self._report(written, frozenset())
        return left

    def _doubtful(self, batch: list[tuple[Job, End]]) -> list[tuple[Job, End]]:
        return [pair for pair in batch if (pair[0].id, pair[0].lease) in self.doubts]

    async def _without_committed(
        self, batch: list[tuple[Job, End]], lost: frozenset[str]
    ) -> list[tuple[Job, End]]:
        """Return the batch without ends that were refused because the handler's commit in doubt succeeded."""
        refused = [pair for pair in self._doubtful(batch) if pair[0].id in lost]
        left = await self._unwritten(refused)
        return [pair for pair in batch if pair not in refused] + left

    async def _is_written(self, end: End, now: Job) -> bool:
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

    async def _halve(self, batch: list[tuple[Job, End]], error: Exception, *, apart: bool) -> None:
        """Halve the batch until the end that the database refuses is found; fail that job instead."""
        if len(batch) > 1:
            await self.write(batch[: len(batch) // 2])
            await self.write(batch[len(batch) // 2 :])
            return
        [(job, end)] = batch
        log.error("the end of job %s %s can't be written: %s", job.job_type, job.id, error)
        if end.transition.outcome != "failed":
            failed = Failed(replace(describe(error), rule="unwritable"), retryable=False)
            await self.write([(job, end_of(self._client.policies, job, failed, end.usage))], apart=apart)

    def _report(self, batch: list[tuple[Job, End]], lost: frozenset[str]) -> None:
        for job, _ in batch if lost or self.doubts else ():
            if job.id in lost:
                log.warning(
                    "job %s %s: lease %d was lost, its result is refused", job.job_type, job.id, job.lease
                )
            if self.doubts:
                self.doubts.pop((job.id, job.lease), None)
        self._written(batch, lost)


def end_of(
    policies: Policies, job: Job, outcome: Outcome, usage: tuple[Usage, ...], report: Report | None = None
) -> End:
    """Return the end of a job; an invalid outcome, for example its delay, is a failure of the attempt."""
    dice = random.random()  # noqa: S311
    try:
        end = policies.end_of(job, outcome, dice, usage)
    except OnwardError as error:
        failed = Failed(replace(describe(error), rule="invalid_outcome"))
        end = policies.end_of(job, failed, dice, usage)
    return end if report is None else replace(end, progress=report)
