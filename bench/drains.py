"""A worker drains no-op jobs, in one process and two, beside the limit of the database; the CPU it takes."""

from __future__ import annotations

import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import psycopg

from bench import limits
from bench.children import ONWARD, Drain, drain
from bench.measuring import Measure, fresh_store
from bench.sizes import Sizes
from onward.client import Client
from onward.core.job import NewJob
from onward.core.rules import AuditLevel, Rules
from onward.stores.postgres import PostgresStore
from onward.stores.sqlite import SqliteStore

__all__ = ["drained", "fill_noops", "filled", "postgres", "sqlite", "unfinished"]


def postgres(url: str, sizes: Sizes) -> Iterator[Measure]:
    jobs = sizes.drained
    with filled(url, jobs) as store:
        limit = limits.postgres(store, jobs)
    with filled(url, jobs) as store:
        one = drained(store, jobs)
    with filled(url, jobs) as store:
        two = drained(store, jobs, processes=2)
    yield Measure("postgres: drain, by our statements in the server", "jobs/s", one.rate, limit, ">= 0.7")
    yield Measure("postgres: drain by 2 processes, by 1", "jobs/s", two.rate, one.rate, ">= 1")
    yield Measure("postgres: CPU of the worker for a no-op job", "µs", one.cpu_micros, 0, "<= 20 µs")


def sqlite(_url: str, sizes: Sizes) -> Iterator[Measure]:
    jobs = sizes.drained
    with filled_file(jobs) as path:
        limit = limits.sqlite(path, jobs)
    found = []
    for processes in (1, 2):
        with filled_file(jobs) as path:
            found.append(drain(ONWARD(f"sqlite:///{path}"), jobs, left_in(path), processes))
    one, two = found
    yield Measure("sqlite: drain, by our operations without worker", "jobs/s", one.rate, limit, ">= 0.7")
    yield Measure("sqlite: drain by 2 processes, by 1", "jobs/s", two.rate, one.rate, "")
    yield Measure("sqlite: CPU of the worker for a no-op job", "µs", one.cpu_micros, 0, "")


def drained(store: PostgresStore, jobs: int, processes: int = 1) -> Drain:
    """Have a filled store drained by workers of their own processes."""
    return drain(ONWARD(store.url, schema=store.prefix.rstrip(".")), jobs, unfinished(store), processes)


def unfinished(store: PostgresStore) -> Callable[[], int]:
    def count() -> int:
        with psycopg.connect(store.url, autocommit=True) as connection:
            row = connection.execute(f"SELECT count(*) FROM {store.prefix}live".encode()).fetchone()
            assert row
            return int(row[0])

    return count


def left_in(path: Path) -> Callable[[], int]:
    def count() -> int:
        with closing(sqlite3.connect(path)) as connection:
            return int(connection.execute("SELECT count(*) FROM onward_live").fetchone()[0])

    return count


def fill_noops(client: Client, jobs: int) -> None:
    client.enqueue_many(NewJob(job_type="noop", payload={"n": number}) for number in range(jobs))


@contextmanager
def filled(url: str, jobs: int, audit: AuditLevel = "full") -> Iterator[PostgresStore]:
    with fresh_store(url) as store:
        fill_noops(Client(store=store, rules=Rules(audit=audit)), jobs)
        yield store


@contextmanager
def filled_file(jobs: int) -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "onward.db"
        with Client(store=SqliteStore(path)) as client:
            fill_noops(client, jobs)
        yield path
