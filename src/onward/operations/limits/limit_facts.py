"""What a diagnosis reads about limits: bounded, and without a lock."""

from __future__ import annotations

from onward.core.jobs.ids import JobId
from onward.core.jobs.job import instant
from onward.core.limits.admission import PermitsSeen
from onward.core.upkeep.facts import PermitHolder, PermitsAwaited
from onward.operations.limits.limits import standing_of, standing_of_waiting
from onward.operations.statement import Operation, Statement, as_json

_MOST_KEYS = 100
_MOST_HOLDERS = 20
_CAP = 1000


def permits_of(job_id: JobId) -> Operation[tuple[PermitsSeen | None, list[PermitHolder]]]:
    """Return the permit that a blocked job awaits, and its holders; None if it waits for something else."""
    rows = yield Statement("find_permit", {"id": job_id})
    key, pending = rows[0] if rows else (None, 0)
    if key is None or pending:
        return None, []
    permit = yield from standing_of(key)
    rows = yield Statement("list_holders", {"key": key, "limit": _MOST_HOLDERS})
    return permit, [PermitHolder(*row) for row in rows]


def permits_awaited() -> Operation[list[PermitsAwaited]]:
    """Return the keys with jobs that can't be made ready now, how many they are, and since when."""
    seen = {one.key: one for one in (yield from standing_of_waiting(_MOST_KEYS))}
    full = sorted(key for key, one in seen.items() if not one.admission.jobs)
    if not full:
        return []
    rows = yield Statement("list_waiting", {"keys": as_json(full), "cap": _CAP})
    found = [PermitsAwaited(seen[key], jobs, instant(at)) for key, jobs, at in rows if at is not None]
    return sorted(found, key=lambda one: one.oldest)
