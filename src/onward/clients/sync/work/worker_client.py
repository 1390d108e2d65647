# Generated from src/onward/clients/work/worker_client.py by tools/make_sync.py. Edit that file instead.
"""What a worker needs of a client: leases, claims, ends, and the work that is due by the clock."""

from __future__ import annotations

import random
import time
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from functools import partial
from typing import Any

from onward.clients.sync.nouns import Nouns
from onward.core.inputs.checks import check_kind
from onward.core.inputs.duration import Duration
from onward.core.jobs.ids import JobId
from onward.core.jobs.job import Job
from onward.core.work.claim import DueChores, Look, Watch
from onward.core.work.lease import Leases, Promoted, Swept
from onward.core.work.lifecycle import End, Outcome, Released
from onward.errors import StoreError
from onward.operations.flows import after_end, followers
from onward.operations.schedules.fire import Known
from onward.operations.work import due, leader, polls, rescue, work

LEASE = timedelta(seconds=30)
# The rounds of follow-up work in one call: few for a caller that has just ended a job, many for the loop of a
# worker.
_WAVES, _MOST_WAVES = 20, 1000
# A busy job is usually locked by another process that does the same follow-up work and soon ends.
_PAUSES = (0.005, 0.02, 0.08)


class Working(Nouns):
    """Holds a worker's lease, claims jobs, and writes their outcomes."""

    def look(self) -> Look:
        """Return which queues have a ready job, and when the next job is due."""
        return self._run(polls.look, write=False)

    def chores(self, known: Known) -> DueChores:
        """Return what is due by the clock for a worker that knows these schedules."""
        return self._run(lambda: due.chores(known), write=False)

    def watch(self, worker_id: str) -> Watch:
        """Return whether a worker's lease holds, which of its jobs to cancel, and what is paused."""
        return self._run(lambda: polls.watch(worker_id), write=False)

    def register(
        self, worker_id: str, *, lease: timedelta = LEASE, info: Mapping[str, Any] | None = None
    ) -> None:
        """Start the lease of a worker; a worker id serves one lifetime of one process."""
        self._run(lambda: work.register(worker_id, lease=lease, info=info))

    def extend(
        self, worker_id: str, jobs: Collection[Job], *, lease: timedelta = LEASE, idle: bool = False
    ) -> Leases:
        """Renew a worker's lease, and return which of these jobs it still holds."""
        leases = {job.id: job.lease for job in _claimed(jobs)}
        return self._run(lambda: work.extend(worker_id, leases, lease=lease, idle=idle))

    def retire(self, worker_id: str) -> bool:
        """End a worker's lease at once, so that the jobs it still holds can be rescued."""
        return self._run(lambda: work.retire(worker_id))

    def held(self, worker_id: str) -> list[Job]:
        """Return the running jobs of a worker."""
        return self._run(lambda: rescue.find_held(worker_id), write=False)

    def claim(
        self,
        queue: str,
        limit: int = 1,
        *,
        worker_id: str,
        paused_orgs: Collection[str] = (),
        paused_types: Collection[str] = (),
        past: Job | None = None,
    ) -> list[Job]:
        """Claim at most `limit` ready jobs of a queue under the worker's lease, most urgent first.

        A queue that has a policy is claimed by it. Jobs of `paused_orgs` and `paused_types` are passed over.
        Whether the queue itself is paused is for the worker to check before. `past` is the last job of the
        caller's last claim: PostgreSQL then claims only jobs behind it, and does not read the index entries
        of jobs claimed before.
        """
        paused = {"paused_orgs": paused_orgs, "paused_types": paused_types}
        if isinstance(queue, str) and queue in self.rules.queues:
            return (self.queues.claim(queue, limit, worker_id=worker_id, **paused)).jobs
        rows = self._run(lambda: work.claim_rows(queue, limit, worker_id=worker_id, **paused, past=past))
        jobs = work.jobs_of(rows, worker_id)
        # Rare: some claimed rows can't be read. They are failed, so that they still end.
        return self._run(lambda: work.read_claimed(rows, worker_id)) if jobs is None else jobs

    def finish(self, ends: Sequence[tuple[Job, Outcome]]) -> Leases:
        """Settle claimed jobs by their outcomes and write their ends; return which leases still held."""
        advice = "give pairs of a claimed job and its outcome: [(job, Succeeded())]"
        check_kind("ends", ends, list | tuple, advice)
        for end in ends:
            check_kind("an end", end, tuple, advice)
            check_kind("its job", end[0], Job, advice)
        settled = [self.rules.end_of(job, outcome, random.random()) for job, outcome in ends]  # noqa: S311
        parked = any(end.transition.wait for end in settled)
        leases = self._run(lambda: work.finish(settled), atomic=parked)
        return self._settle(leases)

    def write(
        self, ends: Sequence[End], *, org_id: str | None = None, keep_slots: bool = False, apart: bool = False
    ) -> Leases:
        """Write ends that are already settled; return which leases still held.

        `org_id` is the org of the jobs, for databases with row security. With `keep_slots` the caller itself
        passes on the permits that the ends free. Ends written `apart` get their own transaction: if it waits
        for a lock, no other write waits with it.
        """
        atomic = apart or any(end.usage or end.transition.wait for end in ends)
        leases = self._run(lambda: work.finish(ends), atomic=atomic, org_id=org_id)
        return self._settle(leases, slots=() if keep_slots else leases.slots)

    def release(self, jobs: Collection[Job], *, delay: Duration | None = None) -> Leases:
        """Return claimed jobs unfinished to their queues, at once or after a delay; uses no attempt."""
        return self.finish([(job, Released(delay)) for job in _claimed(jobs)])

    def rescue(self, limit: int = 500) -> Leases:
        """Take back the jobs of workers whose lease ran out."""
        leases = self._run(lambda: rescue.rescue(limit, rules=self.rules, dice=random.random))
        return self._settle(leases)

    def rescue_worker(self, worker_id: str, *, how: str | None = None) -> Leases:
        """Take back all jobs of a worker that is known to be dead; `how` describes its death."""
        leases = self._run(
            lambda: rescue.rescue_worker(worker_id, how=how, rules=self.rules, dice=random.random),
            # Otherwise the sweep of another worker could take the jobs in between, without knowing how this
            # one died.
            atomic=True,
        )
        return self._settle(leases)

    def sweep(self, worker_id: str, *, ttl: timedelta = LEASE, limit: int = 500) -> Swept:
        """Take back the jobs of workers whose lease ran out, if this worker leads the sweep."""
        swept = self._run(
            lambda: rescue.sweep(worker_id, ttl=ttl, limit=limit, rules=self.rules, dice=random.random)
        )
        self._settle(swept.leases)
        return swept

    def settle(
        self,
        ids: Collection[JobId] | None = None,
        *,
        slots: Collection[str] = (),
        patience: timedelta = timedelta(0),
    ) -> int:
        """Do the follow-up work of ended jobs: of `ids`, or of any that still need it; return how many.

        With no `patience`, jobs that another process is working on are counted too, so 0 means that all
        follow-up work is done. With `patience`, a job is left to other processes for that time after its end,
        and not counted.
        """
        done, left = 0, frozenset(ids or ())
        found = 0
        if ids is None:
            finding = partial(after_end.find_unsettled, patience=patience)
            left = frozenset(self._run(finding, write=False))
            found = len(left)
            edges = self._run(followers.find_untied, write=False)
            if edges:
                tied = self._run(partial(after_end.tie_left, edges), atomic=True)
                done, left = tied.count, left | tied.more
        pauses, busy = iter(_PAUSES), frozenset[JobId]()
        for _ in range(_WAVES if ids is not None else _MOST_WAVES):
            if not left and not slots:
                pause = next(pauses, None) if busy else None
                if pause is None:
                    break
                time.sleep(pause)
                left, busy = busy, frozenset()
            part = self._run(partial(after_end.settle_ties, left, slots, self.rules), atomic=True)
            done, left, slots, busy = done + part.count, part.more, (), busy | part.busy
        return done if patience else max(done, found)

    def _settle(self, leases: Leases, *, slots: Collection[str] | None = None) -> Leases:
        """Do the follow-up work of ends that were just written.

        It is left to the loop of a worker where it can't be done here: in a caller's transaction, whose locks
        would block others; for a client of one org; and while the database is unreachable.
        """
        freed = leases.slots if slots is None else slots
        if leases.tied or freed:
            self._settle_some(leases.tied, slots=freed)
        return leases

    def _settle_some(self, ids: Collection[JobId], *, slots: Collection[str] = ()) -> None:
        if not self._binding.is_within and self.org_id is None and not self.store.row_security:
            with suppress(StoreError):
                self.settle(ids, slots=slots)

    def lead(self, name: str, worker_id: str, *, ttl: timedelta = LEASE) -> bool:
        """Become or stay the leader for `name`; False while another worker leads."""
        return self._run(lambda: leader.lead(name, worker_id, ttl=ttl))

    def abdicate(self, worker_id: str) -> frozenset[str]:
        """End every leadership of a worker; return the names that it led."""
        return self._run(lambda: leader.abdicate(worker_id))

    def promote(self, limit: int = 500) -> Promoted:
        """Make due jobs ready if they need no permit or one is free; return when the next job is due."""
        promoted = self._run(lambda: rescue.promote(limit))
        if promoted.slots:
            self._settle_some((), slots=promoted.slots)
        return promoted


def _claimed(jobs: Collection[Job]) -> Collection[Job]:
    check_kind("jobs", jobs, Collection, "give a list of jobs that claim() gave you")
    for job in jobs:
        check_kind("a job", job, Job, "give jobs that claim() gave you")
    return jobs
