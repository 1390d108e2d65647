"""Schedules: what is enqueued by the clock, and what became of it."""

from __future__ import annotations

import os
import time
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any

from onward.clients.binding import AsyncBinding
from onward.core.inputs.checks import whole
from onward.core.inputs.duration import Duration
from onward.core.jobs.ids import IdMaker
from onward.core.jobs.job import Enqueued, NewJob
from onward.core.schedules.schedule import NewSchedule, Overlap, Schedule, ScheduleRun, job_of
from onward.core.schedules.timing import Missed
from onward.operations.schedules import fire, schedules
from onward.operations.schedules.fire import Fired, Known

_MOST_TIMES = 1000

_ids = IdMaker(time.time_ns, os.urandom)


class AsyncSchedules:
    """Those that code defines and those that were added at run time, by name."""

    def __init__(self, binding: AsyncBinding) -> None:
        self._run = binding.run
        self._rules = binding.rules

    async def list(self, *, limit: int = 1000) -> Sequence[Schedule]:
        """Read the schedules by name, each with its last run."""
        return await self._run(lambda: schedules.list_schedules(limit=limit), write=False)

    async def get(self, name: str) -> Schedule:
        """Read a schedule with its last run; raises ScheduleNotFound."""
        _, schedule = await self._run(lambda: schedules.get_schedule(name), write=False)
        return schedule

    async def add(
        self,
        name: str,
        job: NewJob | str,
        *,
        payload: Mapping[str, Any] | None = None,
        cron: str | None = None,
        every: Duration | None = None,
        tz: str | None = None,
        anchor: datetime | None = None,
        jitter: Duration | None = None,
        missed: Missed | None = None,
        overlap: Overlap | None = None,
        warm_up: Duration | None = None,
        reason: str | None = None,
    ) -> Schedule:
        """Store a schedule for a job, or for the name of a job type and its payload.

        One of that name is changed; if only its job changes, its slots go on as they were.
        """
        new = job_of(job, payload, self._rules.checks)
        options = {
            "cron": cron,
            "every": every,
            "tz": tz,
            "anchor": anchor,
            "jitter": jitter,
            "missed": missed,
            "overlap": overlap,
            "warm_up": warm_up,
        }
        return await self.put(schedules.checked_schedule(name, new, options, self._rules), reason=reason)

    async def put(self, schedule: NewSchedule, *, reason: str | None = None) -> Schedule:
        """Store a schedule that was checked."""
        return await self._run(lambda: schedules.put(schedule, reason=reason))

    async def pause(self, name: str, *, reason: str) -> bool:
        """Have no slot fired until somebody resumes it; False if it is paused for that reason already."""
        return await self._run(lambda: schedules.pause(name, reason=reason))

    async def resume(self, name: str, *, reason: str | None = None) -> bool:
        """End a pause; slots that passed by meanwhile are not made up for. False if there was none."""
        return await self._run(lambda: schedules.resume(name, reason=reason))

    async def remove(self, name: str, *, reason: str) -> None:
        """Have a schedule be no more, but for its history; one that code defines comes back with a worker."""
        await self._run(lambda: schedules.remove(name, reason=reason))

    async def run_now(self, name: str, *, reason: str | None = None) -> Enqueued:
        """Enqueue the job of a schedule at once, paused or not; its slots stay as they are."""
        return await self._run(lambda: fire.run_now(name, _ids.make, self._rules, reason=reason), atomic=True)

    async def next_times(self, name: str, count: int = 5) -> Sequence[datetime]:
        """Give the next slots of a schedule, whether it is paused or not."""
        whole("count", count, 1, _MOST_TIMES)
        at, schedule = await self._run(lambda: schedules.get_schedule(name), write=False)
        return schedule.next_times(at, count)

    async def runs(self, name: str | None = None, *, limit: int = 50) -> Sequence[ScheduleRun]:
        """Read the last runs of a schedule, or of all, the newest first; raises ScheduleNotFound."""
        return await self._run(lambda: schedules.list_runs(name, limit=limit), write=False)

    async def declare(self, defined: Collection[NewSchedule]) -> Sequence[Schedule]:
        """Store, as a worker does when it starts, what its code defines."""
        return await self._run(lambda: schedules.declare(list(defined)))

    async def fire(self, known: Known, *, limit: int = 100) -> Fired:
        """Enqueue, as every worker does, what is due of the schedules that it may fire; each slot once."""
        return await self._run(lambda: fire.fire(known, _ids.make, self._rules, limit=limit), atomic=True)
