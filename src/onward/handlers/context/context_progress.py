"""Iterates for a handler, and reports how many items are done."""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Iterator
from typing import TypeVar

from onward.core.work.progress import Report, check_total, count
from onward.errors import InvalidSetting

T = TypeVar("T")

_Reports = Callable[[Report], None]


def track(
    items: Iterable[T] | AsyncIterable[T],
    total: float | None,
    report: _Reports,
    check_cancelled: Callable[[], None],
) -> Iterator[T] | AsyncIterator[T]:
    """Return an iterator of the items that reports each; an async one if the items are async."""
    total = count(items) if total is None else check_total(total)
    if isinstance(items, AsyncIterable):
        return _tracked_async(items, total, report, check_cancelled)
    if isinstance(items, Iterable):
        return _tracked(items, total, report, check_cancelled)
    raise InvalidSetting(f"ctx.progress() got {items!r:.80}, which can't be iterated over; give the items")


def _tracked(
    items: Iterable[T], total: float | None, report: _Reports, check_cancelled: Callable[[], None]
) -> Iterator[T]:
    done = 0
    report(Report(done, total))
    for item in items:
        check_cancelled()
        yield item
        # An item is done when the handler asks for the next.
        done += 1
        report(Report(done, total))


async def _tracked_async(
    items: AsyncIterable[T], total: float | None, report: _Reports, check_cancelled: Callable[[], None]
) -> AsyncIterator[T]:
    done = 0
    report(Report(done, total))
    async for item in items:
        check_cancelled()
        yield item
        done += 1
        report(Report(done, total))
