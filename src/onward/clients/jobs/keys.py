"""The ledger of idempotency keys."""

from __future__ import annotations

from onward.clients.binding import AsyncBinding
from onward.core.bulk import Bulk, Changed
from onward.core.jobs.ledger import Key
from onward.core.page import MOST_PER_PAGE, Cursor, Page, PageSize
from onward.operations.jobs import key_conflicts


class AsyncKeys:
    """Look up the job that holds a key, free a key, and remove lapsed keys.

    A key is held within an org and a project: those of the client, or of the code around.
    """

    def __init__(self, binding: AsyncBinding) -> None:
        self._binding = binding
        self._run = binding.run

    async def get(self, key: str) -> Key | None:
        """Read one line of the ledger; None if no job holds the key."""
        scope = self._binding.scope
        return await self._run(
            lambda: key_conflicts.get_key(key, org_id=scope.org_id, project_id=scope.project_id), write=False
        )

    async def list(self, *, limit: PageSize = 50, cursor: Cursor | None = None) -> Page[Key]:
        """Read a page of the ledger, ordered by org, project and key."""
        return await self._run(lambda: key_conflicts.list_keys(limit=limit, cursor=cursor), write=False)

    async def forget(self, key: str, *, reason: str) -> Changed:
        """Free a key early, so that its next enqueue makes a new job."""
        scope = self._binding.scope
        return await self._run(
            lambda: key_conflicts.forget(key, reason=reason, org_id=scope.org_id, project_id=scope.project_id)
        )

    async def prune(self, limit: PageSize = MOST_PER_PAGE, *, cursor: Cursor | None = None) -> Bulk:
        """Remove the lapsed ones of the next `limit` keys; raises NotAllowed for a client of one org."""
        return await self._run(lambda: key_conflicts.prune(limit, cursor=cursor), atomic=True)
