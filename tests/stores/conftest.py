"""A SQLite store of the test's own, in a file that is not there yet."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from onward.stores.sqlite.sqlite_store import SqliteStore
from tests.stores.sqlite.using_sqlite import opened


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "onward.db"


@pytest.fixture
def store(path: Path) -> Iterator[SqliteStore]:
    with opened(path) as store:
        yield store
