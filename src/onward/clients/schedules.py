"""Schedules: what is enqueued by the clock, and the runs that came of it."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from onward.clients.binding import AsyncBinding
from onward.core.bulk import Changed
from onward.core.inputs.checks import whole_number
from onward.core.inputs.duration import Duration
from onward.core.inputs.wire_form import Instant
from onward.core.jobs.ids import IdMaker
from onward.core.jobs.job import Enqueued, NewJob
from onward.core.page import MOST_PER_PAGE, Cursor, Page, PageSize
from onward.core.schedules.schedule import NewSchedule, Overlap, Schedule, ScheduleRun, job_of
from onward.core.schedules.timing import Missed
from onward.operations.schedules import fire, runs, schedules

_ids = IdMaker(time.time_ns, os.urandom)


class AsyncSchedules:
    """The schedules by name: those defined in code, and those added at run time."""

    def __init__(self, binding: AsyncBinding) -> None:
        self._run = binding.run
        self._policies = binding.policies

    async def list(self, *, limit: PageSize = MOST_PER_PAGE, cursor: Cursor | None = None) -> Page[Schedule]:
        """Read a page of the schedules by name, each with its last run.

        Raises InvalidSetting for an invalid limit or cursor.
        """
        return await self._run(lambda: schedules.list_schedules(limit, cursor), write=False)

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
        anchor: Instant | None = None,
        jitter: Duration | None = None,
        missed: Missed | None = None,
        overlap: Overlap | None = None,
        warm_up: Duration | None = None,
        reason: str | None = None,
    ) -> Schedule:
        """Store a schedule for a job, or for the name of a job type and its payload.

        A schedule of the same name is changed. If only its job changes, its occurrences stay as they were.
        Raises InvalidSetting for an invalid option or an unknown job type, and for a job that may not be
        enqueued InvalidJob, SecretInPayload or ContractBroken.
        """
        new = job_of(job, payload, self._policies.registry.job_types)
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
        """Store a schedule that was already checked.

        Raises InvalidSetting for an invalid reason, or if code defines a schedule of that name.
        """
        return await self._run(lambda: schedules.put(schedule, reason=reason))

    async def pause(self, name: str, *, reason: str) -> Changed:
        """Fire no occurrence until the schedule is resumed; raises ScheduleNotFound.

        Nothing changes if it is paused for that reason already. Raises InvalidSetting for an invalid reason.
        """
        return await self._run(lambda: schedules.pause(name, reason=reason))

    async def resume(self, name: str, *, reason: str | None = None) -> Changed:
        """End the pause of a schedule; raises ScheduleNotFound. Nothing changes if it is not paused.

        Occurrences that passed during the pause are not made up for. Raises InvalidSetting for an invalid
        reason.
        """
        return await self._run(lambda: schedules.resume(name, reason=reason))

    async def remove(self, name: str, *, reason: str) -> None:
        """Remove a schedule, but not its history; raises ScheduleNotFound.

        A schedule that is defined in code comes back when a worker with that code starts. Raises
        InvalidSetting for an invalid reason.
        """
        await self._run(lambda: schedules.remove(name, reason=reason))

    async def run_now(self, name: str, *, reason: str | None = None) -> Enqueued:
        """Enqueue the job of a schedule at once, paused or not; its occurrences stay as they are.

        Raises ScheduleNotFound, InvalidSetting for an invalid reason, and what `enqueue` raises.
        """
        return await self._run(
            lambda: fire.run_now(name, _ids.make, self._policies, reason=reason), atomic=True
        )

    async def next_times(self, name: str, count: PageSize = 5) -> Page[datetime]:
        """Return the next `count` occurrences of a schedule, whether it is paused or not.

        Raises ScheduleNotFound, and InvalidSetting for an invalid count.
        """
        whole_number("count", count, 1, MOST_PER_PAGE)
        now, schedule = await self._run(lambda: schedules.get_schedule(name), write=False)
        return Page(schedule.next_times(now, count))

    async def runs(
        self, name: str | None = None, *, limit: PageSize = 50, cursor: Cursor | None = None
    ) -> Page[ScheduleRun]:
        """Read a page of the runs of a schedule, even a removed one, or of all schedules, newest first.

        Raises ScheduleNotFound, and InvalidSetting for an invalid limit or cursor.
        """
        if name is None:
            return await self._run(lambda: runs.list_runs(limit, cursor), write=False)
        return await self._run(lambda: runs.list_runs_of(name, limit, cursor), write=False)
