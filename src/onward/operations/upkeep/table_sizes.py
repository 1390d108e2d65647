"""The sizes of the tables, and the partitions in which PostgreSQL keeps ended jobs."""

from __future__ import annotations

from onward.core.jobs.job import instant
from onward.core.page import Page
from onward.core.upkeep.maintenance import Tended
from onward.core.upkeep.sizes import FileSize, IndexSize, SizeReport, TableSize
from onward.operations.statement import Operation, Statement

# Few: a query of `ended` without an id opens each partition with all its indexes, on every new connection.
_MONTHS_AHEAD = 3


def inspect_sizes() -> Operation[SizeReport]:
    """Read the sizes of the tables; counts no rows, and is quick however large the tables are."""
    [(size, free, oldest, held_back)] = yield Statement("inspect_file", {})
    tables = yield Statement("inspect_tables", {})
    indexes = yield Statement("inspect_indexes", {})
    return SizeReport(
        file=FileSize(bytes=size, free_bytes=free, oldest_transaction=oldest, held_back=held_back),
        tables=tuple(
            TableSize(
                name=name, bytes=total, heap_bytes=heap, live_rows=live, dead_rows=dead, row_bytes=width,
                fill=fill, vacuumed_at=None if vacuumed is None else instant(vacuumed),
                analyzed_at=None if analyzed is None else instant(analyzed),
            )
            for name, total, heap, live, dead, width, fill, vacuumed, analyzed in tables
        ),
        indexes=tuple(
            IndexSize(name=name, table=table, bytes=total, entries=entries, key_bytes=width)
            for name, table, total, entries, width in indexes
        ),
    )  # fmt: skip


def tend_partitions() -> Operation[Page[Tended]]:
    """Create the partitions of the next months, and drop empty ones of the past; SQLite has none."""
    rows = yield Statement("tend_partitions", {"ahead": _MONTHS_AHEAD})
    return Page([Tended(*row) for row in rows])
