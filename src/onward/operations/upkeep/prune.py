"""Remove rows whose retention is over: one bounded page of one kind after the other.

Every kind is walked by its primary key or an index, so a page costs the same however large the table is.
A page with nothing to remove is a step, too: the next one begins after it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from onward.core.jobs.ids import first_id_at, normalise_id
from onward.core.jobs.job import instant, micros
from onward.core.page import Cursor, make_cursor, read_cursor
from onward.core.policy.policies import Policies
from onward.core.policy.retention import RUNS_KEPT, EndedJob
from onward.operations.flows import signals
from onward.operations.jobs import key_conflicts
from onward.operations.jobs.key_conflicts import KeyScope
from onward.operations.records import artifacts
from onward.operations.records.prune_audit import Cutoffs
from onward.operations.statement import Operation, Row, Scalar, Statement, as_json, moment

_DAY = timedelta(days=1)
LOWEST_ID = "00000000-0000-0000-0000-000000000000"


@dataclass(frozen=True, slots=True)
class PruneStep:
    """What a step prunes, where it begins, at most how many rows it reads, and whether it is a dry run."""

    kind: str
    now: datetime
    cursor: Cursor | None = None
    limit: int = 1000
    dry_run: bool = False

    def start(self, *lowest: str | int) -> list[Any]:
        """Return the position after which this step begins; `lowest` is that of the first step."""
        if self.cursor is None:
            return list(lowest)
        position = read_cursor(f"prune.{self.kind}", self.cursor, *map(type, lowest))
        return [
            normalise_id(part) if first == LOWEST_ID else part
            for part, first in zip(position, lowest, strict=True)
        ]

    def end(self, position: Row) -> Cursor:
        """Return the cursor of the step that begins after this position."""
        return make_cursor(f"prune.{self.kind}", *position)

    def again(self, removed: int, most: int | None = None) -> Cursor | None:
        """Return the cursor of another step from the beginning, if this one was full."""
        return make_cursor(f"prune.{self.kind}") if removed >= (most or self.limit) else None

    def before(self, kept: timedelta) -> int:
        """Return the instant before which rows that are kept for `kept` may be removed."""
        return micros(self.now - kept)


@dataclass(frozen=True, slots=True)
class Walked:
    """What a step has removed, and where the next one begins; None at the end."""

    counts: Mapping[str, int] = field(default_factory=dict)
    cursor: Cursor | None = None


PruneKind = Callable[[Policies, PruneStep], Operation[Walked]]


def clock() -> Operation[datetime]:
    """Return the time by the database's clock."""
    [(at,)] = yield Statement("read_clock", {})
    return instant(at)


def prune_jobs(policies: Policies, page: PruneStep) -> Operation[Walked]:
    """Remove jobs with their earlier runs, effects and dead letters; to be run in one transaction.

    The retention policy is evaluated here, in one place for both databases. Whether a job
    is protected is decided by the database, once the job is locked.
    """
    retention = policies.settings.retention
    if retention.shortest is None:
        return Walked()
    # The category of an audit line is known only from its job, so the job must outlive its lines.
    least = {
        name: one.audit_retention + _DAY
        for name, one in policies.registry.categories.items()
        if one.audit_retention
    }
    [after] = page.start(LOWEST_ID)
    below = first_id_at(page.now - retention.shortest)
    params: dict[str, Scalar] = {"after": after, "below": below, "limit": page.limit}
    rows = yield Statement("find_old_jobs", params)
    jobs = [
        EndedJob(job_id, state, category, queue, instant(at)) for job_id, state, category, queue, at in rows
    ]
    none = timedelta()
    over = [job.id for job in jobs if retention.is_over(job, page.now, least=least.get(job.category, none))]
    states = (yield from _remove(over, page)) if over else []
    full = len(jobs) == page.limit
    return Walked(Counter(states), page.end((jobs[-1].id,)) if full else None)


def _remove(ids: list[str], page: PruneStep) -> Operation[list[str]]:
    """Remove those of the jobs that nothing protects; return their states."""
    range_: dict[str, Scalar] = {"ids": as_json(ids), "first": ids[0], "last": ids[-1]}
    if page.dry_run:
        rows = yield Statement("find_prunable_jobs", range_)
        return [state for (state,) in rows]
    rows = yield Statement("lock_prunable_jobs", range_)
    states = [state for _, state in rows]
    if rows:
        detail = as_json({**Counter(states), "first": rows[0][0], "last": rows[-1][0]})
        gone = as_json([job_id for job_id, _ in rows])
        range_ = {"ids": gone, "first": rows[0][0], "last": rows[-1][0]}
        yield Statement("prune_jobs", {**range_, "detail": detail})
    return states


def prune_keys(_policies: Policies, page: PruneStep) -> Operation[Walked]:
    """Remove idempotency keys whose lifetime is over; to be run in one transaction."""
    after = KeyScope(*page.start("", "", ""))
    if not page.dry_run:
        removed, last = yield from key_conflicts.prune_after(after, page.limit)
        return Walked({"keys": removed}, None if last is None else page.end(last))
    start: dict[str, Scalar] = {**after._asdict()}
    ends = yield Statement("end_of_keys", {**start, "limit": page.limit})
    if not ends:
        return Walked()
    end = dict(zip(("end_org", "end_project", "end_key"), ends[0], strict=True))
    lapsed = yield Statement("find_lapsed_keys", {**start, **end})
    return Walked({"keys": len(lapsed)}, page.end(ends[0]))


