"""Batches: how many of their jobs have come to what, when they have ended, and what is due then.

A job is counted when its end is settled, and from then on bears a mark of what it was counted as. If a replay
or a reset takes it back, whoever looks takes the count back by that mark, and so does its next end for good.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Literal

import msgspec

from onward.core.flows.flow import Tie
from onward.core.jobs.ids import JobId
from onward.core.jobs.job import ENDED, JobState, NewJob
from onward.errors import BatchClosed, InvalidJob

Callback = Literal["on_success", "on_failure", "on_complete"]
CALLBACKS: tuple[Callback, ...] = ("on_success", "on_failure", "on_complete")

_MARKS = {
    JobState.SUCCEEDED: Tie.COUNTED_SUCCEEDED,
    JobState.DEAD: Tie.COUNTED_DEAD,
    JobState.CANCELLED: Tie.COUNTED_CANCELLED,
}
COUNTED = Tie.COUNTED_SUCCEEDED | Tie.COUNTED_DEAD | Tie.COUNTED_CANCELLED
"""The marks of what a job is counted as."""


class Tally(msgspec.Struct, frozen=True):
    """How many jobs have come to what; also by how much that changes."""

    succeeded: int = 0
    dead: int = 0
    cancelled: int = 0

    def plus(self, state: JobState, jobs: int = 1) -> Tally:
        """Add jobs that have ended so."""
        return msgspec.structs.replace(self, **{state.value: getattr(self, state.value) + jobs})

    def without(self, ties: int, jobs: int = 1) -> Tally:
        """Take back jobs by the marks that they bear."""
        for state, mark in _MARKS.items():
            if ties & mark:
                return self.plus(state, -jobs)
        return self


class Batch(msgspec.Struct, frozen=True, kw_only=True):
    """Jobs that are counted together, as they are just now.

    `callbacks` has the ids that the jobs have, or will have, which are enqueued at its end.
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
        """Count the jobs that have ended."""
        return self.succeeded + self.dead + self.cancelled

    @property
    def total(self) -> int:
        """Count all of its jobs."""
        return self.waiting + self.running + self.ended

    @property
    def share(self) -> float:
        """Tell which part of its jobs has ended; of none all have."""
        return self.ended / self.total if self.total else 1.0

    @property
    def open(self) -> bool:
        """Tell whether anybody may add jobs; while it has not ended, its own jobs still may."""
        return self.closed_at is None


Part = tuple[JobState, int, int]
"""Jobs that are not counted, or not rightly: their state, their ties, and how many they are."""


def counted(tally: Tally, parts: Iterable[Part]) -> dict[str, int]:
    """Give the counts of a batch, from what is settled and from its jobs that are live or not settled yet."""
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


def due_callbacks(tally: Tally) -> tuple[Callback, ...]:
    """Name the callbacks of a batch that has come to this: failed is one with a dead or a cancelled job."""
    failed = tally.dead or tally.cancelled
    return ("on_failure" if failed else "on_success", "on_complete")


def check_callback(name: str, new: NewJob) -> None:
    """Refuse as a callback what would not follow from the end of the batch alone."""
    if new.after:
        raise InvalidJob(f"{name} waits for the whole batch; leave out after=")
    if new.batch_id is not None:
        raise InvalidJob(
            f"{name} is in batch {new.batch_id}; a callback comes after a batch, leave out batch="
        )


def org_of_batch(jobs: Iterable[NewJob]) -> str | None:
    """Name the org of a batch: that of its jobs and callbacks, which must be one."""
    orgs = {new.org_id for new in jobs if isinstance(new, NewJob)}
    if len(orgs) > 1:
        named = ", ".join(sorted(repr(org) for org in orgs))
        raise InvalidJob(
            f"a batch is of one org, and its jobs and callbacks are of {named}; make one for each"
        )
    return next(iter(orgs), None)


def check_open(
    batch_id: JobId, state: Mapping[str, bool], *, of_org: str | None, new: NewJob, inside: bool
) -> None:
    """Refuse to add a job to a batch; `inside` says that a job of it does so, which has not ended."""
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
