# Generated from src/onward/clients/work/worker_maintenance.py by tools/make_sync.py. Edit that file instead.
"""What the built-in jobs of workers do for maintenance."""

from __future__ import annotations

from functools import partial

from onward.clients.sync.binding import Binding
from onward.core.page import Cursor, Page
from onward.core.upkeep.maintenance import Tended
from onward.operations.upkeep import prune, table_sizes


class WorkerMaintenance:
    """Looks after the partitions, and keeps where the pruning stopped."""

    def __init__(self, binding: Binding) -> None:
        self._binding = binding
        self._run = binding.run

    def tend(self) -> Page[Tended]:
        """Create the partitions of the next months on PostgreSQL, and drop empty past ones."""
        self._binding.require_own_transactions("worker.maintenance.tend")
        return self._run(table_sizes.tend_partitions)

    def read_place(self) -> Cursor | None:
        """Return where the last pruning stopped early; None if it came to the end."""
        return self._run(prune.read_place, write=False)

    def keep_place(self, place: Cursor | None) -> None:
        """Store where the next pruning continues."""
        self._run(partial(prune.keep_place, place))
