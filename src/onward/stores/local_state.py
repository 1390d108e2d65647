"""Report what this process knows of a store without querying its database."""

from __future__ import annotations

from dataclasses import dataclass

from onward.stores.sqlite.sqlite_store import AsyncSqliteStore, SqliteStore


@dataclass(frozen=True, slots=True)
class Condition:
    """The file of a SQLite store and the size of its log, or whether PostgreSQL is behind a pooler."""

    path: str | None = None
    exists: bool = True
    log_bytes: int = 0
    pooler: bool = False


def condition_of(store: object) -> Condition:
    """Return the condition of a store; open no connection and create no file."""
    if isinstance(store, SqliteStore | AsyncSqliteStore):
        file = store.file
        return Condition(str(file.path), file.path.exists(), file.log_size())
    return Condition(pooler=bool(getattr(store, "pooler", False)))
