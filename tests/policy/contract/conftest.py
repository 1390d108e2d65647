"""Applications with policies, each on empty tables of its own, once for each database."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from onward import Onward
from tests.stores.postgres.postgres_schema import clean_schema
from tests.stores.sqlite.using_sqlite import clean_file

ORG = "0190a8c0-1111-7000-8000-000000000001"
OTHER = "0190a8c0-2222-7000-8000-000000000002"
PROJECT = "0190a8c0-3333-7000-8000-000000000003"

MakeApp = Callable[..., Onward]


@pytest.fixture(params=["sqlite", "postgres"])
def make_app(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[MakeApp]:
    """Give a function that makes an application with settings; all of a test share their tables."""
    with ExitStack() as stack:
        if request.param == "sqlite":
            url, schema = clean_file(tmp_path), "onward"
        else:
            url = request.getfixturevalue("postgres_url")
            schema = stack.enter_context(clean_schema(url)).prefix.rstrip(".")

        def make(**settings: Any) -> Onward:
            app = Onward(url, schema=schema, **settings)
            stack.callback(app.close)
            return app

        yield make


@pytest.fixture
def strict(make_app: MakeApp) -> Onward:
    """An application in the strict profile."""
    return make_app(profile="strict")


@pytest.fixture
def origin() -> dict[str, Any]:
    """What the strict profile asks of a job, as `app.context()` takes it."""
    return {"org_id": ORG, "project_id": PROJECT, "actor": "user:42", "request_id": "r-1"}
