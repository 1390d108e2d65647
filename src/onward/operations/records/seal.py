"""Seal the audit into its hash chain.

Rows are sealed a moment after they were written: a chain extended by every insert would make all writers wait
for each other. One process at a time seals or prunes: both lock the row that holds the head of the chain.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from msgspec.structs import replace

from onward.core.records.chain import Head, Sealed, links
from onward.errors import AuditBroken
from onward.operations.statement import Operation, Row, Rows, Statement
from onward.operations.walk import Step, Walk

_AT_ONCE = 5_000
_WIDTH = 50_000
LINK = ("position", "seq", "digest", "link")
_VISIBLE_MICROS = 10_000_000


@dataclass(frozen=True, slots=True)
class Sealing:
    """The head and the floor of the chain, how far an earlier pass read, and the snapshot of that pass."""

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
    def is_complete(self) -> bool:
        """Whether every transaction that could have drawn a number up to `seen_seq` is over and visible."""
        if self.seen_xmax is None or self.seen_at is None or self.xmin is None:
            return False
        # A transaction may draw a number a moment before it has an id, so wait for that moment, too.
        return self.xmin >= self.seen_xmax and self.now - self.seen_at >= _VISIBLE_MICROS


def seal_all() -> Walk[Sealed]:
    """Add to the chain all rows that are not in it yet."""
    count, above = 0, None
    while True:
        sealed: Sealed = yield Step(partial(seal, above), atomic=True)
        count, above = count + sealed.count, sealed.upto
        if sealed.done:
            return replace(sealed, count=count)


def seal(above: int | None = None, *, limit: int = _AT_ONCE) -> Operation[Sealed]:
    """Add to the chain rows that are not in it yet; `above` is the `upto` of the call to be continued.

    A row that commits late, after a row with a higher number was sealed, is added later: the chain is in the
    order of sealing. Needs a transaction on PostgreSQL.
    """
    # Read before `lock` takes its snapshot, so that numbers up to this one were drawn before the snapshot.
    [(last,)] = yield Statement("last_audit", {})
    state = yield from lock()
    start = state.floor if above is None else max(above, state.floor)
    rows, upto = yield from _find_unsealed(start, last, limit)
    head = yield from _add(Head(state.position, state.link), rows)
    floor = yield from _move_head(state, head, start, upto)
    return Sealed(len(rows), head, floor, upto, upto >= last)


def end() -> Operation[Sealed]:
    """Return where the chain ends, without adding to it."""
    state = yield from lock()
    return Sealed(0, Head(state.position, state.link), state.floor, state.floor, done=True)


def lock() -> Operation[Sealing]:
    """Lock and return the row that holds the end of the chain."""
    rows = yield Statement("lock_sealing", {})
    if not rows:
        raise AuditBroken(
            "the row that holds the end of the chain is missing from the table sealing; "
            "restore it from a backup, or from the head that an earlier verification printed"
        )
    floor, *others = rows[0]
    # Numbers start at one: a negative floor was written to hide rows, since the search begins there.
    return Sealing(max(0, floor), *others)


def _find_unsealed(start: int, last: int, limit: int) -> Operation[tuple[list[Row], int]]:
    """Return rows that are not in the chain, and the number up to which the search is complete."""
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


def _move_head(state: Sealing, head: Head, start: int, upto: int) -> Operation[int]:
    """Write the new head, and raise the floor to a number up to which no more rows can appear."""
    floor, seen = state.floor, (state.seen_seq, state.seen_xmax, state.seen_at)
    from_floor = start == state.floor
    if state.xmax is None:
        # SQLite has one writer: every row with a number is visible.
        floor = upto if from_floor else floor
    elif state.is_complete and from_floor and upto >= (state.seen_seq or 0):
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