def prune_usage(policies: Policies, page: PruneStep) -> Operation[Walked]:
    """Remove the usage of runs; budgets keep their sums."""
    kept = policies.settings.retention.span_of("usage")
    if kept is None:
        return Walked()
    job_id, lease, unit = page.start(LOWEST_ID, 0, "")
    start: dict[str, Scalar] = {"job_id": job_id, "lease": lease, "unit": unit}
    below = first_id_at(page.now - kept)
    ends = yield Statement("end_of_usage", {**start, "below": below, "limit": page.limit})
    if not ends:
        return Walked()
    end = dict(zip(("end_job", "end_lease", "end_unit"), ends[0], strict=True))
    params = {**start, **end, "before": page.before(kept)}
    dry = page.dry_run
    gone = yield Statement("find_old_usage", params) if dry else Statement("prune_old_usage", params)
    return Walked({"usage": len(gone)}, page.end(ends[0]))


def prune_workers(policies: Policies, page: PruneStep) -> Operation[Walked]:
    """Remove the rows of workers that are long gone and hold no job."""
    kept = policies.settings.retention.span_of("workers")
    if kept is None:
        return Walked()
    [after] = page.start("")
    ends = yield Statement("end_of_workers", {"after": after, "limit": page.limit})
    if not ends:
        return Walked()
    params = {"after": after, "upto": ends[0][0], "before": page.before(kept)}
    dry = page.dry_run
    gone = yield Statement("find_old_workers", params) if dry else Statement("prune_workers", params)
    return Walked({"workers": len(gone)}, page.end(ends[0]))


def prune_schedule_runs(policies: Policies, page: PruneStep) -> Operation[Walked]:
    """Remove old runs from the history of schedules, except the last `RUNS_KEPT` of each schedule."""
    kept = policies.settings.retention.span_of("schedule_runs")
    if kept is None:
        return Walked()
    names = ("fired_at", "schedule", "occurrence", "source")
    start = dict(zip(names, page.start(0, "", 0, ""), strict=True))
    before = page.before(kept)
    ends = yield Statement("end_of_runs", {**start, "before": before, "limit": page.limit})
    if not ends:
        return Walked()
    end = dict(zip(("end_fired", "end_schedule", "end_occurrence", "end_source"), ends[0], strict=True))
    params = {**start, **end, "last": RUNS_KEPT - 1}
    gone = yield Statement("find_old_runs", params) if page.dry_run else Statement("prune_runs", params)
    return Walked({"schedule_runs": len(gone)}, page.end(ends[0]))


def prune_batches(policies: Policies, page: PruneStep) -> Operation[Walked]:
    """Remove batches that have ended, once their jobs are gone."""
    kept = policies.settings.retention.span_of("batches")
    if kept is None:
        return Walked()
    [after] = page.start(LOWEST_ID)
    below = first_id_at(page.now - kept)
    ends = yield Statement("end_of_batches", {"after": after, "below": below, "limit": page.limit})
    if not ends:
        return Walked()
    params = {"after": after, "upto": ends[0][0], "before": page.before(kept)}
    dry = page.dry_run
    gone = yield Statement("find_old_batches", params) if dry else Statement("prune_batches", params)
    return Walked({"batches": len(gone)}, page.end(ends[0]))


def prune_signals(_policies: Policies, page: PruneStep) -> Operation[Walked]:
    """Remove expired signals, and waits that are over."""
    if page.dry_run:
        params: dict[str, Scalar] = {"limit": page.limit}
        lapsed = yield Statement("find_lapsed_signals", params)
        over = yield Statement("find_ended_waits", {"limit": page.limit})
        return Walked({"signals": len(lapsed), "waits": len(over)})
    gone, ended = yield from signals.prune_each(page.limit)
    return Walked({"signals": gone, "waits": ended}, page.again(max(gone, ended)))


def expire_artifacts(_policies: Policies, page: PruneStep) -> Operation[Walked]:
    """Remove expired artifacts; their files are removed later."""
    if page.dry_run:
        rows = yield Statement("find_expired_artifacts", {"limit": page.limit})
        return Walked({"artifacts": len(rows)})
    most = min(page.limit, artifacts.MOST_EXPIRED)
    expired = yield from artifacts.expire(most)
    return Walked({"artifacts": len(expired)}, page.again(len(expired), most))


def count_audit(cutoffs: Cutoffs, known: Sequence[str], limit: int) -> Operation[Walked]:
    """Count the lines of the audit that a prune would remove, up to the limit."""
    found = 0
    for before, categories in cutoffs.items():
        named = {"known": as_json(sorted(known)), "categories": as_json(sorted(categories))}
        rows = yield Statement(
            "find_prunable", {**named, "before": moment(before), "chained": 0, "limit": limit}
        )
        found += len(rows)
    return Walked({"audit": found})


def read_place() -> Operation[Cursor | None]:
    """Return where the last maintenance run stopped; None if it reached the end."""
    rows = yield Statement("read_place", {})
    return str(rows[0][0]) or None if rows else None


def keep_place(place: Cursor | None) -> Operation[None]:
    """Write where the next run continues."""
    yield Statement("keep_place", {"place": place or ""})


KINDS: dict[str, PruneKind] = {
    "jobs": prune_jobs,
    "keys": prune_keys,
    "usage": prune_usage,
    "workers": prune_workers,
    "batches": prune_batches,
    "schedule_runs": prune_schedule_runs,
    "signals": prune_signals,
    "artifacts": expire_artifacts,
}
"""How one page of each kind is removed."""
