"""The schedules of the built-in jobs: stored once, when a worker first connects to a database."""

from __future__ import annotations

from datetime import timedelta

from onward.core.jobs.actor import CODE
from onward.core.jobs.job import NewJob
from onward.core.policy.built_in import Q_ONWARD, SCHEDULES
from onward.core.schedules.schedule import NewSchedule
from onward.operations.schedules import schedules
from onward.operations.statement import Operation, Statement, acting, as_json
from onward.operations.upkeep.prune import clock

_MICROSECOND = timedelta(microseconds=1)
_PRIORITY = 10


def declare() -> Operation[None]:
    """Store missing ones; their occurrences count from this moment, so those of two databases differ."""
    rows = yield Statement("find_built_in_schedules", {"names": as_json(sorted(SCHEDULES))})
    known = {str(name): every for name, every in rows}
    missing = {name: every for name, every in SCHEDULES.items() if known.get(name) != every // _MICROSECOND}
    if not missing:
        return
    at = yield from clock()
    for name, every in missing.items():
        job = NewJob(
            job_type=name, category="maintenance", queue=Q_ONWARD, priority=_PRIORITY,
            actor_type="system", actor_id=name,
        )  # fmt: skip
        # An unfinished run continues by itself, so no second one starts; missed ones are made up for once.
        options = {"every": every, "anchor": at, "overlap": "skip", "missed": "last"}
        yield from acting(CODE, schedules.put(NewSchedule.of(name, job, options, source="code")))
