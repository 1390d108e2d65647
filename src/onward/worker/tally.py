"""Counts of what a worker has done."""

from __future__ import annotations

from dataclasses import dataclass

from onward.core.job import JobState
from onward.core.lifecycle import Transition

__all__ = ["Tally"]


@dataclass(slots=True)
class Tally:
    """What the attempts of a worker came to."""

    processed: int = 0
    succeeded: int = 0
    retried: int = 0
    dead: int = 0
    cancelled: int = 0
    released: int = 0
    refused: int = 0

    def add(self, transition: Transition) -> None:
        """Count one attempt."""
        if transition.outcome == "released":
            self.released += 1
            return
        self.processed += 1
        match transition.state:
            case JobState.SUCCEEDED:
                self.succeeded += 1
            case JobState.DEAD:
                self.dead += 1
            case JobState.CANCELLED:
                self.cancelled += 1
            case _:
                self.retried += 1
