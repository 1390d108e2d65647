"""A worker that is there for all tests of dead letters."""

from __future__ import annotations

from datetime import timedelta

import pytest

from onward import Client
from tests.cli.conftest import folder, onward  # noqa: F401 - fixtures
from tests.work.leases.dying_processes import T


@pytest.fixture
def client(client: Client) -> Client:
    client.at(T).worker.register("w", lease=timedelta(days=3650))
    return client
