"""Writes how far the running jobs are, as their handlers report it.

A report is written at once if none was in the last second, else when that second is over. Only the newest
report of each job is written, and those of all jobs together. While no handler reports, the loop sleeps.
"""

from __future__ import annotations

import asyncio
from asyncio import sleep
from contextlib import suppress

from onward.clients.client import AsyncClient
from onward.core.jobs.ids import JobId
from onward.core.work.progress import JobReport
from onward.worker.attempts.running_jobs import RunningJobs
from onward.worker.outage import Outage

_PAUSE_SECONDS = 1.0


class Reporter:
    """Stores the newest reports of the runs in the slots; the last one of a run is written with its end."""

    def __init__(self, client: AsyncClient, outage: Outage, running: RunningJobs) -> None:
        self._client = client
        self._outage = outage
        self._running = running
        running.reported = self.add
        self._loop = asyncio.get_running_loop()
        self._changed: set[JobId] = set()
        self._any = asyncio.Event()
        self._woken = False

    def add(self, job_id: JobId) -> None:
        """Note that the run of a job has a new report; may be called from any thread."""
        # Before the look at `_woken`: the loop clears that first, and then takes what has changed.
        self._changed.add(job_id)
        if not self._woken:
            self._woken = True
            # A thread may outlive its worker, and the loop may be closed.
            with suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._any.set)

    async def run(self) -> None:
        """Write until cancelled."""
        while True:
            await self._any.wait()
            self._any.clear()
            self._woken = False
            await sleep(await self._write())

    async def _write(self) -> float:
        """Write what has changed; return the seconds to wait before the next write."""
        taken = {self._changed.pop() for _ in range(len(self._changed))}
        runs = map(self._running.runs.get, taken)
        newest = [(run.job, run.last_report) for run in runs if run is not None]
        reports = [JobReport.of(job, report) for job, report in newest if report is not None]
        try:
            left = await self._client.worker.store_progress(reports)
        except Exception as error:  # noqa: BLE001 - no error may end this
            left, pause = frozenset(taken), self._outage.pause("reporter", error)
        else:
            self._outage.over("reporter")
            pause = _PAUSE_SECONDS
        for job_id in left:
            self.add(job_id)
        return pause
