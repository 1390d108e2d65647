"""Remove old rows of the audit, and write an event that accounts for them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any

from onward.core.inputs.checks import whole_number, zoned
from onward.core.inputs.fields import check_reason
from onward.core.policy.policies import Policies
from onward.core.records.chain import AuditPruned, digest_of, digest_of_all
from onward.errors import AuditBroken, InvalidSetting
from onward.operations.records.seal import end, lock, seal_all
from onward.operations.statement import Operation, Row, Rows, Statement, as_json, moment
from onward.operations.walk import Step, Walk

MOST_PRUNED = 100_000

Cutoffs = Mapping[datetime, Sequence[str]]
"""The categories whose rows before an instant may be removed, by that instant."""


def prune_audit(
    policies: Policies,
    at: datetime,
    *,
    before: datetime | None = None,
    categories: Collection[str] | None = None,
    limit: int,
    reason: str | None = None,
) -> Walk[AuditPruned]:
    """Remove at most `limit` rows whose retention is over, or rows before an instant; seal all rows first."""
    cutoffs = cutoffs_of(policies, at, before=before, categories=categories)
    sealed = yield Step(end, atomic=True)
    if policies.settings.audit_chain or sealed.head.position:
        yield from seal_all()
    make = partial(prune, cutoffs, list(policies.registry.categories), limit=limit, reason=reason)
    pruned: AuditPruned = yield Step(make, atomic=True)
    return pruned


def cutoffs_of(
    policies: Policies,
    at: datetime,
    *,
    before: datetime | None = None,
    categories: Collection[str] | None = None,
) -> Cutoffs:
    """Return which categories may be pruned up to which instants.

    Most categories have no retention: their rows stay forever.
    """
    names = list(policies.registry.categories) if categories is None else categories
    chosen = [policies.category(name) for name in names]
    if before is not None:
        if zoned("before", before) > at:
            raise InvalidSetting(f"before is {before}, in the future; give an instant that has passed")
        return {before: [category.name for category in chosen]}
    general = policies.settings.retention.span_of("audit")
    cutoffs: dict[datetime, list[str]] = {}
    for category in chosen:
        kept = category.audit_retention or general
        if kept is not None:
            cutoffs.setdefault(at - kept, []).append(category.name)
    return cutoffs


def prune(
    cutoffs: Cutoffs, known: Sequence[str], *, limit: int, reason: str | None = None
) -> Operation[AuditPruned]:
    """Remove rows older than their category's cutoff, and write an event that accounts for them.

    Needs a transaction on PostgreSQL. Where there is a chain, only rows in it are removed, and marked there.
    """
    whole_number("limit", limit, 1, MOST_PRUNED)
    if reason is not None:
        reason = check_reason(reason)
    state = yield from lock()
    chained = state.position > 0
    rows: list[Row] = []
    for before, categories in cutoffs.items():
        named = {"known": as_json(sorted(known)), "categories": as_json(sorted(categories))}
        params = {"before": moment(before), "chained": int(chained), "limit": limit - len(rows)}
        if params["limit"]:
            rows += yield Statement("find_prunable", {**named, **params})
    if not rows:
        return AuditPruned(0)
    # In the order of the chain, in which verification reads them.
    gone = [row[1:] for row in sorted(rows, key=lambda row: (row[0] or 0, row[1]))]
    detail: dict[str, Any] = {
        "count": len(gone),
        "digest": digest_of_all(map(digest_of, gone)),
        "chained": chained,
    }
    if reason is not None:
        detail["reason"] = reason
    seq = yield from _remove(gone, detail)
    return AuditPruned(len(gone), str(detail["digest"]), seq)


def _remove(gone: Sequence[Row], detail: Mapping[str, Any]) -> Operation[int]:
    yield Statement("start_pruning", {})
    [(seq,)] = yield Statement("log_pruned", {"detail": as_json(detail)})
    numbers = [row[0] for row in gone]
    removed = yield Statement(
        "prune_audit",
        {
            "gone": Rows.of(("seq",), [(number,) for number in numbers]),
            "first": min(numbers),
            "last": max(numbers),
            "event": seq,
        },
    )
    yield Statement("end_pruning", {})
    if len(removed) != len(numbers):
        raise AuditBroken(
            f"{len(numbers)} rows were to be removed, but the audit has {len(removed)} of them; "
            "run onward audit verify"
        )
    return int(seq)
