"""A client on empty tables, and the store of those on PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from onward import Client
from onward.stores.postgres.sync.postgres_store import PostgresStore
from tests.stores.postgres.postgres_schema import clean_schema
from tests.stores.sqlite.using_sqlite import clean_file


@pytest.fixture
def postgres(postgres_url: str) -> Iterator[PostgresStore]:
    """Empty tables."""
    with clean_schema(postgres_url) as store:
        yield store


@pytest.fixture(params=["sqlite", "postgres"])
def client(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Client]:
    """A client, once for each database."""
    if request.param == "sqlite":
        with Client(clean_file(tmp_path)) as client:
            yield client
    else:
        yield Client(store=request.getfixturevalue("postgres"))
