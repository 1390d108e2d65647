"""Filters, pages and counts of job listings; a page starts after the id that is its cursor."""

from __future__ import annotations

from datetime import datetime

import msgspec

from onward.core.inputs.fields import LONGEST, check_text
from onward.core.jobs.ids import JobId, first_id_at, normalise_id
from onward.core.jobs.job import Job, JobState
from onward.core.policy.category import Q_DEADLETTER
from onward.errors import InvalidSetting

MOST_PER_PAGE = 1000

_SHOWN: dict[str, dict[str, str | int]] = {
    "retrying": {"state": "scheduled", "retrying": 1},
    "stuck": {"state": "running", "stuck": 1},
    "skipped": {"state": "succeeded", "outcome": "skipped"},
}


class JobFilter(msgspec.Struct, frozen=True, kw_only=True):
    """The conditions of a listing; a field that is None sets none. `state` is a stored or a displayed state.

    The queue `q:deadletter` shows the dead jobs that no operator has resolved yet, from every queue.
    """

    state: str | None = None
    job_type: str | None = None
    queue: str | None = None
    org_id: str | None = None
    project_id: str | None = None
    key: str | None = None
    subject: str | None = None
    correlation_id: str | None = None
    created_from: datetime | None = None
    created_before: datetime | None = None

    def params(self, cursor: JobId | None) -> dict[str, str | int | None]:
        """Return the filter as statement parameters; `cursor` is the last id of the previous page."""
        named = msgspec.structs.asdict(self)
        since, before = named.pop("created_from"), named.pop("created_before")
        state = named.pop("state")
        for name, value in named.items():
            if value is not None and not isinstance(value, str):
                raise InvalidSetting(f"{name} is {value!r:.80}; give text, or None not to ask for it")
            if value:
                check_text(name, value, longest=LONGEST[name])
        if state is not None and state not in _SHOWN and state not in set(JobState):
            known = ", ".join([*JobState, *_SHOWN])
            raise InvalidSetting(f"state {state!r} is none of {known}")
        dead = named["queue"] == Q_DEADLETTER
        if dead:
            named["queue"], state = None, state or JobState.DEAD
        bounds = [first_id_at(before)] if before else []
        bounds += [] if cursor is None else [normalise_id(cursor)]
        shown = _SHOWN.get(state, {"state": str(state)}) if state else {}
        return {
            "outcome": None,
            "retrying": None,
            "stuck": None,
            "unresolved": 1 if dead else None,
            "state": None,
            **named,
            **shown,
            "above": first_id_at(since) if since else None,
            "below": min(bounds, default=None),
        }


class Page(msgspec.Struct, frozen=True):
    """Jobs, newest first, and the cursor of the next page, which is None on the last page."""

    jobs: list[Job]
    next_cursor: JobId | None


class Counts(msgspec.Struct, frozen=True):
    """Counts of live jobs by queue and state, and of ended jobs by state; ended jobs are counted up to `cap`.

    `dead_letters` counts the dead jobs that no operator has resolved yet.
    """

    live: dict[str, dict[JobState, int]]
    ended: dict[JobState, int]
    cap: int
    dead_letters: int = 0

    def of_queue(self, queue: str) -> dict[JobState, int]:
        """Return the counts of a queue by state; `q:deadletter` counts as a queue, too."""
        if queue == Q_DEADLETTER:
            return {JobState.DEAD: self.dead_letters} if self.dead_letters else {}
        return self.live.get(queue, {})

    def total(self, state: JobState) -> int:
        """Return the number of jobs in a state over all queues."""
        return self.ended.get(state, 0) + sum(states.get(state, 0) for states in self.live.values())
