"""Schemas on the test server: clean ones, which tests take turns with, and ones that are made anew."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import psycopg
from psycopg import sql
from psycopg.types.json import Jsonb

from onward.stores.postgres.sync.postgres_store import PostgresStore

__all__ = ["clean_schema", "close_schemas", "fill", "fresh_schema"]


@contextmanager
def fresh_schema(url: str) -> Iterator[PostgresStore]:
    """A store on tables that are made for it and dropped afterwards: for plans, sizes and the schema."""
    schema = f"t_{uuid4().hex[:12]}"
    store = PostgresStore(url, schema=schema)
    store.migrate()
    try:
        yield store
    finally:
        store.close()
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(f"DROP SCHEMA {schema} CASCADE")


@contextmanager
def clean_schema(url: str) -> Iterator[PostgresStore]:
    """A store on empty tables that no other test uses meanwhile; a hundredth of a fresh schema's cost.

    The database is that of the fixture `postgres_url`, which calls `close_schemas`.
    """
    if url not in _shelves:
        _shelves[url] = _Shelf(url)
    shelf = _shelves[url]
    schema = shelf.take()
    store = PostgresStore(url, schema=schema.name)
    try:
        yield store
    finally:
        store.close()
        shelf.used.append(schema)


def close_schemas(url: str) -> None:
    """Close what `clean_schema` keeps open on a database."""
    if url in _shelves:
        _shelves.pop(url).connection.close()


# What tests change besides rows: a schema that differs in any of it is not used again.
_SHAPE = """
SELECT
    (SELECT array_agg(concat_ws(' ', oid, relname, relrowsecurity, relforcerowsecurity, reloptions, relacl)
        ORDER BY oid)
        FROM pg_class WHERE relnamespace = one.oid),
    (SELECT array_agg(concat_ws(' ', attrelid, attname, atttypid, attnotnull, attisdropped)
        ORDER BY attrelid, attnum)
        FROM pg_attribute JOIN pg_class ON pg_class.oid = attrelid
        WHERE relnamespace = one.oid AND attnum > 0),
    (SELECT array_agg(concat_ws(' ', tgrelid, tgname, tgenabled) ORDER BY tgrelid, tgname)
        FROM pg_trigger JOIN pg_class ON pg_class.oid = tgrelid WHERE relnamespace = one.oid),
    (SELECT array_agg(concat_ws(' ', oid, xmin) ORDER BY oid) FROM pg_proc WHERE pronamespace = one.oid),
    (SELECT array_agg(concat_ws(' ', oid, xmin) ORDER BY oid)
        FROM pg_constraint WHERE connamespace = one.oid),
    (SELECT array_agg(concat_ws(' ', pg_policy.oid, pg_policy.xmin) ORDER BY pg_policy.oid)
        FROM pg_policy JOIN pg_class ON pg_class.oid = polrelid WHERE relnamespace = one.oid),
    (SELECT count(*) FROM pg_statistic JOIN pg_class ON pg_class.oid = starelid WHERE relnamespace = one.oid),
    one.nspacl
FROM pg_namespace AS one
WHERE nspname = %s
"""
_WRITTEN = """
SELECT relname, pg_relation_size(oid) > 1000000 FROM pg_class
WHERE relnamespace = to_regnamespace(%s) AND relkind = 'r' AND pg_relation_size(oid) > 0
"""
_RESTART = """
SELECT setval(oid, 1, false) FROM pg_class WHERE relnamespace = to_regnamespace({}) AND relkind = 'S';
"""
_SEED = """
INSERT INTO {table} OVERRIDING SYSTEM VALUE
SELECT * FROM jsonb_populate_recordset(CAST(NULL AS {table}), {rows});
"""
_SPARE = 4


@dataclass(frozen=True)
class _Schema:
    """A migrated schema: what it looks like, and the SQL of the rows that its migrations wrote."""

    name: str
    shape: Any
    seed: sql.Composable


class _Shelf:
    """The schemas of a database that tests take turns with.

    One is cleaned when it is taken, some tests after its last use: what a killed process had already sent to
    the server is removed as well.
    """

    def __init__(self, url: str) -> None:
        self.url = url
        self.connection = psycopg.connect(url, autocommit=True)
        # Without triggers: those of the audit refuse every removal.
        self.connection.execute("SET session_replication_role = replica")
        self.used: deque[_Schema] = deque()
        self._made = 0

    def take(self) -> _Schema:
        """Return a clean schema: the one that was used longest ago, or another one while they are few."""
        if len(self.used) < _SPARE:
            self._made += 1
            return self._make(f"clean_{self._made}")
        schema = self.used.popleft()
        if self._shape(schema.name) == schema.shape:
            self._empty(schema)
            return schema
        self.connection.execute(f"DROP SCHEMA IF EXISTS {schema.name} CASCADE")
        return self._make(schema.name)

    def _make(self, name: str) -> _Schema:
        store = PostgresStore(self.url, schema=name)
        store.migrate()
        store.close()
        return _Schema(name, self._shape(name), self._seed(name))

    def _shape(self, name: str) -> Any:
        return self.connection.execute(_SHAPE, (name,)).fetchone()

    def _seed(self, name: str) -> sql.Composable:
        parts = [sql.SQL(_RESTART).format(name)]
        for table, _ in self._written(name):
            rows = self.connection.execute(
                sql.SQL("SELECT jsonb_agg(to_jsonb(one)) FROM {} AS one").format(table)
            ).fetchone()
            parts.append(sql.SQL(_SEED).format(table=table, rows=Jsonb(rows[0])))
        return sql.Composed(parts)

    def _empty(self, schema: _Schema) -> None:
        """Remove what was written. For few rows TRUNCATE takes longer: it makes every file anew."""
        parts = [
            sql.SQL("TRUNCATE {};" if large else "DELETE FROM {};").format(table)
            for table, large in self._written(schema.name)
        ]
        self.connection.execute(sql.Composed([*parts, schema.seed]))

    def _written(self, name: str) -> list[tuple[sql.Identifier, bool]]:
        found = self.connection.execute(_WRITTEN, (name,)).fetchall()
        return [(sql.Identifier(name, table), large) for table, large in found]


_shelves: dict[str, _Shelf] = {}


FILL = """
INSERT INTO {schema}live
    (id, job_type, queue, category, state, priority, run_at, max_attempts, payload, created_at)
SELECT
    gen_random_uuid(), 'fill', 'q:default', 'default', '{state}', 5, now() + interval '{due}', 5, '{{}}',
    now()
FROM generate_series(1, {count})
"""


def fill(
    connection: psycopg.Connection,
    store: PostgresStore,
    count: int,
    *,
    state: str = "queued",
    due: str = "0 s",
) -> None:
    """Put many jobs of one state straight into the table."""
    connection.execute(FILL.format(schema=store.prefix, state=state, due=due, count=count).encode())
