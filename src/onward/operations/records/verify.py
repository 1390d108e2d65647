"""Verify the audit: compare every row with its link in the chain, a page at a time."""

from __future__ import annotations

from functools import partial
from itertools import pairwise

from onward.core.records.chain import AuditVerified, ChainCheck, ChainLink, Fault, Head, Sealed
from onward.errors import AuditBroken
from onward.operations.records.seal import LINK, end, seal_all
from onward.operations.statement import Operation, Row, Statement
from onward.operations.walk import Step, Walk, reading

_PAGE = 1000
_STRIDE = 50_000
_LOWEST = -(2**62)
_MOST_FAULTS = 1000


class Verification:
    """A verification of the whole chain; the caller repeats `step()` until it is `done`."""

    def __init__(self, head: Head | str | None = None) -> None:
        """Begin; `head` is an earlier head of the chain that was kept elsewhere."""
        self.done = False
        self._check = ChainCheck(Head.read(head) if isinstance(head, str) else head)
        self._sealed: Sealed | None = None
        self._faults: list[Fault] = []

    def step(self) -> Walk[AuditVerified]:
        """Compare the next page of rows, and return what was found so far.

        The first step seals the rows that are not in the chain yet. The last one looks for rows that should
        be in it.
        """
        sealed = self._sealed = self._sealed or (yield from self._seal())
        page = yield reading(partial(read_links, self._check.head.position, sealed.head.position))
        self._faults += self._check.follow(page)
        self._faults += [
            Fault("inserted", "no row is given this number", link.seq, link.position)
            for link, _ in page
            if link.seq <= 0
        ]
        if not page:
            self._faults += self._check.end(sealed.head)
            self._faults += yield from _never_sealed(sealed.floor)
            self.done = True
        del self._faults[_MOST_FAULTS:]
        head = self._check.head
        return AuditVerified(head.position, sealed.head.position, head, tuple(self._faults))

    def _seal(self) -> Walk[Sealed]:
        try:
            return (yield from seal_all())
        except AuditBroken as error:
            self._faults.append(Fault("broken", str(error)))
            sealed: Sealed = yield Step(end, atomic=True)
            return sealed


def verify(head: Head | str | None = None) -> Walk[AuditVerified]:
    """Verify the whole chain."""
    verification = Verification(head)
    while True:
        found = yield from verification.step()
        if verification.done:
            return found


def read_links(above: int, last: int, limit: int = _PAGE) -> Operation[list[tuple[ChainLink, Row | None]]]:
    """Read the links after a position and up to another, each with its row: at most `limit`."""
    [(first, newest, upto)] = yield Statement("find_links", {"above": above, "upto": last, "limit": limit})
    if upto is None:
        return []
    rows = yield Statement("read_links", {"above": above, "upto": upto, "first": first, "last": newest})
    size = len(LINK) + 1
    return [(ChainLink(*row[:size]), None if row[size] is None else row[size:]) for row in rows]


def _never_sealed(floor: int) -> Walk[list[Fault]]:
    """Return the rows below the floor that are not in the chain: no transaction wrote them in time."""
    # The floor may have been raised by hand, so strides end at the last number that was given out.
    last = min(floor, (yield reading(_last_number)))
    bounds = sorted({_LOWEST, *range(0, last, _STRIDE), last, floor})
    found: list[int] = []
    for above, upto in pairwise(bounds):
        found += yield reading(partial(_unsealed, above, upto))
    return [Fault("inserted", "the row was never sealed, and came too late to be", seq) for seq in found]


def _last_number() -> Operation[int]:
    [(last,)] = yield Statement("last_audit", {})
    return int(last)


def _unsealed(above: int, upto: int, limit: int = 100) -> Operation[list[int]]:
    rows = yield Statement("find_unsealed", {"above": above, "upto": upto, "limit": limit})
    return [int(row[0]) for row in rows]
