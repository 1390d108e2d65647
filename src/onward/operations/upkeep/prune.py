"""Remove rows whose retention is over: one bounded page of one kind after the other.

Every kind is walked by its primary key or an index, so a page costs the same however large the table is.
A page that has nothing to remove still counts: the next one begins behind it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import msgspec

from onward.core.jobs.ids import first_id_at
from onward.core.jobs.job import instant, micros
from onward.core.policy.policies import Policies
from onward.core.policy.retention import RUNS_KEPT, EndedJob
from onward.core.upkeep.maintenance import Place
from onward.operations.flows import signals
from onward.operations.jobs import key_conflicts
from onward.operations.jobs.key_conflicts import KeyScope
from onward.operations.statement import Operation, Row, Scalar, Statement, as_json, moment

_DAY = timedelta(days=1)
_LOWEST = "00000000-0000-0000-0000-000000000000"


@dataclass(frozen=True, slots=True)
class PruneStep:
    """The input of a step of a walk: where it begins, at most how many rows, and whether it is a dry run."""

    now: datetime
    place: str = ""
    limit: int = 1000
    dry_run: bool = False

    def before(self, kept: timedelta) -> int:
        """Return the instant before which rows that are kept for `kept` may be removed."""
        return micros(self.now - kept)


@dataclass(frozen=True, slots=True)
class Walked:
    """What a step has removed, and the key behind which the next one begins; None at the end."""

    counts: Mapping[str, int] = field(default_factory=dict)
    place: str | None = None


Walk = Callable[[Policies, PruneStep], Operation[Walked]]


def clock() -> Operation[datetime]:
    """Return the time by the database's clock."""
    [(at,)] = yield Statement("read_clock", {})
    return instant(at)


