# Generated from src/onward/clients/work/worker_schedules.py by tools/make_sync.py. Edit that file instead.
"""What workers do for schedules: declare those of their code, and enqueue what is due."""

from __future__ import annotations

import os
import time
from collections.abc import Collection, Sequence

from onward.clients.sync.binding import Binding
from onward.core.jobs.ids import IdMaker
from onward.core.schedules.firing import Fired
from onward.core.schedules.schedule import NewSchedule, Schedule
from onward.operations.schedules import built_in_schedules, fire, schedules
from onward.operations.schedules.fire import Known

_ids = IdMaker(time.time_ns, os.urandom)


class WorkerSchedules:
    """Declares schedules, and enqueues their jobs when they are due."""

    def __init__(self, binding: Binding) -> None:
        self._run = binding.run
        self._policies = binding.policies

    def declare(self, defined: Collection[NewSchedule]) -> Sequence[Schedule]:
        """Store, as a worker does at its start, the schedules that its code defines."""
        return self._run(lambda: schedules.declare(list(defined)))

    def fire(self, known: Known, *, limit: int = 100) -> Fired:
        """Enqueue, as every worker does, the due occurrences of schedules that it may fire.

        Each occurrence is enqueued once.
        """
        return self._run(lambda: fire.fire(known, _ids.make, self._policies, limit=limit), atomic=True)

    def declare_built_in(self) -> None:
        """Store the schedules of the built-in jobs; every worker does so when it starts."""
        self._run(built_in_schedules.declare)
