"""Fire schedules: each due occurrence becomes one job, whichever worker fires it and whatever fails.

The firing worker locks the schedules that are due, and writes their runs, their jobs and their next
occurrences in the same transaction. If an occurrence comes up twice, the primary key of its run admits one.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

import msgspec
from msgspec.structs import replace

from onward.core.inputs.checks import whole_number
from onward.core.inputs.fields import LONGEST, check_reason, check_text
from onward.core.jobs.ids import JobId
from onward.core.jobs.job import Enqueued, NewJob, instant, micros
from onward.core.policy.contract import complete
from onward.core.policy.policies import DEFAULT_POLICIES, Policies
from onward.core.schedules.firing import Fired, LateOccurrence
from onward.core.schedules.schedule import Schedule, is_late
from onward.errors import OnwardError, StoreError
from onward.operations.jobs.enqueue import enqueue_many
from onward.operations.jobs.new_rows import new_row
from onward.operations.schedules.runs import RUN_ENDS
from onward.operations.schedules.stored_schedule import not_found, read_schedule
from onward.operations.statement import Operation, Rows, Scalar, Statement, as_json

FIRED = ("schedule", "occurrence", "source", "fired_at", "late", "job_id", "outcome", "error")
MOVES = ("name", "next_at", "last_occurrence")

_MOST = 1000
_MOST_TRIES = 100
_MICROSECOND = timedelta(microseconds=1)
_LONGEST_ERROR = 1000


@dataclass(frozen=True, slots=True)
class Known:
    """What a firing worker knows: the job types, the schedules that its code defines, and its uptime."""

    job_types: Collection[str]
    own: Collection[str] = ()
    up: timedelta = timedelta.max

    def params(self) -> dict[str, Scalar]:
        """Return these facts as parameters."""
        # No warm-up is longer than a century.
        up = min(self.up, timedelta(days=36_525)) // _MICROSECOND
        return {"types": as_json(sorted(self.job_types)), "own": as_json(sorted(self.own)), "up": up}


class _DueRun(msgspec.Struct, frozen=True):
    """An occurrence being fired: a job to be enqueued, or the reason why there is none."""

    schedule: Schedule
    occurrence: datetime
    at: datetime
    job_id: JobId
    new: NewJob | None = None
    outcome: str | None = None
    error: str | None = None
    on_request: bool = False

    def row(self) -> tuple[Scalar, ...]:
        late = not self.on_request and is_late(self.occurrence, self.at)
        source = "run_now" if self.on_request else "occurrence"
        return (
            self.schedule.name, micros(self.occurrence), source, micros(self.at), int(late),
            None if self.new is None else self.job_id, self.outcome, self.error,
        )  # fmt: skip


def fire(
    known: Known, make_id: Callable[[], JobId], policies: Policies = DEFAULT_POLICIES, *, limit: int = 100
) -> Operation[Fired]:
    """Enqueue what is due, and move each schedule to its next occurrence; to be run in one transaction."""
    whole_number("limit", limit, 1, _MOST)
    rows = yield Statement("lock_due_schedules", {**known.params(), "limit": limit})
    if not rows:
        return Fired()
    at = instant(rows[0][0])
    schedules = [read_schedule(row[1:]) for row in rows]
    open_runs = yield from _open_runs(schedules)
    runs: list[_DueRun] = []
    moves: list[tuple[Scalar, ...]] = []
    errors: dict[str, str] = {}
    more = len(rows) == limit
    for schedule in schedules:
        try:
            occurrences, next_at = schedule.occurrences_due(at)
        except OnwardError as error:
            # This machine may lack a time zone, for example; another may have it.
            errors[schedule.name] = str(error)
            continue
        ids = {occurrence: make_id() for occurrence in occurrences}
        runs += _planned(schedule, ids, at, open_runs.get(schedule.name), policies)
        moves.append((schedule.name, micros(next_at), micros(occurrences[-1]) if occurrences else None))
        more = more or next_at <= at
    taken = yield from _add_runs(runs)
    jobs = yield from _enqueue(taken, policies)
    if moves:
        yield Statement("move_schedules", {"moves": Rows(MOVES, moves)})
    return replace(_fired(taken, jobs, errors, policies), moved=len(moves), more=more)


def _fired(
    runs: Sequence[_DueRun], jobs: dict[str, list[JobId]], errors: dict[str, str], policies: Policies
) -> Fired:
    refused = {run.schedule.name: run.error for run in runs if run.outcome == "refused" and run.error}
    late = (run for run in runs if is_late(run.occurrence, run.at))
    return Fired(
        jobs,
        frozenset(_queues(runs, policies)),
        tuple(LateOccurrence(run.schedule.name, run.occurrence, run.at - run.occurrence) for run in late),
        errors | refused,
    )


def run_now(
    name: str,
    make_id: Callable[[], JobId],
    policies: Policies = DEFAULT_POLICIES,
    *,
    reason: str | None = None,
) -> Operation[Enqueued]:
    """Enqueue the job of a schedule besides its occurrences; to be run in one transaction.

    Where runs may not overlap, it runs after the one that has not ended.
    """
    check_text("name", name, longest=LONGEST["queue"])
    reason = None if reason is None else check_reason(reason)
    rows = yield Statement("lock_schedule", {"name": name})
    if not rows:
        raise not_found(name)
    at, schedule = instant(rows[0][0]), read_schedule(rows[0][1:])
    before = (yield from _open_runs([schedule])).get(name)
    job_id, new = yield from _run_on_request(schedule, at, before, make_id, policies)
    [enqueued] = yield from enqueue_many([new], [job_id], policies)
    detail = {"name": name, "job_id": job_id, **({} if reason is None else {"reason": reason})}
    yield Statement(
        "note_schedule",
        {
            "event": "schedule.run_now",
            "job_type": schedule.job_type,
            "org_id": schedule.org_id,
            "detail": as_json(detail),
        },
    )
    return enqueued


def _run_on_request(
    schedule: Schedule, at: datetime, before: JobId | None, make_id: Callable[[], JobId], policies: Policies
) -> Operation[tuple[JobId, NewJob]]:
    """Write a run besides the occurrences into the history, at an instant that is still free."""
    for tries in range(_MOST_TRIES):
        occurrence, job_id = at + tries * _MICROSECOND, make_id()
        new = _after(complete(schedule.job_at(occurrence, on_request=True), policies, at), before)
        new_row(new, job_id, policies)
        if (yield from _add_runs([_DueRun(schedule, occurrence, at, job_id, new, on_request=True)])):
            return job_id, new
    raise StoreError(f"the schedule {schedule.name!r} is run by other callers too often; try again")


def _open_runs(schedules: Sequence[Schedule]) -> Operation[dict[str, JobId]]:
    """Find the newest job of each schedule that has not ended, where overlap is restricted."""
    orgs = {schedule.name: schedule.org_id for schedule in schedules if schedule.overlap != "allow"}
    if not orgs:
        return {}
    rows = yield Statement("find_open_runs", {"names": as_json(sorted(orgs))})
    # The schedule may have changed its org since: no job waits for a job of another org.
    return {name: str(job_id) for name, job_id, org_id in rows if org_id == orgs[name]}


def _planned(
    schedule: Schedule,
    occurrences: Mapping[datetime, JobId],
    at: datetime,
    before: JobId | None,
    policies: Policies,
) -> Iterator[_DueRun]:
    """Yield what becomes of each occurrence; `before` is the job of an earlier run that has not ended."""
    for occurrence, job_id in occurrences.items():
        if schedule.overlap == "skip" and before is not None:
            why = f"the run of job {before} had not ended"
            yield _DueRun(schedule, occurrence, at, job_id, outcome="skipped", error=why)
            continue
        try:
            new = complete(schedule.job_at(occurrence), policies, at)
            new = _after(new, before if schedule.overlap == "wait" else None)
            new_row(new, job_id, policies)
        except OnwardError as error:
            text = policies.settings.redact.redact_text(str(error))[:_LONGEST_ERROR]
            yield _DueRun(schedule, occurrence, at, job_id, outcome="refused", error=text)
            continue
        yield _DueRun(schedule, occurrence, at, job_id, new)
        before = job_id


def _after(new: NewJob, before: JobId | None) -> NewJob:
    return new if before is None else replace(new, after=(before,), after_needs="ended")


def _add_runs(runs: Sequence[_DueRun]) -> Operation[list[_DueRun]]:
    """Write the runs; return those whose occurrence had not been fired before."""
    if not runs:
        return []
    rows = yield Statement("add_runs", {"fired": Rows(FIRED, [run.row() for run in runs])})
    free = {(name, occurrence) for name, occurrence in rows}
    taken = [run for run in runs if (run.schedule.name, micros(run.occurrence)) in free]
    # No job may wait for a run that was not written here; that needs a database clock that was set back.
    lost = {run.job_id for run in runs} - {run.job_id for run in taken}
    return [_freed(run) if run.new is not None and lost & set(run.new.after) else run for run in taken]


def _freed(run: _DueRun) -> _DueRun:
    return replace(run, new=None if run.new is None else replace(run.new, after=()))


def _enqueue(runs: Sequence[_DueRun], policies: Policies) -> Operation[dict[str, list[JobId]]]:
    wanted = [(run, run.new) for run in runs if run.new is not None]
    if not wanted:
        return {}
    answers = yield from enqueue_many([new for _, new in wanted], [run.job_id for run, _ in wanted], policies)
    jobs: dict[str, list[JobId]] = {}
    doubles: list[tuple[Scalar, ...]] = []
    for (run, new), answer in zip(wanted, answers, strict=True):
        if answer.created:
            jobs.setdefault(run.schedule.name, []).append(run.job_id)
        else:
            why = f"job {answer.id} holds the key {new.key}"
            doubles.append((run.job_id, "duplicate", why, micros(run.at)))
    if doubles:
        yield Statement("end_runs", {"run_ends": Rows(RUN_ENDS, doubles)})
    return jobs


def _queues(runs: Sequence[_DueRun], policies: Policies) -> set[str]:
    """Return the queues in which a worker now finds jobs."""
    made = [run.new for run in runs if run.new is not None]
    return {new.queue or policies.queue_of(new.job_type, new.category) for new in made}
