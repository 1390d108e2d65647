"""The filter and the counts of job listings."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from onward.core.inputs.fields import LONGEST, check_text
from onward.core.inputs.wire_form import Instant
from onward.core.jobs.ids import JobId, first_id_at, id_range
from onward.core.jobs.job import JobState
from onward.core.policy.category import Q_DEADLETTER
from onward.errors import InvalidSetting

_SHOWN: dict[str, dict[str, str | int]] = {
    "retrying": {"state": "scheduled", "retrying": 1},
    "stuck": {"state": "running", "stuck": 1},
    "skipped": {"state": "succeeded", "outcome": "skipped"},
}


_STATES = (*JobState, *_SHOWN)

ShownState = Annotated[str, Meta(extra_json_schema={"enum": list(_STATES)})]
"""A state that is stored, or one that is only displayed: retrying, stuck, skipped."""


class JobFilter(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The conditions of a listing; a field that is None sets none.

    `id` is the beginning of a job id. The queue `q:deadletter` shows the dead jobs that no operator has
    resolved yet, from every queue.
    """

    id: str | None = None
    state: ShownState | None = None
    job_type: str | None = None
    queue: str | None = None
    org_id: str | None = None
    project_id: str | None = None
    key: str | None = None
    subject: str | None = None
    correlation_id: str | None = None
    created_from: Instant | None = None
    created_before: Instant | None = None

    def params(self, below: JobId | None = None) -> dict[str, str | int | None]:
        """Return the filter as statement parameters, for the jobs whose ids are lower than `below`."""
        texts = msgspec.structs.asdict(self)
        since, before = texts.pop("created_from"), texts.pop("created_before")
        for name, value in texts.items():
            if value is not None and not isinstance(value, str):
                raise InvalidSetting(f"{name} is {value!r:.80}; give text, or None not to ask for it")
            if value and name in LONGEST:
                check_text(name, value, longest=LONGEST[name])
        state, prefix = texts.pop("state"), texts.pop("id")
        if state is not None and state not in _STATES:
            raise InvalidSetting(f"state {state!r:.80} is none of {', '.join(_STATES)}")
        lows = [] if since is None else [first_id_at(since)]
        highs = [first_id_at(before)] if before else []
        if prefix is not None:
            low, high = id_range(prefix)
            lows, highs = [*lows, low], [*highs, high]
        dead = texts["queue"] == Q_DEADLETTER
        if dead:
            texts["queue"], state = None, state or JobState.DEAD
        shown = _SHOWN.get(state, {"state": str(state)}) if state else {}
        return {
            "outcome": None,
            "retrying": None,
            "stuck": None,
            "unresolved": 1 if dead else None,
            "state": None,
            **texts,
            **shown,
            "above": max(lows, default=None),
            "below": min([*highs, *([] if below is None else [below])], default=None),
        }


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
