"""Maintenance: remove rows and files past their retention, and report the sizes of the tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial

import msgspec

from onward.clients.binding import AsyncBinding
from onward.clients.records.artifacts import AsyncArtifacts
from onward.clients.records.audit import AsyncAudit
from onward.core.inputs.checks import check_kind, whole_number
from onward.core.upkeep.maintenance import Place, PruneRound, Tended
from onward.core.upkeep.sizes import SizeReport, advise
from onward.errors import InvalidSetting
from onward.operations.upkeep import prune, table_sizes
from onward.operations.upkeep.prune import KINDS, PruneStep, Walked
from onward.stores.local_state import condition_of

_MOST_AT_ONCE = 10_000
_MOST_COUNTED = 100
_MOST_FILES = 1000
_ALL = (*KINDS, "audit", "artifacts")
_REASON = "it was kept for its time"


class AsyncMaintenance:
    """Keeps the tables small; workers do it every hour by themselves."""

    def __init__(self, binding: AsyncBinding, audit: AsyncAudit, artifacts: AsyncArtifacts) -> None:
        self._binding = binding
        self._run = binding.run
        self._store = binding.store
        self._policies = binding.policies
        self._audit = audit
        self._artifacts = artifacts

    async def prune(
        self, *, place: Place | None = None, limit: int = 1000, dry_run: bool = False
    ) -> PruneRound:
        """Remove what is past its retention: at most `limit` of each kind, in short transactions.

        While more is left, call it again with the `place` of the last answer. A dry run removes nothing, and
        goes on counting by itself, up to 100 times `limit`.
        """
        self._check("prune")
        whole_number("limit", limit, 1, _MOST_AT_ONCE)
        if place is not None:
            check_kind("place", place, Mapping, "give the place of the round before, or leave it out")
        counts: Counter[str] = Counter()
        for _ in range(_MOST_COUNTED if dry_run else 1):
            at = await self._run(prune.clock, write=False)
            page = PruneStep(at, "", limit, dry_run)
            begin = dict.fromkeys(_ALL, "") if place is None else place
            left = {}
            for kind in filter(begin.__contains__, _ALL):
                walked = await self._step(kind, replace(page, place=begin[kind]))
                counts.update(walked.counts)
                if walked.place is not None:
                    left[kind] = walked.place
            place = left or None
            if place is None:
                break
        return PruneRound({kind: count for kind, count in counts.items() if count}, place)

    async def report(self) -> SizeReport:
        """Return the sizes of the tables, how much of that is waste, and statements that reclaim it."""
        self._check("report")
        at = await self._run(prune.clock, write=False)
        seen = await self._run(table_sizes.inspect_sizes, write=False)
        file = msgspec.structs.replace(seen.file, log_bytes=condition_of(self._store).log_bytes)
        seen = msgspec.structs.replace(seen, file=file)
        return msgspec.structs.replace(seen, advice=tuple(advise(seen, at)))

    async def tend(self) -> Sequence[Tended]:
        """Create the partitions of the next months on PostgreSQL, and drop empty past ones."""
        self._check("tend")
        return await self._run(table_sizes.tend_partitions)

    async def read_place(self) -> Place | None:
        """Return where the last maintenance stopped early; None if it came to the end."""
        return await self._run(prune.read_place, write=False)

    async def keep_place(self, place: Place | None) -> None:
        """Store where the next maintenance continues."""
        await self._run(partial(prune.keep_place, place))

    async def _step(self, kind: str, page: PruneStep) -> Walked:
        match kind:
            case "audit":
                return await self._step_audit(page)
            case "artifacts":
                return await self._step_artifacts(page)
        walk = partial(KINDS[kind], self._policies, page)
        return await self._run(walk, write=not page.dry_run, atomic=not page.dry_run)

    async def _step_audit(self, page: PruneStep) -> Walked:
        cutoffs = self._audit_cutoffs(page)
        if page.dry_run:
            known = list(self._policies.registry.categories)
            return await self._run(partial(prune.count_audit, cutoffs, known, page.limit), write=False)
        removed, more = 0, False
        for before, categories in cutoffs.items():
            done = await self._audit.prune(
                before=before, categories=categories, limit=page.limit, reason=_REASON
            )
            removed, more = removed + done.count, more or done.count == page.limit
        return Walked({"audit": removed}, "more" if more else None)

    def _audit_cutoffs(self, page: PruneStep) -> dict[datetime, list[str]]:
        """Return the categories whose rows before an instant may be removed, by that instant.

        Most categories have no retention: their rows stay for ever.
        """
        general = self._policies.settings.retention.span_of("audit")
        cutoffs: dict[datetime, list[str]] = {}
        for name, category in self._policies.registry.categories.items():
            kept = category.audit_retention or general
            if kept is not None:
                cutoffs.setdefault(page.now - kept, []).append(name)
        return cutoffs

    async def _step_artifacts(self, page: PruneStep) -> Walked:
        if page.dry_run:
            return await self._run(partial(prune.count_expired, page), write=False)
        most = min(page.limit, _MOST_FILES)
        done = await self._artifacts.prune(limit=most)
        more = done.expired >= most or done.removed >= most
        return Walked({"artifacts": done.expired, "files": done.removed}, "more" if more else None)

    def _check(self, asked: str) -> None:
        self._binding.require_all_orgs(f"maintenance.{asked}")
        if self._binding.is_within:
            raise InvalidSetting(
                f"maintenance.{asked}() works in short transactions of its own; not within(tx)"
            )
