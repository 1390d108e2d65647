"""`onward migrate --row-security`: turns the protection of orgs on and off."""

from __future__ import annotations

import os
from collections.abc import Iterator

import psycopg
import pytest

from tests.cli.conftest import folder, onward
from tests.postgres import fresh_database

__all__ = ["folder", "onward"]


@pytest.fixture
def url(postgres_server_url: str, worker_id: str) -> Iterator[str]:
    with fresh_database(postgres_server_url, f"onward_tenancy_{worker_id}_{os.getpid()}") as url:
        yield url


def is_on(url: str) -> bool:
    with psycopg.connect(url) as connection:
        query = "SELECT relrowsecurity FROM pg_class WHERE oid = 'onward.live'::regclass"
        return connection.execute(query).fetchone() == (True,)


def test_row_security_is_turned_on_kept_and_turned_off(onward, url):
    on = onward("migrate", "--row-security", "--url", url)
    assert on.code == 0
    assert on.err.endswith("row-level security is on\n")
    assert onward("migrate", "--url", url).code == 0
    assert is_on(url), "what says nothing changes nothing"
    off = onward("migrate", "--no-row-security", "--url", url)
    assert off.err.endswith("row-level security is off\n")
    assert not is_on(url)


def test_it_is_refused_on_sqlite_and_with_what_changes_nothing(onward, folder):
    refused = onward("migrate", "--row-security", "--url", f"sqlite:///{folder}/onward.db")
    assert refused.code == 2
    assert "this is SQLite" in refused.err
    assert onward("migrate", "--plan", "--row-security").code == 2
