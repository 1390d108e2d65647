"""What a diagnosis reads about limits: bounded, and without a lock."""

from __future__ import annotations

from onward.core.jobs.ids import JobId
from onward.core.jobs.job import instant
from onward.core.limits.limit import SlotSeen
from onward.core.upkeep.facts import SlotHolder, SlotWaiting
from onward.operations.limits.limits import standing_of, standing_of_waiting
from onward.operations.statement import Operation, Statement, as_json

_MOST_KEYS = 100
_MOST_HOLDERS = 20
_CAP = 1000


def slot_of(job_id: JobId) -> Operation[tuple[SlotSeen | None, list[SlotHolder]]]:
    """Return the permit that a blocked job awaits, and its holders; None if it waits for something else."""
    rows = yield Statement("find_slot", {"id": job_id})
    key, pending = rows[0] if rows else (None, 0)
    if key is None or pending:
        return None, []
    slot = yield from standing_of(key)
    rows = yield Statement("list_holders", {"key": key, "limit": _MOST_HOLDERS})
    return slot, [SlotHolder(*row) for row in rows]


def slots_waited_for() -> Operation[list[SlotWaiting]]:
    """Return the keys with jobs that can't be made ready now, how many they are, and since when."""
    seen = {one.key: one for one in (yield from standing_of_waiting(_MOST_KEYS))}
    full = sorted(key for key, one in seen.items() if not one.turn.jobs)
    if not full:
        return []
    rows = yield Statement("list_waiting", {"keys": as_json(full), "cap": _CAP})
    found = [SlotWaiting(seen[key], jobs, instant(at)) for key, jobs, at in rows if at is not None]
    return sorted(found, key=lambda one: one.oldest)
