"""What every test may ask for: one PostgreSQL server for the run, a database for each of its processes."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from onward import Client, Onward
from tests.apps import fresh_app
from tests.extent import FULL
from tests.postgres import PostgresServer, fresh_database, start_postgres
from tests.stores.postgres.postgres_schema import clean_schema, close_schemas
from tests.stores.sqlite.using_sqlite import clean_file

SERVER = pytest.StashKey[PostgresServer]()

# A machine that is busy with other work makes inputs slowly: that tells nothing about the code.
settings.register_profile(
    "onward",
    max_examples=100 if FULL else 40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("onward")


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node) -> None:
    """Give each xdist worker the address of the one server."""
    node.workerinput["postgres_server_url"] = find_server(node.config)


def pytest_unconfigure(config: pytest.Config) -> None:
    """Stop the server after the last test."""
    if server := config.stash.get(SERVER, None):
        server.close()


def find_server(config: pytest.Config) -> str:
    """Return the address of the run's server, started at the first call."""
    if url := os.environ.get("ONWARD_TEST_POSTGRES_URL"):
        return url
    if SERVER not in config.stash:
        config.stash[SERVER] = start_postgres()
    return config.stash[SERVER].url()


@pytest.fixture(scope="session")
def postgres_server_url(pytestconfig: pytest.Config) -> str:
    """The run's PostgreSQL server; create databases there, leave its own alone."""
    inherited = getattr(pytestconfig, "workerinput", {}).get("postgres_server_url")
    return inherited or find_server(pytestconfig)


@pytest.fixture(scope="session")
def postgres_url(postgres_server_url: str, worker_id: str) -> Iterator[str]:
    """An empty database for the tests of this process."""
    with fresh_database(postgres_server_url, f"onward_test_{worker_id}_{os.getpid()}") as url:
        yield url
        close_schemas(url)


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """Onward runs on asyncio."""
    return "asyncio"


@pytest.fixture(params=["sqlite", "postgres"])
def client(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Client]:
    """A client on empty tables of its own, once for each database."""
    if request.param == "sqlite":
        with Client(clean_file(tmp_path)) as client:
            yield client
    else:
        with clean_schema(request.getfixturevalue("postgres_url")) as store:
            yield Client(store=store)


@pytest.fixture(params=["sqlite", "postgres"])
def app(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Onward]:
    """An application on empty tables of its own, once for each database."""
    with fresh_app(request, tmp_path) as app:
        yield app
        app.close()
