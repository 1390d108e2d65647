"""A role that owns nothing and bypasses nothing, as an application should have."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit, urlunsplit
from uuid import uuid4

import psycopg

from onward.stores.postgres.sync.postgres_store import PostgresStore

__all__ = ["plain_role", "url_of"]


@contextmanager
def plain_role(store: PostgresStore, *, rights: str | None = None) -> Iterator[PostgresStore]:
    """Protect a store's tables and give that of a new role, with Onward's own grants or with these on all."""
    role = f"app_{uuid4().hex[:12]}"
    schema = store.prefix.rstrip(".")
    store.protect_orgs(enable=True)
    with psycopg.connect(store.url, autocommit=True) as connection:
        connection.execute(f"CREATE ROLE {role} LOGIN PASSWORD 'plain' NOSUPERUSER NOBYPASSRLS")
        if rights is None:
            connection.execute(f"SELECT {schema}.grant_to('{role}')")
        else:
            connection.execute(f"GRANT USAGE ON SCHEMA {schema} TO {role}")
            connection.execute(f"GRANT {rights} ON ALL TABLES IN SCHEMA {schema} TO {role}")
    confined = PostgresStore(url_of(store.url, role), schema=schema, row_security=True)
    try:
        yield confined
    finally:
        confined.close()
        with psycopg.connect(store.url, autocommit=True) as connection:
            connection.execute(f"DROP OWNED BY {role}")
            connection.execute(f"DROP ROLE {role}")


def url_of(url: str, role: str) -> str:
    """Give the address of a database for another role."""
    parts = urlsplit(url)
    return urlunsplit(parts._replace(netloc=f"{role}:plain@{parts.netloc.rpartition('@')[2]}"))
