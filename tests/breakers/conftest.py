"""A provider on loopback; an application on empty tables of its own, once for each database."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from onward import Onward
from tests.breakers.provider import Provider, provided
from tests.stores.postgres_schema import fresh_schema


@pytest.fixture
def provider() -> Iterator[Provider]:
    """A provider that answers 429 until it is told otherwise."""
    with provided() as provider:
        yield provider


@pytest.fixture(params=["sqlite", "postgres"])
async def app(request: pytest.FixtureRequest, tmp_path: Path, anyio_backend: str) -> AsyncIterator[Onward]:
    """An Onward without job types."""
    if request.param == "sqlite":
        app = Onward(f"sqlite:///{tmp_path}/onward.db")
        yield app
        await app.aclose()
    else:
        url = request.getfixturevalue("postgres_url")
        with fresh_schema(url) as store:
            app = Onward(url, schema=store.prefix.rstrip("."))
            yield app
            await app.aclose()
