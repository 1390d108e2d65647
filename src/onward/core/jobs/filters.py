"""The filter and the counts of job listings."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from onward.core.inputs.fields import LONGEST, check_text
from onward.core.inputs.wire_form import Instant
from onward.core.jobs.ids import HIGHEST_ID, LOWEST_ID, JobId, first_id_at, id_range, next_id, normalise_id
from onward.core.jobs.job import ENDED, JobState
from onward.core.policy.category import Q_DEADLETTER
from onward.errors import InvalidSetting

_SHOWN: dict[str, JobState] = {
    "retrying": JobState.SCHEDULED,
    "stuck": JobState.RUNNING,
    "skipped": JobState.SUCCEEDED,
}
"""States that are only displayed, each with the stored state of its jobs."""

_STATES = (*JobState, *_SHOWN)

ShownState = Annotated[str, Meta(extra_json_schema={"enum": list(_STATES)})]
"""A state that is stored, or one that is only displayed: retrying, stuck, skipped."""

Order = Literal["newest", "oldest"]
"""Which jobs a listing begins with, by the time at which they were created."""

JobIndex = Literal["any", "subject", "batch_id", "parent_id", "dead"]
"""What finds the jobs of a filter: an index of a column or of dead jobs, or for `any` the ids alone."""

_IDS = ("batch_id", "parent_id")
_INDEXED: tuple[JobIndex, ...] = ("subject", "batch_id", "parent_id")
_MOST_TAGS = 20
_SPAN = frozenset({"id", "created_from", "created_before"})


class JobFilter(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The conditions of a listing; a field that is None sets none.

    `id` is the beginning of a job id. `state` is one state or several, `tags` are tags that a job has all of.
    The queue `q:deadletter` shows the dead jobs that no operator has resolved yet, from every queue.
    """

    id: str | None = None
    state: ShownState | Sequence[ShownState] | None = None
    job_type: str | None = None
    queue: str | None = None
    category: str | None = None
    org_id: str | None = None
    project_id: str | None = None
    key: str | None = None
    subject: str | None = None
    tags: Sequence[str] | None = None
    batch_id: JobId | None = None
    parent_id: JobId | None = None
    worker_id: str | None = None
    actor_type: str | None = None
    actor_id: str | None = None
    request_id: str | None = None
    correlation_id: str | None = None
    created_from: Instant | None = None
    created_before: Instant | None = None

    @property
    def index(self) -> JobIndex:
        """What finds the jobs of this filter."""
        for name in _INDEXED:
            if getattr(self, name) is not None:
                return name
        return "dead" if self._states() == {JobState.DEAD} else "any"

    def params(self, after: JobId | None = None, order: Order = "newest") -> dict[str, str | int | None]:
        """Return the filter as statement parameters, for the jobs that come after `after` in this order."""
        texts = {name: getattr(self, name) for name in _TEXTS}
        for name, value in texts.items():
            if value is not None and not isinstance(value, str):
                raise InvalidSetting(f"{name} is {value!r:.80}; give text, or None not to ask for it")
            if value and name in LONGEST:
                check_text(name, value, longest=LONGEST[name])
        if texts["queue"] == Q_DEADLETTER:
            texts["queue"] = None
        # Under other names: every statement has its client's actor as `actor_type` and `actor_id`.
        texts |= {"by_type": texts.pop("actor_type"), "by_id": texts.pop("actor_id")}
        ids = {name: self._id(name) for name in _IDS}
        wanted = self._states()
        stored = sorted(str(JobState(state)) for state in wanted - _SHOWN.keys())
        return {
            **texts,
            **ids,
            "states": msgspec.json.encode(stored).decode() if wanted else None,
            "retrying": 1 if "retrying" in wanted else None,
            "stuck": 1 if "stuck" in wanted else None,
            "tags": self._tags(),
            **self._span(after, order),
        }

    def _id(self, name: str) -> JobId | None:
        value = getattr(self, name)
        return None if value is None else normalise_id(value, of="batch" if name == "batch_id" else "job")

    def _tags(self) -> str | None:
        if self.tags is None:
            return None
        if isinstance(self.tags, str) or not isinstance(self.tags, Sequence):
            raise InvalidSetting(f"tags is {self.tags!r:.80}; give a list of texts, such as ['vip']")
        if not 0 < len(self.tags) <= _MOST_TAGS:
            raise InvalidSetting(f"tags has {len(self.tags)} texts; give 1 to {_MOST_TAGS}, or None")
        for tag in self.tags:
            check_text("tag", tag, longest=LONGEST["tag"])
        return msgspec.json.encode(list(self.tags)).decode()

    def _states(self) -> frozenset[str]:
        """Return the states that are asked for, stored and shown; none if any will do."""
        states = [self.state] if isinstance(self.state, str) else self.state
        if states is None:
            return frozenset({JobState.DEAD}) if self.queue == Q_DEADLETTER else frozenset()
        if not isinstance(states, Collection) or not states:
            raise InvalidSetting(f"state is {states!r:.80}; give a state, several, or None for any")
        for state in states:
            if state not in _STATES:
                raise InvalidSetting(f"state {state!r:.80} is none of {', '.join(_STATES)}")
        return frozenset(states)

    def of_tables(self) -> dict[str, str | int | None]:
        """Return the parameters that concern listings only: whether live and ended jobs can match."""
        wanted, dead = self._states(), self.queue == Q_DEADLETTER
        stored = {JobState(_SHOWN.get(state, state)) for state in wanted} or set(JobState)
        return {
            "in_live": int(bool(stored - ENDED) and not dead),
            "in_ended": int(bool(stored & ENDED) and (not dead or JobState.DEAD in stored)),
            "skipped": 1 if "skipped" in wanted else None,
            "unresolved": 1 if dead else None,
        }

    def is_filtered(self) -> bool:
        """Whether a job can be within the span of ids and the index, and still fail a condition."""
        index, deadletter = self.index, self.queue == Q_DEADLETTER
        names = {name for name in self.__struct_fields__ if getattr(self, name) is not None}
        names -= _SPAN | {index}
        return deadletter or bool(names - {"state"} if index == "dead" else names)

    def _span(self, after: JobId | None, order: Order) -> dict[str, JobId]:
        lows = [] if self.created_from is None else [first_id_at(self.created_from)]
        highs = [] if self.created_before is None else [first_id_at(self.created_before)]
        if self.id is not None:
            if not isinstance(self.id, str):
                raise InvalidSetting(f"id is {self.id!r:.80}; give text, or None not to ask for it")
            low, high = id_range(self.id)
            lows, highs = [*lows, low], [*highs, high]
        if after is not None:
            if order == "newest":
                highs.append(after)
            else:
                lows.append(next_id(after))
        return {"above": max(lows, default=LOWEST_ID), "below": min(highs, default=HIGHEST_ID)}


_TEXTS = tuple(name for name in JobFilter.__struct_fields__ if name not in _SPAN | {"state", "tags", *_IDS})


class Counts(msgspec.Struct, frozen=True):
    """Counts of live jobs by queue and state, and of the newest ended jobs by state.

    Ready jobs are counted up to `live_cap` in each queue, running and scheduled ones up to `live_cap` in all
    queues together, blocked ones among the newest `live_cap` live jobs, and ended ones up to `cap`.
    `dead_letters` counts the dead jobs that no operator has resolved yet, among the newest `cap` deaths.
    """

    live: dict[str, dict[JobState, int]]
    ended: dict[JobState, int]
    cap: int
    dead_letters: int = 0
    live_cap: int = 0

    def of_queue(self, queue: str) -> dict[JobState, int]:
        """Return the counts of a queue by state; `q:deadletter` counts as a queue, too."""
        if queue == Q_DEADLETTER:
            return {JobState.DEAD: self.dead_letters} if self.dead_letters else {}
        return self.live.get(queue, {})

    def total(self, state: JobState) -> int:
        """Return the number of jobs in a state over all queues."""
        return self.ended.get(state, 0) + sum(states.get(state, 0) for states in self.live.values())
