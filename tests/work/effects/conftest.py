"""What the tests of effects share."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import Any

import psycopg
import pytest

from onward import Onward
from onward.stores.sqlite.sqlite_store import SqliteStore
from tests.work.effects.effect_provider import Provider
from tests.work.effects.effect_runs import Runs


@pytest.fixture
def runs(app: Onward) -> Runs:
    """Jobs that run, once for each database."""
    return Runs(app)


@pytest.fixture
def provider() -> Iterator[Provider]:
    """A provider on loopback that honours idempotency keys."""
    with Provider() as provider:
        yield provider


@pytest.fixture
def own_connection(app: Onward) -> Callable[[], Any]:
    """A connection of the application's own with an open transaction, and its rollback."""

    @contextmanager
    def opened() -> Iterator[tuple[Any, Callable[[], None]]]:
        store = app.client.store
        connection: Any = (
            sqlite3.connect(store.file.path)
            if isinstance(store, SqliteStore)
            else psycopg.connect(str(app.clients.url))
        )
        with closing(connection):
            yield connection, connection.rollback

    return opened
