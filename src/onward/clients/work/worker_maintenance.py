"""What the built-in jobs of workers do for maintenance."""

from __future__ import annotations

from functools import partial

from onward.clients.binding import AsyncBinding
from onward.core.page import Cursor, Page
from onward.core.upkeep.maintenance import Tended
from onward.operations.upkeep import prune, table_sizes


class AsyncWorkerMaintenance:
    """Looks after the partitions, and keeps where the pruning stopped."""

    def __init__(self, binding: AsyncBinding) -> None:
        self._binding = binding
        self._run = binding.run

    async def tend(self) -> Page[Tended]:
        """Create the partitions of the next months on PostgreSQL, and drop empty past ones."""
        self._binding.require_own_transactions("worker.maintenance.tend")
        return await self._run(table_sizes.tend_partitions)

    async def read_place(self) -> Cursor | None:
        """Return where the last pruning stopped early; None if it came to the end."""
        return await self._run(prune.read_place, write=False)

    async def keep_place(self, place: Cursor | None) -> None:
        """Store where the next pruning continues."""
        await self._run(partial(prune.keep_place, place))
