"""Walks: work of several steps, each in a transaction of its own.

What a step has done stays done if a later step fails. A walk is a generator, as an operation is: it yields
its steps, receives the answer of each, and returns its own answer. An error of a step is raised at its
`yield`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator
from functools import partial
from typing import Any, TypeVar

import msgspec

from onward.core.bulk import MOST_AT_ONCE, Bulk
from onward.core.inputs.checks import whole_number
from onward.core.jobs.ids import JobId, normalise_id
from onward.core.page import Cursor, make_cursor, read_cursor
from onward.operations.statement import Operation

T = TypeVar("T")

_COUNTED_AT_ONCE = 10_000


class Step(msgspec.Struct, frozen=True):
    """An operation that is run in its own transaction; `atomic` if it has several statements that write."""

    make: Callable[[], Operation[Any]]
    write: bool = True
    atomic: bool = False


class Rest(msgspec.Struct, frozen=True):
    """A pause between two steps."""

    seconds: float


class Outside(msgspec.Struct, frozen=True):
    """Work outside of the database, such as the removal of files; the client calls `act`."""

    act: Callable[[], Any]


class FollowUp(msgspec.Struct, frozen=True):
    """The follow-up work of ends that were just written, if the client may do it here."""

    ids: Collection[JobId]
    permits: Collection[str] = ()


Walk = Generator[Step | Rest | Outside | FollowUp, Any, T]


def reading(make: Callable[[], Operation[Any]]) -> Step:
    """Return the step of an operation that only reads."""
    return Step(make, write=False)


class Range(msgspec.Struct, frozen=True, kw_only=True):
    """Which of the matching jobs a bulk call covers: at most `limit`, after the end of the call before."""

    listing: str
    limit: int
    cursor: Cursor | None = None

    def __post_init__(self) -> None:
        """Raise InvalidSetting for a limit out of range, or a cursor of another listing."""
        whole_number("limit", self.limit, 1, MOST_AT_ONCE)
        self.start()

    def start(self) -> tuple[JobId | None, int]:
        """Return the last job of the calls before, and how many jobs those have changed."""
        if self.cursor is None:
            return None, 0
        after, done = read_cursor(self.listing, self.cursor, str, int)
        return normalise_id(after), whole_number("cursor", done, 0, 1 << 40)


Pick = Callable[[JobId | None, int], Operation[list[JobId]]]
"""Returns the ids of the next jobs after an id, oldest first, and at most this many."""

Act = Callable[[list[JobId], int], Walk[Bulk]]
"""Changes the jobs of a page; the number is that of the jobs that were changed before them."""


def page_by_page(covered: Range, pick: Pick, act: Act, *, at_once: int) -> Walk[Bulk]:
    """Find jobs page by page, oldest first, change those of each page, and return the totals."""
    after, done = covered.start()
    total, more = Bulk(), True
    while more and total.found < covered.limit:
        size = min(at_once, covered.limit - total.found)
        found = yield reading(partial(pick, after, size + 1))
        page, more = found[:size], len(found) > size
        changed = (yield from act(page, done)) if page else Bulk()
        done += changed.done
        after = page[-1] if more else None
        cursor = None if after is None else make_cursor(covered.listing, after, done)
        total = total.joined(msgspec.structs.replace(changed, found=len(page), next_cursor=cursor))
    return total


def count(covered: Range, pick: Pick) -> Walk[Bulk]:
    """Count the jobs that `page_by_page` would find."""

    def nothing(_page: list[JobId], _done: int) -> Walk[Bulk]:
        yield from ()
        return Bulk()

    return page_by_page(covered, pick, nothing, at_once=_COUNTED_AT_ONCE)
