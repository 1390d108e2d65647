"""Batches: the counts of their jobs by outcome, and the callbacks that are due at their end.

The follow-up work of a job's end counts the job and marks it with what it was counted as. If a replay or a
reset makes the job live again, every reader subtracts it by that mark, and its next end corrects the count.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Literal

import msgspec

from onward.core.flows.flow import Tie
from onward.core.jobs.ids import JobId
from onward.core.jobs.job import ENDED, Enqueued, JobState, NewJob
from onward.errors import BatchClosed, InvalidJob

Callback = Literal["on_success", "on_failure", "on_complete"]
CALLBACKS: tuple[Callback, ...] = ("on_success", "on_failure", "on_complete")

_MARKS = {
    JobState.SUCCEEDED: Tie.COUNTED_SUCCEEDED,
    JobState.DEAD: Tie.COUNTED_DEAD,
    JobState.CANCELLED: Tie.COUNTED_CANCELLED,
}


class BatchTally(msgspec.Struct, frozen=True):
    """How many jobs ended in each state; also used for the change of these counts."""

    succeeded: int = 0
    dead: int = 0
    cancelled: int = 0

    def plus(self, state: JobState, jobs: int = 1) -> BatchTally:
        """Return the tally with `jobs` more that ended in `state`."""
        return msgspec.structs.replace(self, **{state.value: getattr(self, state.value) + jobs})

    def without(self, ties: int, jobs: int = 1) -> BatchTally:
        """Return the tally without `jobs` jobs that were counted as their marks in `ties` show."""
        for state, mark in _MARKS.items():
            if ties & mark:
                return self.plus(state, -jobs)
        return self


class Batch(msgspec.Struct, frozen=True, kw_only=True):
    """Jobs that are counted together, with their counts at the time of the read.

    `callbacks` has the ids of the jobs that are enqueued at its end; the ids are known before that.
    """

    id: JobId
    org_id: str | None
    name: str | None
    created_at: datetime
    closed_at: datetime | None
    cancelled_at: datetime | None
    ended_at: datetime | None
    actor_type: str | None
    actor_id: str | None
    correlation_id: str | None
    parent_id: JobId | None
    callbacks: dict[str, JobId]
    waiting: int = 0
    running: int = 0
    succeeded: int = 0
    dead: int = 0
    cancelled: int = 0

    @property
    def ended(self) -> int:
        """The number of its jobs that have ended."""
        return self.succeeded + self.dead + self.cancelled

    @property
    def total(self) -> int:
        """The number of all its jobs."""
        return self.waiting + self.running + self.ended

    @property
    def share(self) -> float:
        """The share of its jobs that has ended, from 0 to 1; an empty batch has 1."""
        return self.ended / self.total if self.total else 1.0

    @property
    def open(self) -> bool:
        """Whether any caller may add jobs; to a closed batch, its own jobs may add until it ends."""
        return self.closed_at is None


Part = tuple[JobState, int, int]
"""Jobs that are not counted, or not as their current state: the state, the ties, and the number of jobs."""


class NewBatch(msgspec.Struct, frozen=True, kw_only=True):
    """A batch to be made, its callbacks by name, and the ids that the callbacks will have.

    `origin` is a job that is never stored; the batch takes its org, actor, correlation and parent.
    """

    id: JobId
    origin: NewJob
    name: str | None = None
    callbacks: Mapping[str, NewJob] = {}
    callback_ids: Mapping[str, JobId] = {}


class EnqueuedBatch(msgspec.Struct, frozen=True):
    """A batch that was made, and the answers of its jobs' enqueues; a job with a held key is not in it."""

    id: JobId
    jobs: list[Enqueued]


def counted(tally: BatchTally, parts: Iterable[Part]) -> dict[str, int]:
    """Return the counts of a batch, from its tally and from the jobs that the tally does not show yet."""
    waiting = running = 0
    for state, ties, jobs in parts:
        tally = tally.without(ties, jobs)
        if state in ENDED:
            tally = tally.plus(state, jobs)
        elif state == JobState.RUNNING:
            running += jobs
        else:
            waiting += jobs
    return {"waiting": waiting, "running": running, **msgspec.structs.asdict(tally)}


def due_callbacks(tally: BatchTally) -> tuple[Callback, ...]:
    """Return the callbacks of an ended batch; it failed if one of its jobs is dead or cancelled."""
    failed = tally.dead or tally.cancelled
    return ("on_failure" if failed else "on_success", "on_complete")


def check_callback(name: str, new: NewJob) -> None:
    """Raise InvalidJob for a callback that depends on more than the end of the batch."""
    if new.after:
        raise InvalidJob(f"{name} waits for the whole batch; leave out after=")
    if new.batch_id is not None:
        raise InvalidJob(
            f"{name} is in batch {new.batch_id}; a callback comes after a batch, leave out batch="
        )


def org_of_batch(jobs: Iterable[NewJob]) -> str | None:
    """Return the org of a batch; raise InvalidJob if its jobs and callbacks are of several orgs."""
    orgs = {new.org_id for new in jobs if isinstance(new, NewJob)}
    if len(orgs) > 1:
        named = ", ".join(sorted(repr(org) for org in orgs))
        raise InvalidJob(
            f"a batch is of one org, and its jobs and callbacks are of {named}; make one for each"
        )
    return next(iter(orgs), None)


def project_of_batch(jobs: Iterable[NewJob]) -> str | None:
    """Return the project of a batch; None if its jobs and callbacks are of several projects."""
    projects = {new.project_id for new in jobs if isinstance(new, NewJob)}
    return projects.pop() if len(projects) == 1 else None


def check_open(
    batch_id: JobId, state: Mapping[str, bool], *, of_org: str | None, new: NewJob, inside: bool
) -> None:
    """Raise if a job can't be added to a batch; `inside`: a job of the batch that has not ended adds it."""
    if state["ended"]:
        raise BatchClosed(f"batch {batch_id} has ended; make a new one for what comes now")
    if state["cancelled"]:
        raise BatchClosed(f"batch {batch_id} was cancelled; nothing is added to it any more")
    if state["closed"] and not inside:
        raise BatchClosed(
            f"batch {batch_id} is closed: only its own jobs may add to it while they run, by "
            "ctx.batch.add(); to add from elsewhere, fill it in `with app.batch():`"
        )
    if new.org_id != of_org:
        raise InvalidJob(f"batch {batch_id} is of org {of_org!r}, and this job of {new.org_id!r}")
