"""The retention policy: how long ended jobs and other records are kept.

Nothing is removed before its time, and a record whose time is None is kept for ever.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Any

from onward.core.inputs.checks import span
from onward.core.inputs.duration import Duration, duration
from onward.core.inputs.fields import LONGEST, check_text
from onward.errors import InvalidSetting

RUNS_KEPT = 100
"""The number of newest runs of a schedule that are kept, whatever their age."""

Spans = Mapping[str, Duration | None]

_STATES = ("succeeded", "cancelled", "dead")
# A caller that waits for a job reads its ended row, which must still be there.
_LEAST = timedelta(minutes=1)
_DAY = timedelta(days=1)
_NONE: Mapping[str, Spans] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class EndedJob:
    """The fields of an ended job on which its retention depends."""

    id: str
    state: str
    category: str
    queue: str
    ended_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """How long each kind of record is kept after its end or its last sign of life; None means for ever.

    The first three are for jobs. `by_queue` and `by_category` set other spans for some jobs; a queue's span
    precedes a category's. `audit` applies to rows whose category has no `audit_retention`.
    """

    succeeded: Duration | None = 7 * _DAY
    cancelled: Duration | None = 30 * _DAY
    dead: Duration | None = 90 * _DAY
    by_category: Mapping[str, Spans] = field(default_factory=lambda: _NONE)
    by_queue: Mapping[str, Spans] = field(default_factory=lambda: _NONE)
    audit: Duration | None = None
    usage: Duration | None = 400 * _DAY
    batches: Duration | None = 30 * _DAY
    schedule_runs: Duration | None = 30 * _DAY
    workers: Duration | None = 7 * _DAY

    def __post_init__(self) -> None:
        """Read every span; raise InvalidSetting, with its name, for a value that is none."""
        for one in fields(self):
            value = getattr(self, one.name)
            made = (
                _overrides(one.name, value)
                if one.name in {"by_category", "by_queue"}
                else _read(one.name, value)
            )
            object.__setattr__(self, one.name, made)

    def span_of(self, kind: str) -> timedelta | None:
        """Return how long one kind of record is kept, such as `usage`; None means for ever."""
        return _read(kind, getattr(self, kind))

    def kept(self, state: str, category: str, queue: str) -> timedelta | None:
        """Return how long a job that ended in this state is kept; None means for ever."""
        for known, name in ((self.by_queue, queue), (self.by_category, category)):
            if name in known and state in known[name]:
                return _read(state, known[name][state])
        return self.span_of(state)

    def is_over(self, job: EndedJob, now: datetime, *, least: timedelta = timedelta()) -> bool:
        """Whether a job has been kept for its time, and for at least `least`."""
        kept = self.kept(job.state, job.category, job.queue)
        return kept is not None and job.ended_at + max(kept, least) <= now

    @property
    def shortest(self) -> timedelta | None:
        """The shortest time that any job is kept; None if all are kept for ever."""
        return min((kept for kept in self._of_jobs() if kept is not None), default=None)

    def _of_jobs(self) -> Iterator[timedelta | None]:
        yield from map(self.span_of, _STATES)
        for known in (self.by_queue, self.by_category):
            for spans in known.values():
                for state, kept in spans.items():
                    yield _read(state, kept)


def _read(name: str, value: Any) -> timedelta | None:
    return None if value is None else span(name, duration(name, value), least=_LEAST)


def _overrides(where: str, value: Any) -> Mapping[str, Spans]:
    if not isinstance(value, Mapping):
        raise InvalidSetting(
            f"{where} is {value!r:.80}; give a dict such as {{'q:exports': {{'succeeded': '90d'}}}}"
        )
    made = {}
    for name, spans in value.items():
        check_text(where, name, longest=LONGEST["queue"])
        if not isinstance(spans, Mapping):
            raise InvalidSetting(
                f"{where}[{name!r}] is {spans!r:.80}; give a dict such as {{'succeeded': '90d'}}"
            )
        for state in spans:
            if state not in _STATES:
                raise InvalidSetting(f"{where}[{name!r}] has {state!r:.80}; give {', '.join(_STATES)}")
        made[name] = MappingProxyType(
            {state: _read(f"{where}[{name!r}][{state!r}]", kept) for state, kept in spans.items()}
        )
    return MappingProxyType(made)
