"""An application on empty tables of its own, once for each database."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from onward import Onward
from tests.apps import fresh_app


@pytest.fixture(params=["sqlite", "postgres"])
async def served(request: pytest.FixtureRequest, tmp_path: Path, anyio_backend: str) -> AsyncIterator[Onward]:
    """An Onward without job types, for workers in the test's own loop."""
    with fresh_app(request, tmp_path) as app:
        yield app
        await app.aclose()
