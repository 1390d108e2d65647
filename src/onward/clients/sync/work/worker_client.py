# Generated from src/onward/clients/work/worker_client.py by tools/make_sync.py. Edit that file instead.
"""What a worker asks of a client: leases, claims, ends, and what goes by the clock."""

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
from onward.core.work.lifecycle import End, Outcome, Released
from onward.errors import StoreError
from onward.operations.flows import after_end, followers
from onward.operations.schedules.fire import Known
from onward.operations.work import due, leader, polls, rescue, work
from onward.operations.work.due import Chores
from onward.operations.work.polls import Look, Watch
from onward.operations.work.rescue import Promoted, Swept
from onward.operations.work.work import Leases

LEASE = timedelta(seconds=30)
# One after the other: who ends a job does not go on for long, a worker's loop does.
_WAVES, _MOST_WAVES = 20, 1000
# Whoever is in the way is mostly settling the same, and through with it in a moment.
_PAUSES = (0.005, 0.02, 0.08)


class Working(Nouns):
    """Hold a lease, claim jobs, and write what became of them."""

    def look(self) -> Look:
        """Tell which queues have a ready job, and when the next one is due."""
        return self._run(polls.look, write=False)

    def chores(self, known: Known) -> Chores:
        """Tell a worker, which knows some schedules, what there is to do by the clock."""
        return self._run(lambda: due.chores(known), write=False)

    def watch(self, worker_id: str) -> Watch:
        """Tell a worker whether its lease holds, which of its jobs to cancel, and what is paused."""
        return self._run(lambda: polls.watch(worker_id), write=False)

    def register(
        self, worker_id: str, *, lease: timedelta = LEASE, info: Mapping[str, Any] | None = None
    ) -> None:
        """Give a worker its lease; an id serves one life of one process."""
        self._run(lambda: work.register(worker_id, lease=lease, info=info))

    def extend(
        self, worker_id: str, jobs: Collection[Job], *, lease: timedelta = LEASE, idle: bool = False
    ) -> Leases:
        """Renew a worker's lease, and learn which of these jobs it still holds."""
        leases = {job.id: job.lease for job in _claimed(jobs)}
        return self._run(lambda: work.extend(worker_id, leases, lease=lease, idle=idle))

    def retire(self, worker_id: str) -> bool:
        """End a worker's lease at once: what it still holds can be rescued."""
        return self._run(lambda: work.retire(worker_id))

    def held(self, worker_id: str) -> list[Job]:
        """Give the running jobs of a worker."""
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
        """Take up to `limit` ready jobs of a queue under the worker's lease, most urgent first.

        A queue that has a rule is claimed by it. Paused orgs and job types are passed over if named. Whether
        the queue is paused, a worker asks before. With `past`, the last job of the caller's last claim,
        PostgreSQL claims only jobs behind it, and need not read the index entries of those claimed before.
        """
        paused = {"paused_orgs": paused_orgs, "paused_types": paused_types}
        if isinstance(queue, str) and queue in self.rules.queues:
            return (self.queues.claim(queue, limit, worker_id=worker_id, **paused)).jobs
        rows = self._run(lambda: work.claim_rows(queue, limit, worker_id=worker_id, **paused, past=past))
        jobs = work.jobs_of(rows, worker_id)
        # Seldom: what can't be read is failed, so that it ends in time.
        return self._run(lambda: work.read_claimed(rows, worker_id)) if jobs is None else jobs

    def finish(self, ends: Sequence[tuple[Job, Outcome]]) -> Leases:
        """Write what claimed jobs came to; says which leases still held."""
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
        """Write ends that are settled already; says which leases still held.

        `org_id` is whose jobs they are, where the database has policies. With `keep_slots` the caller sees to
        the slots that they free. What is written `apart` may wait for a lock, and nobody else with it.
        """
        atomic = apart or any(end.usage or end.transition.wait for end in ends)
        leases = self._run(lambda: work.finish(ends), atomic=atomic, org_id=org_id)
        return self._settle(leases, slots=() if keep_slots else leases.slots)

    def release(self, jobs: Collection[Job], *, delay: Duration | None = None) -> Leases:
        """Give claimed jobs back unfinished, at once or after a delay; burns no attempt."""
        return self.finish([(job, Released(delay)) for job in _claimed(jobs)])

    def rescue(self, limit: int = 500) -> Leases:
        """Take back the jobs of workers whose lease ran out."""
        leases = self._run(lambda: rescue.rescue(limit, rules=self.rules, dice=random.random))
        return self._settle(leases)

    def rescue_worker(self, worker_id: str, *, how: str | None = None) -> Leases:
        """Take back all that a worker held which is known to be dead, and say `how` it died."""
        leases = self._run(
            lambda: rescue.rescue_worker(worker_id, how=how, rules=self.rules, dice=random.random),
            # Else who sweeps could take its jobs in between, and not know how it died.
            atomic=True,
        )
        return self._settle(leases)

    def sweep(self, worker_id: str, *, ttl: timedelta = LEASE, limit: int = 500) -> Swept:
        """Take back the jobs of workers whose lease ran out, if this worker leads in doing so."""
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
        """Do what follows from ends: of these jobs, or of any that are not settled; says of how many.

        Those that somebody else is settling just now are among them, so at 0 all of it can be seen; with
        `patience` they are left alone so long, and not counted.
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
        """Do what follows from ends that were written just now.

        A worker's loop does it where it can't be done here: in a caller's transaction, whose locks others
        would wait for, for a client of one org, or while the database is away.
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
        """Take the lead in something, or keep it; False while another worker has it."""
        return self._run(lambda: leader.lead(name, worker_id, ttl=ttl))

    def abdicate(self, worker_id: str) -> frozenset[str]:
        """Give up every lead of a worker; tells which it had."""
        return self._run(lambda: leader.abdicate(worker_id))

    def promote(self, limit: int = 500) -> Promoted:
        """Make due jobs ready, if they need no slot or there is one; says when the next one is due."""
        promoted = self._run(lambda: rescue.promote(limit))
        if promoted.slots:
            self._settle_some((), slots=promoted.slots)
        return promoted


def _claimed(jobs: Collection[Job]) -> Collection[Job]:
    check_kind("jobs", jobs, Collection, "give a list of jobs that claim() gave you")
    for job in jobs:
        check_kind("a job", job, Job, "give jobs that claim() gave you")
    return jobs
