"""Counts of what a worker has done."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from onward.core.jobs.job import Job, JobState
from onward.core.work.lifecycle import End, Transition

_MOST_KINDS = 1000


class Failure(NamedTuple):
    """The labels by which the metric of failures counts."""

    job_type: str
    queue: str
    error_class: str


@dataclass(slots=True)
class Tally:
    """Counts of a worker's attempts by outcome."""

    processed: int = 0
    succeeded: int = 0
    retried: int = 0
    parked: int = 0
    dead: int = 0
    cancelled: int = 0
    released: int = 0
    refused: int = 0
    failures: Counter[Failure] = field(default_factory=Counter)

    def add_all(self, ended: Iterable[tuple[Job, End]]) -> None:
        """Count attempts; plain successes, which are nearly all, are added in one step."""
        plain = 0
        for job, end in ended:
            to = end.transition
            if to.state is JobState.SUCCEEDED and to.error is None:
                plain += 1
            else:
                self.add(job, to)
        self.processed += plain
        self.succeeded += plain

    def add(self, job: Job, transition: Transition) -> None:
        """Count one attempt."""
        if transition.outcome == "released":
            self.released += 1
            return
        self.processed += 1
        if transition.error is not None and transition.state != JobState.CANCELLED:
            self._fail(Failure(job.job_type, job.queue, transition.error_class or "other"))
        match transition.state:
            case JobState.SUCCEEDED:
                self.succeeded += 1
            case JobState.DEAD:
                self.dead += 1
            case JobState.CANCELLED:
                self.cancelled += 1
            case _ if transition.outcome == "parked":
                self.parked += 1
            case _:
                self.retried += 1

    def _fail(self, failure: Failure) -> None:
        # Bounded, because an application may create a new error class for each failure.
        if failure not in self.failures and len(self.failures) >= _MOST_KINDS:
            failure = failure._replace(error_class="other")
        self.failures[failure] += 1
