"""The jobs that run in a worker: their cancellation, and their time-outs and deadlines."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping

from onward.core.jobs.ids import JobId
from onward.core.records.usage import Usage
from onward.core.work.lifecycle import Cancelled
from onward.core.work.progress import Report
from onward.logs import get_logger
from onward.worker.attempts.attempt import Completion, Ran, Running, Why
from onward.worker.attempts.outcomes import claimed_at
from onward.worker.children.process_pool import ProcessPool

log = get_logger("onward.worker")


class RunningJobs:
    """The runs by the id of their job; `cancel_requests` also has jobs that have not begun.

    A thread that ignores its cancellation keeps its slot for `patience` seconds. `reported` is called, from
    any thread, with the job of a run that has a new report.
    """

    def __init__(self, processes: ProcessPool, *, patience: float) -> None:
        self._processes = processes
        self._patience = patience
        self._loop = asyncio.get_running_loop()
        self._timed: set[Running] = set()
        self.runs: dict[str, Running] = {}
        self.cancel_requests: Mapping[str, str] = {}
        self.usage: dict[str, tuple[Usage, ...]] = {}
        self.completions: dict[str, Completion] = {}
        self.reports: dict[str, Report] = {}
        self.errors: dict[str, BaseException] = {}
        self.reported: Callable[[JobId], None] | None = None

    def remove(self, run: Running) -> None:
        """Take out a run that is over; keep what it leaves until its outcome is passed on."""
        job_id = run.job.id
        if run.why is not None:
            # Also if the handler turned its cancellation into another outcome, else the slot's next job
            # would seem to be cancelled.
            run.uncancel()
        self.runs.pop(job_id, None)
        if run.ends_at is not None:
            self._timed.discard(run)
        if run.meters is not None:
            self.usage[job_id] = run.usage()
        if run.completion is not None:
            self.completions[job_id] = run.completion
        if run.last_report is not None:
            self.reports[job_id] = run.last_report
        if run.error is not None:
            self.errors[job_id], run.error = run.error, None

    def cancel(self, job_id: str, why: Why, reason: str | None = None) -> None:
        """Ask the handler of a running job to stop."""
        run = self.runs.get(job_id)
        if run is None or not run.cancel(why, reason):
            return
        if run.handler.executor == "process":
            self._processes.cancel(job_id)
        elif run.handler.executor == "thread" and why != "requested":
            # Python can't stop a thread. If the handler does not stop in time, the slot goes on without it.
            self._loop.call_later(self._patience, _abandon, run)

    def cancel_requested(self, reasons: Mapping[str, str]) -> None:
        """Cancel this worker's jobs whose cancellation was requested, also those that have not begun."""
        self.cancel_requests = reasons
        for job_id, reason in reasons.items():
            self.cancel(job_id, "requested", reason)

    def cancel_all(self, why: Why) -> None:
        """Ask every running handler to stop."""
        for job_id in list(self.runs):
            self.cancel(job_id, why)

    def abandon_all(self) -> list[Ran]:
        """Abandon handlers that were asked to stop and have not; return those whose slots can't go on."""
        self._processes.kill()
        cancelled = [run for run in self.runs.values() if run.why is not None]
        for run in cancelled:
            _abandon(run)
        return [
            (run.job, run.gave_way(), run.usage(), run.completion, run.last_report, None)
            for run in cancelled
            if run.handler.executor == "async"
        ]

    def limit_time(self, run: Running) -> None:
        """Record when a run must stop; its deadline is counted from its claim by the database's clock."""
        job = run.job
        seconds: list[tuple[float, Why]] = []
        if job.timeout_micros is not None:
            seconds.append((job.timeout_micros / 1e6, "timeout"))
        if job.deadline is not None:
            seconds.append(((job.deadline - claimed_at(job)).total_seconds() - run.waited, "deadline"))
        left, run.late = min(seconds)
        run.ends_at = time.monotonic() + left
        self._timed.add(run)
        if left <= 0:
            run.why, run.cancel_reason = run.late, f"its {run.late} passed before it ran"

    def check_times(self) -> None:
        """Cancel runs that have reached their time-out or deadline."""
        now = time.monotonic()
        for run in [run for run in self._timed if run.ends_at is not None and run.ends_at <= now]:
            self._timed.discard(run)
            self.cancel(run.job.id, run.late)

    def blocking(self) -> str:
        """Return a text that names the job that blocks the event loop; called from another thread."""
        task = asyncio.current_task(self._loop)
        jobs = [
            f"job {run.job.job_type} {run.job.id}" for run in list(self.runs.values()) if run.task is task
        ]
        return jobs[0] if jobs else "something that is no job"


def _abandon(run: Running) -> None:
    """Free the slot of a thread that does not stop; the thread runs on without it."""
    if run.future is not None and not run.future.done():
        log.warning(
            "job %s %s ignores its cancellation; its thread runs on without a slot",
            run.job.job_type,
            run.job.id,
        )
        run.future.set_exception(Cancelled(run.cancel_reason or "cancelled"))
