"""A schedule: the job that it runs, its occurrences, and how late and overlapping runs are handled.

The key of a run's job is made from its occurrence, so that an occurrence has at most one job.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import UTC, datetime, timedelta
from difflib import get_close_matches
from typing import Any, ClassVar, Literal, Self, TypedDict, get_args

import msgspec

from onward.core.flows.flow import Tie
from onward.core.inputs.checks import check_kind, span
from onward.core.inputs.duration import Duration, duration, written
from onward.core.inputs.fields import check_text
from onward.core.jobs.ids import JobId
from onward.core.jobs.job import NewJob
from onward.core.schedules.timing import TOLERANCE, Missed, Timing, check_missed, due, jitter
from onward.core.work.error_record import ErrorRecord
from onward.errors import InvalidSetting

Overlap = Literal["allow", "skip", "wait"]
"""What a run does while the previous run has not ended: run beside it, not at all, or after it."""

_LONGEST_NAME = 200
_LONGEST_ERROR = 1000
_MOST_AT_ONCE = 1000
_LONGEST = timedelta(days=7)
_MICROSECOND = timedelta(microseconds=1)
_DAY = timedelta(days=1)

_KEPT = (
    "job_type", "payload", "category", "queue", "priority", "max_attempts", "timeout", "org_id", "project_id",
    "actor_type", "actor_id", "subject", "tags", "limit_key",
)  # fmt: skip
# A run has a key of its own, which no other job can have, so the key options of its job type do not apply.
# Context that was inherited where the schedule was made does not describe its runs.
_DROPPED = {
    "key", "unique", "on_conflict", "reset_from", "merge", "request_id", "correlation_id", "traceparent",
    "parent_id", "ties", "pending", "typed",
}  # fmt: skip


class ScheduleOptions(TypedDict, total=False):
    """The options of a schedule: its times, by `cron` and `tz` or by `every`, and how it runs."""

    cron: str
    every: Duration
    tz: str
    anchor: datetime
    jitter: Duration
    missed: Missed
    overlap: Overlap
    warm_up: Duration


class Template(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The stored form of the job that every run of a schedule enqueues."""

    job_type: str
    payload: dict[str, Any] = {}
    category: str | None = None
    queue: str | None = None
    priority: int | None = None
    max_attempts: int | None = None
    timeout: timedelta | None = None
    org_id: str | None = None
    project_id: str | None = None
    actor_type: str | None = None
    actor_id: str | None = None
    subject: str | None = None
    tags: list[str] | None = None
    limit_key: str | None = None
    allowed: timedelta | None = None
    """The time from a run's `run_at` to its deadline."""


class NewSchedule(msgspec.Struct, frozen=True, kw_only=True):
    """A schedule to be stored."""

    name: str
    template: Template
    timing: Timing
    anchored: bool = False
    """Whether the caller set the instant from which `every` counts."""
    jitter: timedelta = timedelta()
    missed: Missed = "last"
    overlap: Overlap = "allow"
    warm_up: timedelta = timedelta()
    source: Literal["code", "database"] = "database"

    @classmethod
    def of(
        cls,
        name: str,
        job: NewJob,
        options: Mapping[str, Any],
        *,
        allowed: timedelta | None = None,
        source: Literal["code", "database"] = "database",
    ) -> Self:
        """Check the options and return the schedule; the caller checks whether its job is allowed."""
        check_text("name", name, longest=_LONGEST_NAME)
        check_kind("job", job, NewJob, "give a NewJob(job_type=…, payload=…)")
        anchor = options.get("anchor")
        timing = Timing.of(
            cron=options.get("cron"), every=options.get("every"), tz=options.get("tz"), anchor=anchor
        )
        overlap: Overlap = options.get("overlap") or "allow"
        if overlap not in get_args(Overlap):
            known = ", ".join(map(repr, get_args(Overlap)))
            raise InvalidSetting(f"overlap is {overlap!r:.80}; give one of {known}")
        return cls(
            name=name,
            template=_template(job, allowed),
            timing=timing,
            anchored=anchor is not None,
            jitter=_jitter(options.get("jitter"), timing),
            missed=check_missed("last" if options.get("missed") is None else options["missed"]),
            overlap=overlap,
            warm_up=_span("warm_up", options.get("warm_up")),
            source=source,
        )

    @property
    def job(self) -> str:
        """The template as JSON; equal templates have equal text."""
        return msgspec.json.encode(self.template, order="deterministic").decode()

    def begun(self, at: datetime) -> Timing:
        """Return its timing if it begins at `at`; after a warm-up, intervals count from the warm-up's end."""
        if self.timing.every is None or self.anchored or not self.warm_up:
            return self.timing
        return Timing(every=self.timing.every, anchor=at + self.warm_up)

    def keeps_times_of(self, other: Schedule) -> bool:
        """Whether a stored schedule has the same occurrences."""
        own = self.timing
        if self.anchored or own.every is None or not self.warm_up:
            return own == other.timing
        return own.every == other.timing.every


