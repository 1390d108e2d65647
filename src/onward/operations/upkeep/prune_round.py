"""A round of pruning: one page of every kind of rows, each in a transaction of its own."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any

from onward.core.inputs.checks import check_kind, whole_number
from onward.core.page import Cursor
from onward.core.policy.policies import Policies
from onward.core.upkeep.maintenance import PruneRound
from onward.errors import InvalidSetting
from onward.operations.records.prune_audit import cutoffs_of, prune_audit
from onward.operations.upkeep.prune import KINDS, PruneStep, Walked, clock, count_audit
from onward.operations.walk import Outside, Step, Walk, reading

MOST_AT_ONCE = 10_000

_MOST_FILES = 1000
_ALL = (*KINDS, "audit", "files")
_REASON = "its retention is over"

RemoveFiles = Callable[[int], Any]
"""Removes at most this many files that no artifact uses; returns how many."""


def prune_round(
    policies: Policies, cursor: Cursor | None, *, limit: int, dry_run: bool, remove_files: RemoveFiles
) -> Walk[PruneRound]:
    """Remove what is past its retention: at most `limit` of each kind that is not at its end."""
    whole_number("limit", limit, 1, MOST_AT_ONCE)
    begins = _read_cursor(cursor)
    at = yield reading(clock)
    counts: Counter[str] = Counter()
    ends: dict[str, Cursor] = {}
    for kind, begin in begins.items():
        step = PruneStep(kind, at, begin, limit, dry_run)
        walked = yield from _prune_kind(policies, step, remove_files)
        counts.update(walked.counts)
        if walked.cursor is not None:
            ends[kind] = walked.cursor
    # A cursor has one part for each kind, which is empty for a kind at its end.
    more = ".".join(ends.get(kind, "") for kind in _ALL) if ends else None
    return PruneRound({kind: count for kind, count in counts.items() if count}, more)


def _read_cursor(cursor: Cursor | None) -> dict[str, Cursor | None]:
    """Return where each kind that is not at its end begins."""
    if cursor is None:
        return dict.fromkeys(_ALL)
    advice = "give the next_cursor of the round before, or leave it out"
    check_kind("cursor", cursor, str, advice)
    parts = cursor.split(".")
    if len(parts) != len(_ALL):
        raise InvalidSetting(f"cursor is {cursor!r:.80}; {advice}")
    return {kind: part for kind, part in zip(_ALL, parts, strict=True) if part}


def _prune_kind(policies: Policies, step: PruneStep, remove_files: RemoveFiles) -> Walk[Walked]:
    if step.kind == "audit":
        return (yield from _prune_audit(policies, step))
    if step.kind == "files":
        return (yield from _prune_files(step, remove_files))
    make = partial(KINDS[step.kind], policies, step)
    walked: Walked = yield Step(make, write=not step.dry_run, atomic=not step.dry_run)
    return walked


def _prune_audit(policies: Policies, step: PruneStep) -> Walk[Walked]:
    step.start()
    cutoffs = cutoffs_of(policies, step.now)
    if not cutoffs:
        return Walked()
    if step.dry_run:
        known = list(policies.registry.categories)
        counted: Walked = yield reading(partial(count_audit, cutoffs, known, step.limit))
        return counted
    pruned = yield from prune_audit(policies, step.now, limit=step.limit, reason=_REASON)
    return Walked({"audit": pruned.count}, step.again(pruned.count))


def _prune_files(step: PruneStep, remove_files: RemoveFiles) -> Walk[Walked]:
    step.start()
    if step.dry_run:
        return Walked()
    most = min(step.limit, _MOST_FILES)
    removed = yield Outside(partial(remove_files, most))
    return Walked({"files": removed}, step.again(removed, most))
