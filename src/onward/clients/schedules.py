"""Schedules: what is enqueued by the clock, and the runs that came of it."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from onward.clients.binding import AsyncBinding
from onward.core.inputs.checks import whole_number
from onward.core.inputs.duration import Duration
from onward.core.jobs.ids import IdMaker
from onward.core.jobs.job import Enqueued, NewJob
from onward.core.schedules.schedule import NewSchedule, Overlap, Schedule, ScheduleRun, job_of
from onward.core.schedules.timing import Missed
from onward.operations.schedules import fire, schedules

_MOST_TIMES = 1000

_ids = IdMaker(time.time_ns, os.urandom)


class AsyncSchedules:
    """The schedules by name: those defined in code, and those added at run time."""

    def __init__(self, binding: AsyncBinding) -> None:
        self._run = binding.run
        self._policies = binding.policies

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

        A schedule of the same name is changed. If only its job changes, its occurrences stay as they were.
        """
        new = job_of(job, payload, self._policies.registry.checks)
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
        return await self.put(schedules.checked_schedule(name, new, options, self._policies), reason=reason)

    async def put(self, schedule: NewSchedule, *, reason: str | None = None) -> Schedule:
        """Store a schedule that was already checked."""
        return await self._run(lambda: schedules.put(schedule, reason=reason))

    async def pause(self, name: str, *, reason: str) -> bool:
        """Fire no occurrence until the schedule is resumed; False if already paused for that reason."""
        return await self._run(lambda: schedules.pause(name, reason=reason))

    async def resume(self, name: str, *, reason: str | None = None) -> bool:
        """End a pause; False if there was none.

        Occurrences that passed during the pause are not made up for.
        """
        return await self._run(lambda: schedules.resume(name, reason=reason))

    async def remove(self, name: str, *, reason: str) -> None:
        """Remove a schedule, but not its history.

        A schedule that is defined in code comes back when a worker with that code starts.
        """
        await self._run(lambda: schedules.remove(name, reason=reason))

    async def run_now(self, name: str, *, reason: str | None = None) -> Enqueued:
        """Enqueue the job of a schedule at once, paused or not; its occurrences stay as they are."""
        return await self._run(
            lambda: fire.run_now(name, _ids.make, self._policies, reason=reason), atomic=True
        )

    async def next_times(self, name: str, count: int = 5) -> Sequence[datetime]:
        """Return the next `count` occurrences of a schedule, whether it is paused or not."""
        whole_number("count", count, 1, _MOST_TIMES)
        at, schedule = await self._run(lambda: schedules.get_schedule(name), write=False)
        return schedule.next_times(at, count)

    async def runs(self, name: str | None = None, *, limit: int = 50) -> Sequence[ScheduleRun]:
        """Read the last runs of a schedule, or of all schedules, newest first; raises ScheduleNotFound."""
        return await self._run(lambda: schedules.list_runs(name, limit=limit), write=False)
