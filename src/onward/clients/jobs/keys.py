"""The ledger of idempotency keys."""

from __future__ import annotations

from onward.clients.binding import AsyncBinding
from onward.core.jobs.ledger import Key, KeyPage
from onward.operations.jobs import key_conflicts
from onward.operations.jobs.key_conflicts import Slot


class AsyncKeys:
    """Look up the job that holds a key, free a key, and remove lapsed keys."""

    def __init__(self, binding: AsyncBinding) -> None:
        self._run = binding.run

    async def get(self, key: str, *, org_id: str | None = None, project_id: str | None = None) -> Key | None:
        """Read one line of the ledger; None if no job holds the key."""
        return await self._run(
            lambda: key_conflicts.get_key(key, org_id=org_id, project_id=project_id), write=False
        )

    async def list(
        self, *, org_id: str | None = None, limit: int = 50, cursor: Slot | None = None
    ) -> KeyPage:
        """Read a page of the ledger, ordered by org, project and key."""
        return await self._run(
            lambda: key_conflicts.list_keys(org_id=org_id, limit=limit, cursor=cursor), write=False
        )

    async def forget(
        self, key: str, *, reason: str, org_id: str | None = None, project_id: str | None = None
    ) -> bool:
        """Free a key early, so that its next enqueue makes a new job; False if no job held it."""
        return await self._run(
            lambda: key_conflicts.forget(key, reason=reason, org_id=org_id, project_id=project_id)
        )  # fmt: skip

    async def prune(self, limit: int = 1000, *, cursor: Slot | None = None) -> tuple[int, Slot | None]:
        """Remove the lapsed keys of a page; return how many, and the next cursor (None at the end)."""
        return await self._run(lambda: key_conflicts.prune(limit, cursor=cursor), atomic=True)
