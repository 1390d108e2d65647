"""The audit: read and export it, seal it into its chain, verify the chain, and prune old rows."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection
from typing import Annotated

from msgspec import Meta

from onward.clients.binding import AsyncBinding
from onward.core.inputs.wire_form import Instant
from onward.core.page import MOST_PER_PAGE, Cursor, Page, PageSize
from onward.core.records.audit import AuditFilter, AuditRecord
from onward.core.records.chain import AuditPruned, AuditVerified, Head, Sealed
from onward.operations.records import audit, seal, verify
from onward.operations.records.prune_audit import MOST_PRUNED, prune_audit


class AsyncAudit:
    """The audit is append-only for every client.

    Operations add to it, and so does `ctx.audit()` in a handler.
    """

    def __init__(self, binding: AsyncBinding) -> None:
        self._binding = binding
        self._policies = binding.policies

    async def list(
        self,
        where: AuditFilter | None = None,
        *,
        limit: PageSize = 50,
        cursor: Cursor | None = None,
        oldest_first: bool = False,
    ) -> Page[AuditRecord]:
        """Return a page of the audit, newest first unless `oldest_first`; secrets in details are redacted.

        Raises InvalidSetting, and InvalidJob for a text or an id that can't be right.
        """
        chosen, hide = where or AuditFilter(), self._policies.settings.redact.redact
        return await self._binding.run(
            lambda: audit.read(chosen, hide=hide, limit=limit, cursor=cursor, oldest_first=oldest_first),
            write=False,
        )

    async def export(self, where: AuditFilter | None = None) -> AsyncIterator[AuditRecord]:
        """Yield every record that matches, oldest first; reads a page at a time.

        Raises what `list()` raises.
        """
        cursor = None
        while True:
            page = await self.list(where, limit=MOST_PER_PAGE, cursor=cursor, oldest_first=True)
            for record in page:
                yield record
            cursor = page.next_cursor
            if cursor is None:
                return

    async def seal(self) -> Sealed:
        """Add unsealed rows to the chain; with `audit_chain=True` a worker does so every second.

        Raises AuditBroken, and NotAllowed for a client of one org.
        """
        return await self._binding.for_worker().walk(seal.seal_all())

    async def verify(self, *, head: Head | str | None = None) -> AuditVerified:
        """Seal the unsealed rows, then compare every row with the chain.

        `head` is an earlier head of the chain that was kept elsewhere. Raises InvalidSetting for a text that
        is no head, AuditBroken, and NotAllowed for a client of one org.
        """
        return await self._binding.for_worker().walk(verify.verify(head))

    async def verify_in_steps(self, *, head: Head | str | None = None) -> AsyncIterator[AuditVerified]:
        """Verify like `verify()`, and yield what was found so far after every 1000 rows.

        The last answer is that of `verify()`. Raises what `verify()` raises.
        """
        verification, binding = verify.Verification(head), self._binding.for_worker()
        while not verification.done:
            yield await binding.walk(verification.step())

    async def prune(
        self,
        *,
        before: Instant | None = None,
        categories: Collection[str] | None = None,
        limit: Annotated[int, Meta(ge=1, le=MOST_PRUNED)] = 10_000,
        reason: str | None = None,
    ) -> AuditPruned:
        """Remove old rows, oldest first, and add the event `audit.pruned`; rows of live jobs stay.

        Without `before`, the `audit_retention` of each category decides, or else the application's
        `Retention`; by default rows are kept. Repeat the call until it removes fewer than `limit` rows.
        Raises InvalidSetting, InvalidJob for a bad reason, AuditBroken, and NotAllowed for a client of one
        org.
        """
        at = self._binding.now()
        return await self._binding.walk(
            prune_audit(self._policies, at, before=before, categories=categories, limit=limit, reason=reason)
        )
