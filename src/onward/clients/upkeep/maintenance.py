"""Maintenance: remove rows and files past their retention, and report the sizes of the tables."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated

import msgspec
from msgspec import Meta

from onward.clients.binding import AsyncBinding
from onward.clients.records.artifact_content import AsyncArtifactContent
from onward.core.page import Cursor
from onward.core.upkeep.maintenance import PruneRound
from onward.core.upkeep.sizes import SizeReport, advise
from onward.operations.upkeep import prune, table_sizes
from onward.operations.upkeep.prune_round import MOST_AT_ONCE, prune_round
from onward.stores.local_state import condition_of

# The file of an artifact is written before its row.
_GRACE = timedelta(days=1)


class AsyncMaintenance:
    """Keeps the tables small; workers do it every hour by themselves.

    Every method raises NotAllowed for a client of one org, and InvalidSetting within a caller's transaction.
    """

    def __init__(self, binding: AsyncBinding) -> None:
        self._binding = binding
        self._run = binding.run
        self._store = binding.store

    async def prune(
        self,
        *,
        limit: Annotated[int, Meta(ge=1, le=MOST_AT_ONCE)] = 1000,
        cursor: Cursor | None = None,
        dry_run: bool = False,
    ) -> PruneRound:
        """Remove what is past its retention: at most `limit` of each kind, in short transactions.

        Call it again with the `next_cursor` of the answer until that is None. A dry run counts, and removes
        nothing. Raises InvalidSetting, InvalidJob for a cursor without an id, and AuditBroken.
        """
        self._binding.require_own_transactions("maintenance.prune")
        return await self._binding.walk(
            prune_round(
                self._binding.policies, cursor, limit=limit, dry_run=dry_run, remove_files=self._remove_files
            ),
            dry_run=dry_run,
        )

    async def report(self) -> SizeReport:
        """Return the sizes of the tables, how much of that is waste, and statements that reclaim it."""
        self._binding.require_own_transactions("maintenance.report")
        at = await self._run(prune.clock, write=False)
        seen = await self._run(table_sizes.inspect_sizes, write=False)
        file = msgspec.structs.replace(seen.file, log_bytes=condition_of(self._store).log_bytes)
        seen = msgspec.structs.replace(seen, file=file)
        return msgspec.structs.replace(seen, advice=tuple(advise(seen, at)))

    async def _remove_files(self, limit: int) -> int:
        before = self._binding.now() - _GRACE
        return await AsyncArtifactContent(self._binding).remove_unused(limit, before.timestamp())