class SchedulePause(msgspec.Struct, frozen=True):
    """The pause of a schedule: since when, why, and the actor that paused it."""

    at: datetime
    reason: str
    actor_type: str | None
    actor_id: str | None


class ScheduleRun(msgspec.Struct, frozen=True, kw_only=True):
    """One run of a schedule; `outcome` is None until its job has ended.

    Then it is `succeeded`, `skipped` (by the handler; or, without a job, because the previous run had not
    ended), `dead`, `cancelled`, `refused` (no such job may be enqueued) or `duplicate` (its key was taken).
    """

    DERIVED: ClassVar = ("drift",)

    schedule: str
    occurrence: datetime
    source: Literal["occurrence", "run_now"]
    fired_at: datetime
    late: bool
    job_id: JobId | None
    outcome: str | None
    error: str | None
    ended_at: datetime | None

    @property
    def drift(self) -> timedelta:
        """How long after its occurrence the run was fired."""
        return self.fired_at - self.occurrence


class Schedule(msgspec.Struct, frozen=True, kw_only=True):
    """A stored schedule, as it was at the time of the read; `next_at` is None while it is paused."""

    # The job's payload may hold secrets.
    HIDDEN: ClassVar = frozenset({"job"})

    name: str
    source: Literal["code", "database"]
    org_id: str | None
    job_type: str
    job: str
    timing: Timing
    jitter: timedelta
    missed: Missed
    overlap: Overlap
    warm_up: timedelta
    next_at: datetime | None
    last_occurrence: datetime | None
    created_at: datetime
    changed_at: datetime
    pause: SchedulePause | None = None
    last_run: ScheduleRun | None = None
    removed_at: datetime | None = None
    version: int = 0

    @property
    def payload(self) -> dict[str, Any]:
        """The payload of its jobs."""
        return self._template().payload

    def next_times(self, after: datetime, count: int = 5) -> tuple[datetime, ...]:
        """Return the next `count` occurrences after an instant, whether the schedule is paused or not."""
        return self.timing.next_times(after, count)

    def occurrences_due(self, now: datetime) -> tuple[tuple[datetime, ...], datetime]:
        """Return the occurrences to fire now, and the next one after them."""
        if self.next_at is None or self.next_at > now:
            return (), self.next_at or self.timing.next_after(now)
        most = max(_MOST_AT_ONCE, self.missed) if isinstance(self.missed, int) else _MOST_AT_ONCE
        occurrences = due(self.timing, self.missed, after=self.next_at - _MICROSECOND, now=now, most=most)
        rest = self.missed == "all" and len(occurrences) == most
        return occurrences, self.timing.next_after(occurrences[-1] if rest else now)

    def job_at(self, occurrence: datetime, *, on_request: bool = False) -> NewJob:
        """Return the job of a run; a run `on_request` of an operator has no jitter."""
        late = timedelta() if on_request else jitter(self.name, occurrence, self.jitter)
        return job_of_run(self.name, self._template(), occurrence, late, on_request=on_request)

    def _template(self) -> Template:
        return msgspec.json.decode(self.job, type=Template)


