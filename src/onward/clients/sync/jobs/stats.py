# Generated from src/onward/clients/jobs/stats.py by tools/make_sync.py. Edit that file instead.
"""Stats: figures about jobs, for monitors and dashboards."""

from __future__ import annotations

from onward.clients.sync.binding import Binding
from onward.core.inputs.duration import Duration
from onward.core.jobs.stats import DAY, Durations, Failure, FailureCount, Grouping, QueueLag, StateCounts
from onward.core.page import Page
from onward.operations.jobs import stats


class Stats:
    """Figures about jobs; each says from which jobs it comes, and none reads them all."""

    def __init__(self, binding: Binding) -> None:
        self._run = binding.run

    def counts(self, *, window: Duration = DAY) -> StateCounts:
        """Count the live jobs by state, and the jobs that ended within the window by state."""
        return self._run(lambda: stats.counts(window), write=False)

    def durations(self, by: Grouping = "job_type", *, window: Duration = DAY) -> Durations:
        """Measure how long the jobs of each type or queue ran and waited that ended within the window."""
        return self._run(lambda: stats.durations(by, window), write=False)

    def lags(self) -> Page[QueueLag]:
        """Measure how long the oldest ready job of each queue has waited, the longest first."""
        return self._run(stats.lags, write=False)

    def failures(self, *, limit: FailureCount = 20) -> Page[Failure]:
        """List the newest failures: deaths, and failed attempts of jobs that will run again."""
        return self._run(lambda: stats.failures(limit), write=False)
