"""Pages of listings, and the cursors by which the next page is asked for.

A cursor is opaque to callers. It holds the name of its listing, so that the cursor of another listing is
refused, and the position after which the next page begins.
"""

from __future__ import annotations

import binascii
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from typing import Annotated, Any, Generic, TypeVar, overload

import msgspec
from msgspec import Meta

from onward.core.jobs.ids import is_id
from onward.errors import InvalidSetting

T = TypeVar("T")

MOST_PER_PAGE = 1000

PageSize = Annotated[int, Meta(ge=1, le=MOST_PER_PAGE)]
"""How many items a page has at most."""

Cursor = Annotated[str, Meta(extra_json_schema={"format": "cursor"})]
"""The `next_cursor` of an earlier page of the same listing."""

# Keys and org ids of the greatest length, with each character escaped, and in base64.
_LONGEST = 16_384
_INTEGERS = range(-(1 << 63), 1 << 63)


class Page(msgspec.Struct, Generic[T], frozen=True):
    """A part of a listing, and the cursor of the next part, which is None on the last page.

    It can be read like a sequence: `for item in page`, `len(page)`, `page[0]`. A listing with conditions that
    no index serves looks only at a bounded number of items for each page. If it stopped because of that,
    `searched_to` is the time up to which it has looked; the page may then have few items, or none, and the
    next page looks on from there.
    """

    items: Sequence[T]
    next_cursor: Cursor | None = None
    searched_to: datetime | None = None

    def __iter__(self) -> Iterator[T]:
        """Iterate over the items of this page."""
        return iter(self.items)

    def __len__(self) -> int:
        """Return the number of items on this page."""
        return len(self.items)

    def __contains__(self, item: object) -> bool:
        """Whether this page has the item."""
        return item in self.items

    @overload
    def __getitem__(self, place: int) -> T: ...

    @overload
    def __getitem__(self, place: slice) -> Sequence[T]: ...

    def __getitem__(self, place: int | slice) -> T | Sequence[T]:
        """Return the item at a place of this page."""
        return self.items[place]


def make_cursor(listing: str, *position: str | int) -> Cursor:
    """Return the cursor of the page that begins after this position."""
    return urlsafe_b64encode(msgspec.json.encode([listing, *position])).decode().rstrip("=")


def cut(
    listing: str, items: Sequence[T], limit: int, position: Callable[[T], tuple[str | int, ...]]
) -> Page[T]:
    """Return the first `limit` items, with a cursor after the last one if there are more."""
    if len(items) <= limit:
        return Page(items)
    return Page(items[:limit], make_cursor(listing, *position(items[limit - 1])))


def read_cursor(listing: str, cursor: Cursor, *kinds: type[str | int]) -> list[Any]:
    """Return the position in a cursor; raise InvalidSetting for one that `listing` did not make."""
    named, *position = _decoded(cursor)
    fits = named == listing and len(position) == len(kinds)
    if not fits or not all(map(_is_part, position, kinds)):
        raise _refused(cursor)
    return position


def read_id_cursor(listing: str, cursor: Cursor | None) -> str | None:
    """Return the id in a cursor of a listing that is ordered by ids; None without a cursor."""
    if cursor is None:
        return None
    [position] = read_cursor(listing, cursor, str)
    if not is_id(position):
        raise _refused(cursor)
    return str(position)


def _decoded(cursor: Any) -> list[Any]:
    if not isinstance(cursor, str) or len(cursor) > _LONGEST:
        raise _refused(cursor)
    try:
        found = msgspec.json.decode(urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
    except (binascii.Error, ValueError):
        raise _refused(cursor) from None
    if not isinstance(found, list) or not found:
        raise _refused(cursor)
    return found


def _is_part(part: Any, kind: type) -> bool:
    if type(part) is not kind:
        return False
    return "\0" not in part if isinstance(part, str) else part in _INTEGERS


def _refused(cursor: object) -> InvalidSetting:
    return InvalidSetting(f"cursor is {cursor!r:.80}; give the next_cursor of a page of the same listing")
