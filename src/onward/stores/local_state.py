"""What this process knows of a store without asking its database."""

from __future__ import annotations

from dataclasses import dataclass

from onward.stores.sqlite.sqlite_store import AsyncSqliteStore, SqliteStore


@dataclass(frozen=True, slots=True)
class Condition:
    """The file of a SQLite store, and its log; whether a pooler was met on the way to PostgreSQL."""

    path: str | None = None
    exists: bool = True
    log_bytes: int = 0
    pooler: bool = False


def condition_of(store: object) -> Condition:
    """Look at the file, or at what was noticed when connecting; opens and makes nothing."""
    if isinstance(store, SqliteStore | AsyncSqliteStore):
        file = store.file
        return Condition(str(file.path), file.path.exists(), file.log_size())
    return Condition(pooler=bool(getattr(store, "pooler", False)))
