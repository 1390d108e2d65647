"""A schema of its own on the test server, for tests that fill tables or spoil their statistics."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from uuid import uuid4

import psycopg

from onward.stores.postgres.sync.postgres_store import PostgresStore


@contextmanager
def fresh_schema(url: str) -> Iterator[PostgresStore]:
    """A store on migrated tables that nobody else uses."""
    schema = f"t_{uuid4().hex[:12]}"
    store = PostgresStore(url, schema=schema)
    store.migrate()
    try:
        yield store
    finally:
        store.close()
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(f"DROP SCHEMA {schema} CASCADE")


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
