"""What the tests of progress share."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from onward import Onward
from onward.clients.work.worker_client import AsyncWorkerClient
from onward.core.work.progress import Report
from onward.worker.loops import reporter
from tests.apps import fresh_app


@pytest.fixture(params=["sqlite", "postgres"])
async def app(request: pytest.FixtureRequest, tmp_path: Path, anyio_backend: str) -> AsyncIterator[Onward]:
    """An Onward without job types, for an async test."""
    with fresh_app(request, tmp_path) as app:
        app.client.migrate()
        yield app
        await app.aclose()


class Seconds:
    """The second between two writes of a worker: it is over when the test says so."""

    def __init__(self) -> None:
        self.slept: list[float] = []
        self.written: list[list[Report]] = []
        self._over = asyncio.Event()

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        await self._over.wait()
        self._over.clear()

    def pass_by(self) -> None:
        self._over.set()


@pytest.fixture
def seconds(monkeypatch: pytest.MonkeyPatch, anyio_backend: str) -> Seconds:
    """A clock that the test moves, and what the worker writes meanwhile."""
    seconds = Seconds()
    store = AsyncWorkerClient.store_progress

    async def stored(self, reports):
        left = await store(self, reports)
        seconds.written.append([one.report for one in reports])
        return left

    monkeypatch.setattr(AsyncWorkerClient, "store_progress", stored)
    monkeypatch.setattr(reporter, "sleep", seconds.sleep)
    return seconds
