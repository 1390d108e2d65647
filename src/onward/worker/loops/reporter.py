"""Writes how far the running jobs are, as their handlers report it.

A report is written at once if none was in the last second, else when that second is over. Only the newest
report of each job is written, and those of all jobs together. While no handler reports, the loop sleeps.
"""

from __future__ import annotations

import asyncio
import threading
from asyncio import sleep

from onward.clients.client import AsyncClient
from onward.core.jobs.job import Job
from onward.core.work.progress import Report
from onward.worker.outage import Outage

_PAUSE_SECONDS = 1.0

_Run = tuple[str, int]
"""The id of a job and its lease: the thread of an earlier run may still report."""


class Reporter:
    """Keeps the newest report of each run until it is stored, or until the end of the run takes it along."""

    def __init__(self, client: AsyncClient, outage: Outage) -> None:
        self._client = client
        self._outage = outage
        self._loop = asyncio.get_running_loop()
        self._lock = threading.Lock()
        self._newest: dict[_Run, tuple[Job, Report]] = {}
        self._any = asyncio.Event()

    def add(self, job: Job, report: Report) -> None:
        """Take the newest report of a run, from any thread."""
        with self._lock:
            is_first = not self._newest
            self._newest[job.id, job.lease] = (job, report)
        if is_first:
            self._wake()

    def take(self, job: Job) -> Report | None:
        """Return the report of a run that is over, if it is not stored yet; it is written with the end."""
        if not self._newest:
            return None
        with self._lock:
            _, report = self._newest.pop((job.id, job.lease), (job, None))
        return report

    async def run(self) -> None:
        """Write until cancelled."""
        while True:
            await self._any.wait()
            try:
                await self._store()
            except Exception as error:  # noqa: BLE001 - no error may end this
                pause = self._outage.pause("reporter", error)
            else:
                self._outage.over("reporter")
                pause = _PAUSE_SECONDS
                self._rest()
            await sleep(pause)

    async def _store(self) -> None:
        """Write the reports; keep those that came meanwhile, and those of rows that are locked."""
        with self._lock:
            asked = dict(self._newest)
        locked = await self._client.worker.store_progress(list(asked.values()))
        with self._lock:
            for run, written in asked.items():
                if run[0] not in locked and self._newest.get(run) is written:
                    del self._newest[run]

    def _rest(self) -> None:
        """Let the loop sleep until the next report, if none is left to write."""
        with self._lock:
            if not self._newest:
                self._any.clear()

    def _wake(self) -> None:
        try:
            self._loop.call_soon_threadsafe(self._any.set)
        except RuntimeError:
            # The loop is closed: a thread has outlived its worker.
            return