def job_of(job: NewJob | str, payload: Mapping[str, Any] | None, known: Collection[str]) -> NewJob:
    """Return the job of a schedule; a text must name a known job type, if the application has any."""
    if isinstance(job, str):
        if known and job not in known:
            raise unknown_type(job, known)
        return NewJob(job_type=job, payload=dict(payload or {}))
    if payload is not None:
        raise InvalidSetting("a NewJob has its payload; leave payload= out")
    return job


def unknown_type(job_type: str, known: Collection[str]) -> InvalidSetting:
    """Return the error for an unknown job type, with the nearest known name."""
    near = get_close_matches(job_type, known, 1)
    instead = f"did you mean {near[0]!r}?" if near else f"it has {', '.join(sorted(known)) or 'none'}."
    return InvalidSetting(
        f"the application has no job type {job_type!r:.80}; {instead} First comes the schedule's name, then "
        "its job type; for one of another application give NewJob(job_type=…, payload=…)"
    )


def job_of_run(
    name: str,
    template: Template,
    occurrence: datetime,
    late: timedelta = timedelta(),
    *,
    on_request: bool = False,
) -> NewJob:
    """Return the job of a run; its key is made from its occurrence, so a repeated enqueue adds no job."""
    key = f"schedule:{name}:{'run_now:' if on_request else ''}{_stamp(occurrence)}"
    fields: dict[str, Any] = {kept: getattr(template, kept) for kept in _KEPT}
    if template.actor_type is None:
        fields |= {"actor_type": "system", "actor_id": f"schedule:{name}"}
    run_at = occurrence + late
    return NewJob(
        **fields,
        run_at=run_at,
        deadline=None if template.allowed is None else run_at + template.allowed,
        key=key,
        on_conflict="return",
        request_id=key,
        ties=Tie.SCHEDULED,
    )


def is_late(occurrence: datetime, fired_at: datetime) -> bool:
    """Whether an occurrence was fired later than a difference of clocks can explain."""
    return fired_at - occurrence > TOLERANCE


def run_error(error: ErrorRecord | None) -> str | None:
    """Return a job's error as one text; None if there is none."""
    return None if error is None else error.summary[:_LONGEST_ERROR] or None


def _template(job: NewJob, allowed: timedelta | None) -> Template:
    plain = NewJob(job_type=job.job_type)
    # Check debounce first: it sets a delay, and the error must name the option that the caller wrote.
    for name in ("debounce", *NewJob.__struct_fields__):
        if name not in _KEPT and name not in _DROPPED and getattr(job, name) != getattr(plain, name):
            raise InvalidSetting(
                f"the job of a schedule has {name}={getattr(job, name)!r:.80}, and its runs get their times "
                f"from their occurrences; leave {name} out"
            )
    return Template(**{name: getattr(job, name) for name in _KEPT}, allowed=allowed)


def _span(name: str, value: Duration | None) -> timedelta:
    if value is None:
        return timedelta()
    length = span(name, duration(name, value))
    if length > _LONGEST:
        raise InvalidSetting(f"{name} is {written(length)}; give at most {_LONGEST // _DAY} days")
    return length


def _jitter(value: Duration | None, timing: Timing) -> timedelta:
    length = _span("jitter", value)
    if length and length > (gap := timing.shortest_gap()):
        raise InvalidSetting(
            f"jitter is {written(length)}, and the occurrences are {written(gap)} apart, so that runs would "
            f"pass each other; give at most {written(gap)}"
        )
    return length


def _stamp(occurrence: datetime) -> str:
    return occurrence.astimezone(UTC).isoformat().replace("+00:00", "Z")
