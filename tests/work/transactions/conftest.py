"""An application with a table of its own, once for each database."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from onward import Onward
from tests.apps import fresh_app
from tests.work.transactions.books import Books


@pytest.fixture(params=["sqlite", "postgres"])
async def app(request: pytest.FixtureRequest, tmp_path: Path, anyio_backend: str) -> AsyncIterator[Onward]:
    """An Onward without job types."""
    with fresh_app(request, tmp_path) as app:
        app.client.migrate()
        yield app
        await app.aclose()


@pytest.fixture
def books(app: Onward) -> Books:
    """Its table."""
    books = Books(app)
    books.create()
    return books
