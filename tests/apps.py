"""Applications on empty tables of their own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from examples.categories import CATEGORIES
from onward import Client, Onward
from onward.core.policy.policies import Policies
from tests.stores.postgres.postgres_schema import clean_schema
from tests.stores.sqlite.using_sqlite import clean_file

__all__ = ["fresh_app", "with_categories"]


@contextmanager
def fresh_app(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Onward]:
    """Give an Onward without job types, on the database of a fixture's parameter; who asks closes it."""
    if request.param == "sqlite":
        yield Onward(clean_file(tmp_path))
    else:
        url = request.getfixturevalue("postgres_url")
        with clean_schema(url) as store:
            yield Onward(url, schema=store.prefix.rstrip("."))


def with_categories(client: Client) -> Client:
    """A client of the same tables that knows the categories of the examples."""
    return Client(store=client.store, policies=Policies.of(categories=CATEGORIES))
