"""An application with a table of its own, once for each database."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from onward import Onward
from tests.stores.postgres_schema import fresh_schema
from tests.transactions.books import Books


@pytest.fixture(params=["sqlite", "postgres"])
async def app(request: pytest.FixtureRequest, tmp_path: Path, anyio_backend: str) -> AsyncIterator[Onward]:
    """An Onward without job types."""
    if request.param == "sqlite":
        app = Onward(f"sqlite:///{tmp_path}/onward.db")
        app.client.migrate()
        yield app
        app.close()
        await app.aclose()
    else:
        url = request.getfixturevalue("postgres_url")
        with fresh_schema(url) as store:
            app = Onward(url, schema=store.prefix.rstrip("."))
            yield app
            app.close()
            await app.aclose()


@pytest.fixture
def books(app: Onward) -> Books:
    """Its table."""
    books = Books(app)
    books.create()
    return books