def prune_jobs(policies: Policies, page: PruneStep) -> Operation[Walked]:
    """Remove jobs with their earlier runs, effects and dead letters; to be run in one transaction.

    The retention policy is evaluated here, in one place for both databases. The database decides
    what protects a job, when the job is locked.
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
    below = first_id_at(page.now - retention.shortest)
    asked: dict[str, Scalar] = {"after": page.place or _LOWEST, "below": below, "limit": page.limit}
    rows = yield Statement("find_old_jobs", asked)
    jobs = [
        EndedJob(job_id, state, category, queue, instant(at)) for job_id, state, category, queue, at in rows
    ]
    none = timedelta()
    over = [job.id for job in jobs if retention.is_over(job, page.now, least=least.get(job.category, none))]
    states = (yield from _remove(over, page)) if over else []
    return Walked(Counter(states), jobs[-1].id if len(jobs) == page.limit else None)


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
    cursor = _read_key(page.place, ["", "", ""])
    if not page.dry_run:
        removed, place = yield from key_conflicts.prune_after(KeyScope(*cursor), page.limit)
        return Walked({"keys": removed}, _key(place))
    start: dict[str, Scalar] = dict(zip(("org_id", "project_id", "key"), cursor, strict=True))
    ends = yield Statement("end_of_keys", {**start, "limit": page.limit})
    if not ends:
        return Walked()
    end = dict(zip(("end_org", "end_project", "end_key"), ends[0], strict=True))
    lapsed = yield Statement("find_lapsed_keys", {**start, **end})
    return Walked({"keys": len(lapsed)}, _key(ends[0]))


def prune_usage(policies: Policies, page: PruneStep) -> Operation[Walked]:
    """Remove the usage of runs; budgets keep their sums."""
    kept = policies.settings.retention.span_of("usage")
    if kept is None:
        return Walked()
    job_id, lease, unit = _read_key(page.place, [_LOWEST, 0, ""])
    start: dict[str, Scalar] = {"job_id": job_id, "lease": lease, "unit": unit}
    below = first_id_at(page.now - kept)
    ends = yield Statement("end_of_usage", {**start, "below": below, "limit": page.limit})
    if not ends:
        return Walked()
    end = dict(zip(("end_job", "end_lease", "end_unit"), ends[0], strict=True))
    asked = {**start, **end, "before": page.before(kept)}
    if page.dry_run:
        gone = yield Statement("find_old_usage", asked)
    else:
        gone = yield Statement("prune_old_usage", asked)
    return Walked({"usage": len(gone)}, _key(ends[0]))


def prune_workers(policies: Policies, page: PruneStep) -> Operation[Walked]:
    """Remove the rows of workers that are long gone and hold no job."""
    kept = policies.settings.retention.span_of("workers")
    if kept is None:
        return Walked()
    ends = yield Statement("end_of_workers", {"after": page.place, "limit": page.limit})
    if not ends:
        return Walked()
    [(upto,)] = ends
    asked: dict[str, Scalar] = {"after": page.place, "upto": upto, "before": page.before(kept)}
    if page.dry_run:
        gone = yield Statement("find_old_workers", asked)
    else:
        gone = yield Statement("prune_workers", asked)
    return Walked({"workers": len(gone)}, upto)


def prune_schedule_runs(policies: Policies, page: PruneStep) -> Operation[Walked]:
    """Remove old runs from the history of schedules, except the last ones of each."""
    kept = policies.settings.retention.span_of("schedule_runs")
    if kept is None:
        return Walked()
    names = ("fired_at", "schedule", "occurrence", "source")
    start = dict(zip(names, _read_key(page.place, [0, "", 0, ""]), strict=True))
    before = page.before(kept)
    ends = yield Statement("end_of_runs", {**start, "before": before, "limit": page.limit})
    if not ends:
        return Walked()
    end = dict(zip(("end_fired", "end_schedule", "end_occurrence", "end_source"), ends[0], strict=True))
    asked = {**start, **end, "last": RUNS_KEPT - 1}
    if page.dry_run:
        gone = yield Statement("find_old_runs", asked)
    else:
        gone = yield Statement("prune_runs", asked)
    return Walked({"schedule_runs": len(gone)}, _key(ends[0]))


def prune_batches(policies: Policies, page: PruneStep) -> Operation[Walked]:
    """Remove batches that have ended, once their jobs are gone."""
    kept = policies.settings.retention.span_of("batches")
    if kept is None:
        return Walked()
    start: dict[str, Scalar] = {"after": page.place or _LOWEST}
    below = first_id_at(page.now - kept)
    ends = yield Statement("end_of_batches", {**start, "below": below, "limit": page.limit})
    if not ends:
        return Walked()
    asked = {**start, "upto": ends[0][0], "before": page.before(kept)}
    if page.dry_run:
        gone = yield Statement("find_old_batches", asked)
    else:
        gone = yield Statement("prune_batches", asked)
    return Walked({"batches": len(gone)}, ends[0][0])


def prune_signals(_policies: Policies, page: PruneStep) -> Operation[Walked]:
    """Remove expired signals, and waits that are over."""
    if page.dry_run:
        asked: dict[str, Scalar] = {"limit": page.limit}
        lapsed = yield Statement("find_lapsed_signals", asked)
        over = yield Statement("find_ended_waits", {"limit": page.limit})
        return Walked({"signals": len(lapsed), "waits": len(over)})
    gone, ended = yield from signals.prune_each(page.limit)
    return Walked({"signals": gone, "waits": ended}, "more" if max(gone, ended) >= page.limit else None)


def count_expired(page: PruneStep) -> Operation[Walked]:
    """Count the artifacts that a prune would remove, up to the limit."""
    rows = yield Statement("find_expired_artifacts", {"limit": page.limit})
    return Walked({"artifacts": len(rows)})


def count_audit(
    cutoffs: Mapping[datetime, Sequence[str]], known: Sequence[str], limit: int
) -> Operation[Walked]:
    """Count the lines of the audit that a prune would remove, up to the limit."""
    found = 0
    for before, categories in cutoffs.items():
        named = {"known": as_json(sorted(known)), "categories": as_json(sorted(categories))}
        rows = yield Statement(
            "find_prunable", {**named, "before": moment(before), "chained": 0, "limit": limit}
        )
        found += len(rows)
    return Walked({"audit": found})


def read_place() -> Operation[Place | None]:
    """Return where the last maintenance run stopped; None if it reached the end."""
    rows = yield Statement("read_place", {})
    found = [msgspec.json.decode(value) for (value,) in rows]
    return found[0] if found and isinstance(found[0], dict) and found[0] else None


def keep_place(place: Place | None) -> Operation[None]:
    """Write where the next run continues."""
    yield Statement("keep_place", {"place": as_json(place or {})})


def _key(row: Row | None) -> str | None:
    return None if row is None else as_json(list(row))


def _read_key(place: str, start: list[Any]) -> list[Any]:
    if not place:
        return start
    found: list[Any] = msgspec.json.decode(place)
    return found


KINDS: dict[str, Walk] = {
    "jobs": prune_jobs,
    "keys": prune_keys,
    "usage": prune_usage,
    "workers": prune_workers,
    "batches": prune_batches,
    "schedule_runs": prune_schedule_runs,
    "signals": prune_signals,
}
"""How one page of each kind is removed."""
