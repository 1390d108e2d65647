"""A client on empty tables: on PostgreSQL the same ones for all tests here, emptied in between."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from onward import Client
from onward.stores.postgres.sync.postgres_store import PostgresStore
from tests.stores.postgres.postgres_schema import fresh_schema

EMPTIED = (
    "live", "ended", "attempts", "keys", "workers", "controls", "leaders", "dead_letters", "usage", "budgets",
    "breakers", "effects", "alerts", "alert_sends",
)  # fmt: skip


@pytest.fixture(scope="package")
def tables(postgres_url: str) -> Iterator[PostgresStore]:
    """Tables that take a second to make."""
    with fresh_schema(postgres_url) as store:
        yield store


@pytest.fixture
def postgres(tables: PostgresStore) -> PostgresStore:
    """The same tables, empty; the audit can't be emptied, and no finding comes from it."""
    names = ", ".join(f"{tables.prefix}{name}" for name in EMPTIED)
    with psycopg.connect(tables.url, autocommit=True) as connection:
        connection.execute(f"TRUNCATE {names}".encode())
    return tables


@pytest.fixture(params=["sqlite", "postgres"])
def client(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Client]:
    """A client, once for each database."""
    if request.param == "sqlite":
        with Client(f"sqlite:///{tmp_path}/onward.db") as client:
            yield client
    else:
        yield Client(store=request.getfixturevalue("postgres"))
