"""The sizes of a database, its tables and its indexes, how much of each is unused, and how to reclaim it."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import ClassVar

import msgspec

_PAGE_SHARE = 0.9
_ROW_BYTES = 28
_ENTRY_BYTES = 16
_WORTHWHILE = 32 * 2**20
_BLOATED = 0.5
_MANY_DEAD = 10_000
_DEAD_SHARE = 0.2
_OLD_AGE = 1_000_000_000
_VACUUM_OVERDUE = timedelta(days=1)


class TableSize(msgspec.Struct, frozen=True, kw_only=True):
    """The size of a PostgreSQL table, by the statistics of its last ANALYZE."""

    DERIVED: ClassVar = ("bloat",)

    name: str
    bytes: int
    """Includes its indexes and its TOAST table."""
    heap_bytes: int
    live_rows: int
    dead_rows: int
    row_bytes: int | None
    """The average width of a row; None before the first ANALYZE."""
    fill: int = 100
    vacuumed_at: datetime | None = None
    analyzed_at: datetime | None = None

    @property
    def bloat(self) -> float | None:
        """The estimated empty share of its pages; None before the first ANALYZE."""
        if self.row_bytes is None or not self.heap_bytes:
            return None
        needed = self.live_rows * (self.row_bytes + _ROW_BYTES) / (self.fill / 100)
        return max(0.0, 1 - needed / self.heap_bytes)


class IndexSize(msgspec.Struct, frozen=True, kw_only=True):
    """The size of a PostgreSQL index."""

    DERIVED: ClassVar = ("bloat",)

    name: str
    table: str
    bytes: int
    entries: int
    key_bytes: int | None

    @property
    def bloat(self) -> float | None:
        """The estimated empty share of a B-tree; None before the first ANALYZE."""
        if self.key_bytes is None or not self.bytes:
            return None
        needed = self.entries * (self.key_bytes + _ENTRY_BYTES) / _PAGE_SHARE
        return max(0.0, 1 - needed / self.bytes)


class FileSize(msgspec.Struct, frozen=True, kw_only=True):
    """The size of the whole database; for SQLite also the free part of its file, and its write-ahead log."""

    bytes: int
    free_bytes: int = 0
    log_bytes: int = 0
    oldest_transaction: int | None = None
    """On PostgreSQL: the age of the oldest row that is not frozen, in transactions."""
    held_back: int | None = None
    """On PostgreSQL: the age of the oldest snapshot that is still in use, in transactions."""


class Advice(msgspec.Struct, frozen=True):
    """A recommended action, and the SQL statement for it."""

    what: str
    sql: str


class SizeReport(msgspec.Struct, frozen=True, kw_only=True):
    """The sizes of the tables, the largest first, and what to do about them."""

    file: FileSize
    tables: tuple[TableSize, ...] = ()
    indexes: tuple[IndexSize, ...] = ()
    advice: tuple[Advice, ...] = ()


def advise(report: SizeReport, now: datetime) -> list[Advice]:
    """Return the recommended actions."""
    return [*_of_file(report.file), *_of_tables(report, now), *_of_indexes(report)]


def _of_file(file: FileSize) -> Iterator[Advice]:
    if file.free_bytes > _WORTHWHILE and file.free_bytes > _BLOATED * file.bytes:
        yield Advice(
            f"{_size(file.free_bytes)} of the file's {_size(file.bytes)} is free; new jobs will reuse it, "
            "or shrink the file while no worker runs",
            "VACUUM",
        )
    if (file.oldest_transaction or 0) > _OLD_AGE:
        yield Advice(
            f"the oldest rows have not been frozen for {file.oldest_transaction} transactions; at "
            "2 000 000 000 PostgreSQL refuses writes",
            "VACUUM (FREEZE)",
        )


def _of_tables(report: SizeReport, now: datetime) -> Iterator[Advice]:
    for table in report.tables:
        if table.dead_rows > max(_MANY_DEAD, _DEAD_SHARE * (table.live_rows + table.dead_rows)):
            yield Advice(
                f"{table.name} has {table.dead_rows} dead rows beside {table.live_rows} live ones",
                f"VACUUM (ANALYZE) {table.name}",
            )
            if table.vacuumed_at is None or now - table.vacuumed_at > _VACUUM_OVERDUE:
                yield Advice(
                    f"autovacuum has not run on {table.name} for a day; make it run sooner",
                    f"ALTER TABLE {table.name} SET (autovacuum_vacuum_scale_factor = 0.02, "
                    "autovacuum_vacuum_cost_delay = 0)",
                )
        elif table.heap_bytes > _WORTHWHILE and (table.bloat or 0) > _BLOATED:
            yield Advice(
                f"about {table.bloat:.0%} of {table.name} ({_size(table.heap_bytes)}) is empty; new rows "
                "will reuse it, or shrink the table while no worker runs: the statement locks it",
                f"VACUUM (FULL, ANALYZE) {table.name}",
            )


def _of_indexes(report: SizeReport) -> Iterator[Advice]:
    for index in report.indexes:
        if index.bytes > _WORTHWHILE and (index.bloat or 0) > _BLOATED:
            yield Advice(
                f"about {index.bloat:.0%} of {index.name} ({_size(index.bytes)}) is empty; it can be rebuilt "
                "while the workers run",
                f"REINDEX INDEX CONCURRENTLY {index.name}",
            )


def _size(amount: int) -> str:
    return f"{amount / 2**30:.1f} GiB" if amount >= 2**30 else f"{amount / 2**20:.0f} MiB"
