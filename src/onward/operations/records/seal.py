"""Seal the audit into its hash chain, read the chain back, and remove old rows.

Rows are sealed a moment after they were written: a chain extended by every insert would make all writers wait
for each other. One process at a time seals or prunes: both lock the row that has the head of the chain.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from onward.core.inputs.checks import whole
from onward.core.inputs.fields import check_reason
from onward.core.records.chain import AuditPruned, ChainLink, Head, Sealed, digest_of, digest_of_all, links
from onward.errors import AuditBroken
from onward.operations.statement import Operation, Row, Rows, Statement, as_json, moment

MOST_PRUNED = 100_000

_AT_ONCE = 5_000
_WIDTH = 50_000
LINK = ("position", "seq", "digest", "link")
_SETTLED_MICROS = 10_000_000


@dataclass(frozen=True, slots=True)
class _State:
    """The head, the floor, and what an earlier pass saw: a number, and which transactions were open."""

    floor: int
    position: int
    link: str
    seen_seq: int | None
    seen_xmax: int | None
    seen_at: int | None
    now: int
    xmin: int | None
    xmax: int | None

    @property
    def is_settled(self) -> bool:
        """Whether all transactions that could have drawn a number up to `seen_seq` are over and visible."""
        if self.seen_xmax is None or self.seen_at is None or self.xmin is None:
            return False
        # A number is drawn a moment before its transaction has an id; that moment must have passed, too.
        return self.xmin >= self.seen_xmax and self.now - self.seen_at >= _SETTLED_MICROS


def seal(above: int | None = None, *, limit: int = _AT_ONCE) -> Operation[Sealed]:
    """Add rows to the chain that are not in it yet; `above` continues where the last call stopped.

    A row that commits late, after a row with a higher number was sealed, is added later: the chain is in the
    order of sealing. Needs a transaction on PostgreSQL.
    """
    # Read before the snapshot: every row with a number up to this one was begun before it.
    [(last,)] = yield Statement("last_audit", {})
    state = yield from _lock()
    start = state.floor if above is None else max(above, state.floor)
    rows, upto = yield from _find_unsealed(start, last, limit)
    head = yield from _add(Head(state.position, state.link), rows)
    floor = yield from _move_head(state, head, start, upto)
    return Sealed(len(rows), head, floor, upto, upto >= last)


def end() -> Operation[Sealed]:
    """Return where the chain ends, without adding to it."""
    state = yield from _lock()
    return Sealed(0, Head(state.position, state.link), state.floor, state.floor, done=True)


def _lock() -> Operation[_State]:
    rows = yield Statement("lock_sealing", {})
    if not rows:
        raise AuditBroken(
            "the row that tells where the chain ends is gone: somebody removed it from the table sealing; "
            "put it back as it was, from a backup or with the head of an earlier verification"
        )
    floor, *others = rows[0]
    # No row has a number below one, so a floor below zero was written to hide rows.
    return _State(max(0, floor), *others)


def _find_unsealed(start: int, last: int, limit: int) -> Operation[tuple[list[Row], int]]:
    """Return rows that are not in the chain, and the number up to which there are no others."""
    rows: list[Row] = []
    while start < last and len(rows) < limit:
        left = limit - len(rows)
        upto = min(start + _WIDTH, last)
        found = yield Statement("find_unsealed", {"above": start, "upto": upto, "limit": left})
        rows += found
        start = upto if len(found) < left else int(found[-1][0])
    return rows, start


def _add(head: Head, rows: Sequence[Row]) -> Operation[Head]:
    if not rows:
        return head
    made = list(links(head, rows))
    values = [(link.position, link.seq, link.digest, link.link) for link in made]
    added = yield Statement("seal_audit", {"links": Rows.of(LINK, values)})
    if len(added) < len(made):
        raise AuditBroken(
            f"the chain has links after position {head.position}, where it should end; nothing was sealed"
        )
    return Head(made[-1].position, made[-1].link)


def _move_head(state: _State, head: Head, start: int, upto: int) -> Operation[int]:
    """Write the new head, and raise the floor as far as no row can appear below it any more."""
    floor, seen = state.floor, (state.seen_seq, state.seen_xmax, state.seen_at)
    from_floor = start == state.floor
    if state.xmax is None:
        # SQLite has one writer: every row with a number is visible.
        floor = upto if from_floor else floor
    elif state.is_settled and from_floor and upto >= (state.seen_seq or 0):
        floor, seen = max(floor, state.seen_seq or 0), (None, None, None)
    if state.xmax is not None and seen[0] is None and upto > floor:
        seen = (upto, state.xmax, state.now)
    if (floor, head.position, seen[0]) != (state.floor, state.position, state.seen_seq):
        yield Statement(
            "move_head",
            {
                "floor": floor,
                "position": head.position,
                "link": head.link,
                "seen_seq": seen[0],
                "seen_xmax": seen[1],
                "seen_at": seen[2],
            },
        )
    return floor


def read_links(above: int, limit: int = 1000) -> Operation[list[tuple[ChainLink, Row | None]]]:
    """Read the next links of the chain, each with its row."""
    [(first, last, upto)] = yield Statement("find_links", {"above": above, "limit": limit})
    if upto is None:
        return []
    rows = yield Statement("read_links", {"above": above, "upto": upto, "first": first, "last": last})
    size = len(LINK) + 1
    return [(ChainLink(*row[:size]), None if row[size] is None else row[size:]) for row in rows]


def last_number() -> Operation[int]:
    """Return the highest number that a row was given."""
    [(last,)] = yield Statement("last_audit", {})
    return int(last)


def strays(above: int, upto: int, limit: int = 100) -> Operation[list[int]]:
    """Return rows below the floor that are not in the chain: no transaction can have written them in time."""
    rows = yield Statement("find_unsealed", {"above": above, "upto": upto, "limit": limit})
    return [int(row[0]) for row in rows]


def prune(
    cutoffs: Mapping[datetime, Sequence[str]],
    known: Sequence[str],
    *,
    limit: int = 10_000,
    reason: str | None = None,
) -> Operation[AuditPruned]:
    """Remove rows older than their category's cutoff, and write an event that accounts for them.

    Needs a transaction on PostgreSQL. Where there is a chain, only rows in it are removed, and marked there.
    """
    whole("limit", limit, 1, MOST_PRUNED)
    if reason is not None:
        reason = check_reason(reason)
    state = yield from _lock()
    chained = state.position > 0
    rows: list[Row] = []
    for before, categories in cutoffs.items():
        named = {"known": as_json(sorted(known)), "categories": as_json(sorted(categories))}
        asked = {"before": moment(before), "chained": int(chained), "limit": limit - len(rows)}
        if asked["limit"]:
            rows += yield Statement("find_prunable", {**named, **asked})
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
    seq = yield from _remove(gone, detail, {})
    return AuditPruned(len(gone), str(detail["digest"]), seq)


def _remove(
    gone: Sequence[Row], detail: Mapping[str, Any], actor: Mapping[str, str | None]
) -> Operation[int]:
    yield Statement("start_pruning", {})
    [(seq,)] = yield Statement("log_pruned", {**actor, "detail": as_json(detail)})
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
        raise AuditBroken(f"{len(numbers)} rows were to be removed, and {len(removed)} were there")
    return int(seq)
