# Generated from src/onward/clients/work/workers.py by tools/make_sync.py. Edit that file instead.
"""Workers: which there are, what each serves, and which jobs it runs."""

from __future__ import annotations

from onward.clients.sync.binding import Binding
from onward.core.jobs.job import Job
from onward.core.page import Cursor, Page, PageSize
from onward.core.upkeep.facts import WorkerSeen
from onward.operations.work import workers


class Workers:
    """The processes that have claimed jobs here, with a row for each time that one was started."""

    def __init__(self, binding: Binding) -> None:
        self._binding = binding
        self._run = binding.run

    def list(self, *, limit: PageSize = 100, cursor: Cursor | None = None) -> Page[WorkerSeen]:
        """Read a page of the workers: the live ones first, then those that were seen last.

        Raises InvalidSetting for an invalid limit or cursor, and NotAllowed for a client of one org.
        """
        self._binding.require_all_orgs("workers.list")
        return self._run(lambda: workers.list_workers(limit, cursor), write=False)

    def show(self, worker_id: str) -> WorkerSeen:
        """Read one worker; raises WorkerNotFound, and NotAllowed for a client of one org."""
        self._binding.require_all_orgs("workers.show")
        return self._run(lambda: workers.get_worker(worker_id), write=False)

    def running(self, worker_id: str, *, limit: PageSize = 100, cursor: Cursor | None = None) -> Page[Job]:
        """Read a page of the jobs that a worker runs now, oldest first; none for an unknown worker.

        Raises InvalidSetting for an invalid limit or cursor, and NotAllowed for a client of one org.
        """
        self._binding.require_all_orgs("workers.running")
        return self._run(lambda: workers.list_running(worker_id, limit, cursor), write=False)
