"""What a call that changes many things found and did."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

import msgspec
from msgspec import Meta

from onward.core.page import Cursor

MOST_AT_ONCE = 1_000_000

BulkLimit = Annotated[int, Meta(ge=1, le=MOST_AT_ONCE)]
"""How many things one call changes at most."""


class Bulk(msgspec.Struct, frozen=True, kw_only=True):
    """How many things a call found and changed, and why it refused the others.

    Of those `done`, `pending` are jobs that still run: they were asked to stop, and end when their handlers
    give way. `next_cursor` is where to continue; None means that nothing was left.
    """

    found: int = 0
    done: int = 0
    pending: int = 0
    refused: Mapping[str, str] = {}
    next_cursor: Cursor | None = None

    def joined(self, later: Bulk) -> Bulk:
        """Add what was found and done afterwards."""
        return Bulk(
            found=self.found + later.found,
            done=self.done + later.done,
            pending=self.pending + later.pending,
            refused={**self.refused, **later.refused},
            next_cursor=later.next_cursor,
        )


class Changed(msgspec.Struct, frozen=True):
    """Whether a call changed anything; it is true in a condition if it did."""

    changed: bool

    def __bool__(self) -> bool:
        """Whether anything changed."""
        return self.changed
