# Generated from src/onward/clients/records/audit.py by tools/make_sync.py. Edit that file instead.
"""The audit: read and export it, seal it into its chain, verify the chain, and prune old rows."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from datetime import datetime, timedelta
from functools import partial
from itertools import pairwise

from msgspec.structs import replace

from onward.clients.sync.binding import Binding
from onward.core.inputs.checks import zoned
from onward.core.policy.policies import Policies
from onward.core.records.audit import AuditFilter, AuditPage, AuditRecord
from onward.core.records.chain import AuditPruned, AuditVerified, ChainLink, Fault, Head, Sealed, Walk
from onward.errors import AuditBroken, InvalidSetting
from onward.operations.records import audit, seal
from onward.operations.statement import Row

_PAGE = 1000
_STRIDE = 50_000
_LOWEST = -(2**62)
_MOST_FAULTS = 1000
_NOT_GIVEN = "no row is given this number"


def _cutoffs(
    policies: Policies, before: datetime | None, categories: Collection[str] | None, now: datetime
) -> dict[datetime, list[str]]:
    """Return the categories whose rows before an instant may be removed, by that instant."""
    chosen = (
        list(policies.registry.categories)
        if categories is None
        else [policies.category(name).name for name in categories]
    )
    if before is not None:
        return {before: chosen}
    cutoffs: dict[datetime, list[str]] = {}
    for name in chosen:
        kept: timedelta | None = policies.category(name).audit_retention
        if kept is not None:
            cutoffs.setdefault(now - kept, []).append(name)
    return cutoffs


class Audit:
    """The audit is append-only for every client.

    Operations add to it, and so does `ctx.audit()` in a handler.
    """

    def __init__(self, binding: Binding) -> None:
        self._binding = binding
        self._run = binding.run
        self._policies = binding.policies

    def list(
        self,
        where: AuditFilter | None = None,
        *,
        limit: int = 50,
        cursor: int | None = None,
        oldest_first: bool = False,
    ) -> AuditPage:
        """Read a page of the audit, newest first unless `oldest_first`."""
        chosen = where or AuditFilter()
        page = self._run(
            lambda: audit.read(chosen, limit=limit, cursor=cursor, oldest_first=oldest_first), write=False
        )
        return AuditPage([self._redacted(record) for record in page.records], page.next_cursor)

    def _redacted(self, record: AuditRecord) -> AuditRecord:
        if record.detail is None:
            return record
        return replace(record, detail=self._policies.settings.redact.redact(record.detail))

    def export(self, where: AuditFilter | None = None) -> Iterator[AuditRecord]:
        """Yield every record that matches, oldest first, reading one page at a time."""
        cursor: int | None = 0
        while cursor is not None:
            page = self.list(where, limit=_PAGE, cursor=cursor, oldest_first=True)
            for record in page.records:
                yield record
            cursor = page.next_cursor

    def seal(self) -> Sealed:
        """Add unsealed rows to the chain; with `audit_chain=True` a worker does so every second."""
        count, above = 0, None
        while True:
            sealed = self._seal(above)
            count, above = count + sealed.count, sealed.upto
            if sealed.done:
                return Sealed(count, sealed.head, sealed.floor, sealed.upto, done=True)

    def _seal(self, above: int | None) -> Sealed:
        return self._run(lambda: seal.seal(above), atomic=True)

    def verify(
        self, *, head: Head | str | None = None, progress: Callable[[int, int], None] | None = None
    ) -> AuditVerified:
        """Seal the unsealed rows, then walk the whole chain and compare every row with it.

        `head` is an earlier head of the chain that was kept elsewhere. `progress` is called with the number
        of links checked and the number of all links.
        """
        kept = Head.read(head) if isinstance(head, str) else head
        faults = []
        try:
            sealed = self.seal()
        except AuditBroken as error:
            sealed = self._end()
            faults.append(Fault("broken", str(error)))
        walk = Walk(kept)
        while walk.head.position < sealed.head.position:
            page = self._page(walk.head.position, sealed.head.position)
            if not page:
                break
            faults += walk.follow(page)
            faults += [
                Fault("inserted", _NOT_GIVEN, link.seq, link.position) for link, _ in page if link.seq <= 0
            ]
            del faults[_MOST_FAULTS:]
            if progress is not None:
                progress(walk.head.position, sealed.head.position)
        faults += walk.end(sealed.head)
        faults += self._strays(sealed.floor)
        return AuditVerified(walk.head.position, walk.head, tuple(faults[:_MOST_FAULTS]))

    def _end(self) -> Sealed:
        return self._run(seal.end, atomic=True)

    def _page(self, above: int, upto: int) -> Sequence[tuple[ChainLink, Row | None]]:
        page = self._run(lambda: seal.read_links(above, _PAGE), write=False)
        return [pair for pair in page if pair[0].position <= upto]

    def _strays(self, floor: int) -> Sequence[Fault]:
        found = []
        # The floor may have been raised by hand, so strides end at the last number that was given out.
        last = min(floor, self._run(seal.last_number, write=False))
        bounds = sorted({_LOWEST, *range(0, last, _STRIDE), last, floor})
        for above, upto in pairwise(bounds):
            found += self._run(partial(seal.strays, above, upto), write=False)
        return [Fault("inserted", "the row was never sealed, and came too late to be", seq) for seq in found]

    def prune(
        self,
        *,
        before: datetime | None = None,
        categories: Collection[str] | None = None,
        limit: int = 10_000,
        reason: str | None = None,
    ) -> AuditPruned:
        """Remove old rows, oldest first, and add the event `audit.pruned`; rows of live jobs stay.

        Without `before`, the `audit_retention` of each category decides: a category without one keeps its
        rows. Repeat the call until it removes fewer than `limit` rows.
        """
        at = self._binding.now()
        cutoffs = _cutoffs(self._policies, before, categories, at)
        if before is not None and zoned("before", before) > at:
            raise InvalidSetting(
                f"before is {before}, which is still to come; give an instant that has passed"
            )
        sealed = self._end()
        if self._policies.settings.audit_chain or sealed.head.position:
            self.seal()
        known = list(self._policies.registry.categories)
        return self._run(lambda: seal.prune(cutoffs, known, limit=limit, reason=reason), atomic=True)
