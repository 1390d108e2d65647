"""A provider on loopback; an application on empty tables of its own, once for each database."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from onward import Onward
from tests.apps import fresh_app
from tests.failures.breakers.breaker_provider import Provider, provided


@pytest.fixture
def provider() -> Iterator[Provider]:
    """A provider that answers 429 until it is told otherwise."""
    with provided() as provider:
        yield provider


@pytest.fixture(params=["sqlite", "postgres"])
async def app(request: pytest.FixtureRequest, tmp_path: Path, anyio_backend: str) -> AsyncIterator[Onward]:
    """An Onward without job types."""
    with fresh_app(request, tmp_path) as app:
        yield app
        await app.aclose()
