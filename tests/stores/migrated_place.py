"""A place for tables that a test makes, changes and looks at by hand."""

from __future__ import annotations

import contextlib
import sqlite3
from dataclasses import dataclass
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

import psycopg

from onward.sql.catalogue import Database
from onward.stores import Store
from onward.stores.migrations import BUNDLED
from onward.stores.postgres.postgres_store import AsyncPostgresStore
from onward.stores.postgres.sync.postgres_store import PostgresStore
from onward.stores.sqlite.sqlite_store import AsyncSqliteStore, SqliteStore

__all__ = ["Place"]


@dataclass
class Place:
    """A database without Onward's tables, in which a test may have them."""

    database: Database
    where: str
    prefix: str

    def store(self, migrations: Traversable = BUNDLED) -> Store:
        if self.database == "sqlite":
            return SqliteStore(Path(self.where), prefix=self.prefix, migrations=migrations)
        schema = self.prefix.rstrip(".")
        return PostgresStore(self.where, schema=schema, pool_size=2, migrations=migrations)

    def async_store(self, migrations: Traversable = BUNDLED) -> Any:
        if self.database == "sqlite":
            return AsyncSqliteStore(Path(self.where), prefix=self.prefix, migrations=migrations)
        schema = self.prefix.rstrip(".")
        return AsyncPostgresStore(self.where, schema=schema, pool_size=2, migrations=migrations)

    def run(self, sql: str) -> list[tuple[Any, ...]]:
        """Run SQL by hand, as a person would."""
        if self.database == "sqlite":
            with contextlib.closing(sqlite3.connect(self.where)) as connection:
                if sql.count(";") > 1:
                    connection.executescript(sql)
                    return []
                rows = connection.execute(sql).fetchall()
                connection.commit()
                return rows
        with psycopg.connect(self.where, autocommit=True) as connection:
            cursor = connection.execute(sql.encode())
            return cursor.fetchall() if cursor.description else []

    def listing(self) -> list[tuple[Any, ...]]:
        """Every table, index, view and column that the prefix owns, by name and definition."""
        if self.database == "sqlite":
            return self.run(
                "SELECT type, name, sql FROM sqlite_master "
                f"WHERE name LIKE '{self.prefix}%' ORDER BY type, name"
            )
        schema = self.prefix.rstrip(".")
        return self.run(
            "SELECT c.relname, c.relkind, a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull,"
            " pg_get_expr(d.adbin, d.adrelid), pg_get_indexdef(c.oid) "
            "FROM pg_class AS c JOIN pg_attribute AS a ON a.attrelid = c.oid AND a.attnum > 0 "
            "LEFT JOIN pg_attrdef AS d ON d.adrelid = c.oid AND d.adnum = a.attnum "
            f"WHERE c.relnamespace = to_regnamespace('{schema}') ORDER BY c.relname, a.attnum"
        )

    def versions(self) -> list[tuple[Any, ...]]:
        return self.run(f"SELECT version, name FROM {self.prefix}migrations ORDER BY version")
