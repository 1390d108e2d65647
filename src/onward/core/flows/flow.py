"""Jobs that wait for others: what a flow is, and what the end of one job does to those that follow it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from enum import IntFlag
from typing import Any, Literal, Union, get_args

import msgspec

from onward.core.jobs.ids import JobId, normalise_id
from onward.core.jobs.job import JobState, NewJob
from onward.core.secrets.redaction import redact_text
from onward.errors import InvalidJob

MOST_JOBS = 10_000
MOST_LINKS = 100_000
MOST_PARENTS = 10_000
"""The most that one call may store: jobs of a flow, links among them, and jobs that one job waits for."""

Needs = Literal["succeeded", "ended"]
OnFailure = Literal["cancel", "wait"]
Verdict = Literal["met", "broken", "open"]
"""What an end means to a follower: nothing more to wait for, never to run, or to wait on for a replay."""


Part = Union[NewJob, "Flow", Iterable[Union[NewJob, "Flow"]]]
"""What a flow is made of: a job, a flow, or many of them."""


class Tie(IntFlag):
    """What follows from the end of a job; the bits of its column `flow`."""

    FOLLOWED = 1
    """Other jobs wait for it."""
    BATCHED = 2
    """It is counted in a batch."""
    SCHEDULED = 8
    """It is a run of a schedule."""
    COUNTED_SUCCEEDED = 16
    COUNTED_DEAD = 32
    COUNTED_CANCELLED = 64
    """Its batch has counted it so; carried on when it goes back, so that its next end takes that back."""


class Flow(msgspec.Struct, frozen=True):
    """Jobs, and which of them wait for which: `links` are pairs of places, the one before, the one after.

    What comes before has the lower place, so there are no circles.
    """

    jobs: tuple[NewJob, ...]
    links: tuple[tuple[int, int], ...] = ()

    def __post_init__(self) -> None:
        """Refuse what is no flow, too large a one, and one of several orgs."""
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
        """Give this flow with others after it: each of its last jobs goes before each of their first ones."""
        after = group(*following)
        start = len(self.jobs)
        joints = [(last, start + first) for last in self.last for first in after.first]
        moved = [(start + before, start + behind) for before, behind in after.links]
        return Flow(self.jobs + after.jobs, (*self.links, *joints, *moved))

    @property
    def first(self) -> list[int]:
        """Give the places of the jobs that wait for no other."""
        waiting = {behind for _, behind in self.links}
        return [at for at in range(len(self.jobs)) if at not in waiting]

    @property
    def last(self) -> list[int]:
        """Give the places of the jobs that no other waits for."""
        followed = {before for before, _ in self.links}
        return [at for at in range(len(self.jobs)) if at not in followed]

    def placed(self, jobs: Sequence[NewJob], ids: Sequence[JobId]) -> list[NewJob]:
        """Give these jobs of the flow, each with the ids of those that it waits for."""
        before: dict[int, list[JobId]] = {}
        for at, behind in self.links:
            before.setdefault(behind, []).append(ids[at])
        return [
            msgspec.structs.replace(new, after=(*new.after, *before[at])) if at in before else new
            for at, new in enumerate(jobs)
        ]


def group(*parts: Part) -> Flow:
    """Put jobs and flows side by side: none waits for another. Lists of them are taken as well."""
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
        said = f"{redact_text(repr(part)):.80}"
        raise InvalidJob(f"{said} is no job and no flow; give what .build(), .then() or group() gave")
    return part


def check_needs(needs: object, on_failure: object) -> None:
    """Refuse what a job can't ask of those that it waits for."""
    if needs not in get_args(Needs):
        raise InvalidJob(f"after_needs is {needs!r:.80}; give 'succeeded' or 'ended'")
    if on_failure not in get_args(OnFailure):
        raise InvalidJob(f"after_failure is {on_failure!r:.80}; give 'cancel' or 'wait'")


def check_after(new: NewJob) -> tuple[JobId, ...]:
    """Give the ids of the jobs that a job waits for, each once; refuses what can't be meant."""
    after: object = new.after
    if not isinstance(after, tuple | list):
        raise InvalidJob(f"after is {after!r:.80}; give a list of the jobs to wait for")
    check_needs(new.after_needs, new.after_failure)
    if len(new.after) > MOST_PARENTS:
        raise InvalidJob(f"after names {len(new.after)} jobs; the most is {MOST_PARENTS}, or use a batch")
    return tuple(dict.fromkeys(map(normalise_id, new.after)))


def judge(needs: str, on_failure: str, state: JobState | None, *, final: bool = False) -> Verdict:
    """Say what the end of a job means to one that waits for it; None is a job that was removed.

    A death is `final` when somebody has discarded it.
    """
    if state == JobState.SUCCEEDED or needs == "ended":
        return "met"
    # Only the dead are replayed: what was cancelled or removed is not waited for.
    return "open" if on_failure == "wait" and state == JobState.DEAD and not final else "broken"


def cause_of(parents: Iterable[tuple[JobId, JobState | None, str | None]]) -> dict[str, str]:
    """Say why a follower is cancelled: which of its parents did not succeed, by the first of them."""
    parent, state, job_type = min(parents)
    what = "was removed" if state is None else "is dead" if state == JobState.DEAD else "was cancelled"
    named = parent if job_type is None else f"{parent} ({job_type})"
    return {"reason": f"job {named}, which it waited for, {what}", "cause": parent}


def state_when_ready(run_at: datetime, now: datetime, limit_key: str | None) -> JobState:
    """Say where a job goes when it waits for no other any more."""
    if run_at > now:
        return JobState.SCHEDULED
    return JobState.QUEUED if limit_key is None else JobState.BLOCKED
