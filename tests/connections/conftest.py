"""The databases of the contract: both with Onward's tables, both empty when a test begins."""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pytest

from onward.connections.drivers.psycopg import PsycopgConnection
from onward.connections.drivers.sqlite import SqliteConnection
from onward.connections.run import Connection
from onward.sql.catalogue import Database
from onward.stores.migrations import read_migrations
from tests.connections.kinds import PREFIX, Address
from tests.postgres import fresh_database

TABLES = (
    "live", "ended", "keys", "attempts", "audit", "workers", "queues", "controls", "leaders", "reruns",
    "usage", "budgets",
)  # fmt: skip


@dataclass(frozen=True)
class Observer:
    """Another connection to each database: sees what was committed, and nothing else."""

    sqlite: sqlite3.Connection
    postgres: psycopg.Connection[Any]

    def connection(self, database: Database) -> Connection:
        """Give the connection to run operations on."""
        if database == "sqlite":
            return SqliteConnection(self.sqlite, PREFIX["sqlite"])
        return PsycopgConnection(self.postgres, PREFIX["postgres"])

    def rows(self, database: Database) -> dict[str, int]:
        """Count what is in every table that is not empty."""
        counts = " UNION ALL ".join(
            f"SELECT '{table}', count(*) FROM {PREFIX[database]}{table}" for table in TABLES
        )
        connection: Any = self.sqlite if database == "sqlite" else self.postgres
        return {table: count for table, count in connection.execute(counts).fetchall() if count}

    def clean(self) -> None:
        """Empty the tables of PostgreSQL; those of SQLite go with their file."""
        parts = ", ".join(f"{table}_gone AS (DELETE FROM {PREFIX['postgres']}{table})" for table in TABLES)
        # Without the triggers: the audit lets nobody delete.
        with self.postgres.transaction():
            self.postgres.execute("SET LOCAL session_replication_role = replica")
            self.postgres.execute(f"WITH {parts} SELECT".encode())


def make_tables(connection: Any, database: Database) -> None:
    """Bring the newest schema into an empty database."""
    for migration in read_migrations(database, PREFIX[database]):
        if database == "sqlite":
            connection.executescript(migration.sql)
        else:
            connection.execute(migration.sql)


@pytest.fixture(scope="session")
def sqlite_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with the tables, to be copied."""
    path = tmp_path_factory.mktemp("contract") / "template.db"
    with closing(sqlite3.connect(path)) as connection:
        make_tables(connection, "sqlite")
    return path


@pytest.fixture(scope="session")
def contract_url(postgres_server_url: str, worker_id: str) -> Iterator[str]:
    """A PostgreSQL database of the contract's own, with the tables."""
    with fresh_database(postgres_server_url, f"onward_contract_{worker_id}_{os.getpid()}") as url:
        with psycopg.connect(url) as connection:
            make_tables(connection, "postgres")
        yield url


@pytest.fixture(scope="session")
def contract_postgres(contract_url: str) -> Iterator[psycopg.Connection[Any]]:
    """A look at that database from outside, opened once."""
    with closing(psycopg.connect(contract_url, autocommit=True)) as connection:
        yield connection


@pytest.fixture
def address(contract_url: str, sqlite_template: Path, tmp_path: Path) -> Address:
    """Where the two databases of this test are."""
    return Address(Path(shutil.copy(sqlite_template, tmp_path / "app.db")), contract_url)


@pytest.fixture
def observer(address: Address, contract_postgres: psycopg.Connection[Any]) -> Iterator[Observer]:
    """Another connection to each database; empties them after the test."""
    with closing(sqlite3.connect(address.path, isolation_level=None)) as connection:
        seen = Observer(connection, contract_postgres)
        yield seen
        if seen.rows("postgres"):
            seen.clean()
