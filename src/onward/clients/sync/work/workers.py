# Generated from src/onward/clients/work/workers.py by tools/make_sync.py. Edit that file instead.
"""Workers: which there are, what each serves, and which jobs it runs."""

from __future__ import annotations

from collections.abc import Sequence

from onward.clients.sync.binding import Binding
from onward.core.jobs.job import Job
from onward.core.upkeep.facts import WorkerSeen
from onward.operations.work import rescue, workers


class Workers:
    """The processes that have claimed jobs here, with a row for each time that one was started."""

    def __init__(self, binding: Binding) -> None:
        self._binding = binding
        self._run = binding.run

    def list(self, *, limit: int = 100) -> Sequence[WorkerSeen]:
        """Read the workers: the live ones first, then those that were seen last."""
        self._binding.require_all_orgs("workers.list")
        return self._run(lambda: workers.list_workers(limit), write=False)

    def show(self, worker_id: str) -> WorkerSeen:
        """Read one worker; raises WorkerNotFound."""
        self._binding.require_all_orgs("workers.show")
        return self._run(lambda: workers.get_worker(worker_id), write=False)

    def running(self, worker_id: str) -> Sequence[Job]:
        """Read the jobs that a worker runs now."""
        self._binding.require_all_orgs("workers.running")
        return self._run(lambda: rescue.find_held(worker_id), write=False)
