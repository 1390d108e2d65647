"""Flows: jobs that wait for other jobs, and what the end of a job does to its followers.

A flow has no cycles: a job waits only for jobs in earlier places.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from enum import IntFlag
from typing import Any, Literal, Union, get_args

import msgspec

from onward.core.jobs.ids import JobId, normalise_id
from onward.core.jobs.job import JobState, NewJob
from onward.core.secrets.redaction import redact_text
from onward.core.work.error_record import ErrorRecord
from onward.errors import InvalidJob

MOST_JOBS = 10_000
MOST_LINKS = 100_000
MOST_PARENTS = 10_000
"""The maxima of one call: jobs of a flow, links among them, and jobs that one job waits for."""

Needs = Literal["succeeded", "ended"]
OnFailure = Literal["cancel", "wait"]
Verdict = Literal["met", "broken", "open"]
"""The effect of an end on a follower: it need not wait, it never runs, or it waits for a replay."""


Part = Union[NewJob, "Flow", Iterable[Union[NewJob, "Flow"]]]
"""A part of a flow: a job, a flow, or several of them."""


class Tie(IntFlag):
    """The follow-up work that the end of a job needs; the bits of its column `flow`."""

    FOLLOWED = 1
    """Other jobs wait for it."""
    BATCHED = 2
    """It is counted in a batch."""
    SCHEDULED = 8
    """It is a run of a schedule."""
    COUNTED_SUCCEEDED = 16
    COUNTED_DEAD = 32
    COUNTED_CANCELLED = 64
    """Its batch has counted it in this state. A job that goes back keeps the mark, so that its next end can
    correct the count."""
    DOOMED = 128
    """Its subject was deleted while it ran: the job is deleted at its end."""


class Flow(msgspec.Struct, frozen=True):
    """Jobs, and which of them wait for which: each link is the places of a job and of one that waits for it.

    The job that is waited for has the lower place, so there are no cycles.
    """

    jobs: tuple[NewJob, ...]
    links: tuple[tuple[int, int], ...] = ()

    def __post_init__(self) -> None:
        """Raise InvalidJob for a flow that is empty, too large, badly linked or of several orgs."""
        if not self.jobs:
            raise InvalidJob("a flow needs a job; give what .build() gave, or a NewJob")
        if len(self.jobs) > MOST_JOBS:
            raise InvalidJob(f"a flow of {len(self.jobs)} jobs; the most is {MOST_JOBS}, or use a batch")
        if len(self.links) > MOST_LINKS:
            raise InvalidJob(
                f"a flow with {len(self.links)} links; the most is {MOST_LINKS}: "
                "put a job between two large groups, which waits for the one and goes before the other"
            )
        if any(not 0 <= before < behind < len(self.jobs) for before, behind in self.links):
            raise InvalidJob("a link of a flow goes from a job to a later one; give places in their order")
        if len(orgs := {new.org_id for new in self.jobs} - {None}) > 1:
            names = ", ".join(sorted(map(repr, orgs)))
            raise InvalidJob(f"a flow with jobs of several orgs ({names}); make one for each org")

    def then(self, *following: Part) -> Flow:
        """Return this flow followed by others: each of their first jobs waits for each of its last jobs."""
        after = group(*following)
        start = len(self.jobs)
        joints = [(last, start + first) for last in self.last for first in after.first]
        moved = [(start + before, start + behind) for before, behind in after.links]
        return Flow(self.jobs + after.jobs, (*self.links, *joints, *moved))

    @property
    def first(self) -> list[int]:
        """The places of the jobs that wait for no other."""
        waiting = {behind for _, behind in self.links}
        return [at for at in range(len(self.jobs)) if at not in waiting]

    @property
    def last(self) -> list[int]:
        """The places of the jobs that no other job waits for."""
        followed = {before for before, _ in self.links}
        return [at for at in range(len(self.jobs)) if at not in followed]

    def placed(self, jobs: Sequence[NewJob], ids: Sequence[JobId]) -> list[NewJob]:
        """Return the jobs of the flow, each with the ids of the jobs that it waits for."""
        before: dict[int, list[JobId]] = {}
        for at, behind in self.links:
            before.setdefault(behind, []).append(ids[at])
        return [
            msgspec.structs.replace(new, after=(*new.after, *before[at])) if at in before else new
            for at, new in enumerate(jobs)
        ]


def group(*parts: Part) -> Flow:
    """Return a flow of jobs and flows side by side, none of which waits for another; accepts lists, too."""
    jobs: list[NewJob] = []
    links: list[tuple[int, int]] = []
    for part in _flat(parts):
        if isinstance(part, Flow):
            links += [(len(jobs) + before, len(jobs) + behind) for before, behind in part.links]
            jobs += part.jobs
        else:
            jobs.append(part)
    return Flow(tuple(jobs), tuple(links))


def _flat(parts: Iterable[Any]) -> Iterator[NewJob | Flow]:
    for part in parts:
        if isinstance(part, NewJob | Flow):
            yield part
        elif isinstance(part, Iterable) and not isinstance(part, str | bytes):
            yield from _flat(part)
        else:
            yield _job(part)


def _job(part: object) -> NewJob:
    if not isinstance(part, NewJob):
        shown = f"{redact_text(repr(part)):.80}"
        raise InvalidJob(f"{shown} is no job and no flow; give what .build(), .then() or group() gave")
    return part


def check_needs(needs: object, on_failure: object) -> None:
    """Raise InvalidJob for unknown values of `after_needs` and `after_failure`."""
    if needs not in get_args(Needs):
        raise InvalidJob(f"after_needs is {needs!r:.80}; give 'succeeded' or 'ended'")
    if on_failure not in get_args(OnFailure):
        raise InvalidJob(f"after_failure is {on_failure!r:.80}; give 'cancel' or 'wait'")


def check_after(new: NewJob) -> tuple[JobId, ...]:
    """Return the ids of the jobs that a job waits for, each once; raise InvalidJob for invalid values."""
    after: object = new.after
    if not isinstance(after, tuple | list):
        raise InvalidJob(f"after is {after!r:.80}; give a list of the jobs to wait for")
    check_needs(new.after_needs, new.after_failure)
    if len(new.after) > MOST_PARENTS:
        raise InvalidJob(f"after names {len(new.after)} jobs; the most is {MOST_PARENTS}, or use a batch")
    return tuple(dict.fromkeys(map(normalise_id, new.after)))


def judge(needs: str, on_failure: str, state: JobState | None, *, final: bool = False) -> Verdict:
    """Return what the end of a job means to a follower; a `state` of None is a job that was removed.

    A dead job is `final` once an operator has discarded it.
    """
    if state == JobState.SUCCEEDED or needs == "ended":
        return "met"
    # Only dead jobs are replayed, so a follower never waits for one that was cancelled or removed.
    return "open" if on_failure == "wait" and state == JobState.DEAD and not final else "broken"


def cause_of(parents: Iterable[tuple[JobId, JobState | None, str | None]]) -> ErrorRecord:
    """Return why a follower is cancelled: the parent with the lowest id that did not succeed."""
    parent, state, job_type = min(parents)
    what = "was removed" if state is None else "is dead" if state == JobState.DEAD else "was cancelled"
    named = parent if job_type is None else f"{parent} ({job_type})"
    return ErrorRecord(reason=f"job {named}, which it waited for, {what}", cause=parent)


def state_when_ready(run_at: datetime, now: datetime, limit_key: str | None) -> JobState:
    """Return the state of a job that waits for no other job any more."""
    if run_at > now:
        return JobState.SCHEDULED
    return JobState.QUEUED if limit_key is None else JobState.BLOCKED
