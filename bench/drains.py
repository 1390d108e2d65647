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
from onward.clients.sync.client import Client
from onward.core.jobs.job import NewJob
from onward.core.limits.queue_policy import QueuePolicy
from onward.core.policy.policies import Policies
from onward.core.policy.registry import Registry
from onward.core.policy.settings import AuditLevel
from onward.stores.postgres.sync.postgres_store import PostgresStore
from onward.stores.sqlite.sqlite_store import SqliteStore

__all__ = [
    "drained", "fair_postgres", "fair_sqlite", "fill_noops", "filled", "limited_postgres", "limited_sqlite",
    "postgres", "sqlite", "unfinished",
]  # fmt: skip

ORGS = 100
COMPUTED = 50
FAIR = {"q:default": QueuePolicy.of(fair=True)}


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
    with filled_file(jobs) as path:
        noops = drained_file(path, jobs)
    found = []
    for processes in (1, 2):
        with filled_file(jobs, NewJob(job_type="compute", payload={"us": COMPUTED})) as path:
            found.append(drained_file(path, jobs, processes).rate)
    one, two = found
    yield Measure("sqlite: drain, by our operations without worker", "jobs/s", noops.rate, limit, ">= 0.7")
    yield Measure(f"sqlite: {COMPUTED} µs jobs by 2 processes, by 1", "jobs/s", two, one, ">= 1.3")
    yield Measure("sqlite: CPU of the worker for a no-op job", "µs", noops.cpu_micros, 0, "")


def fair_postgres(url: str, sizes: Sizes) -> Iterator[Measure]:
    """Drain jobs of many orgs by turns, beside the same jobs by priority and time."""
    found = []
    for policies in (Policies(registry=Registry(queues=FAIR)), Policies()):
        with fresh_store(url) as store:
            fill_orgs(Client(store=store, policies=policies), sizes.drained)
            fair = {"fair": 1} if policies.registry.queues else {}
            subject = ONWARD(store.url, schema=store.prefix.rstrip("."), **fair)
            found.append(drain(subject, sizes.drained, unfinished(store), 1).rate)
    by_turns, plain = found
    yield Measure(
        f"postgres: fair drain of {ORGS} orgs, by an unfair one", "jobs/s", by_turns, plain, ">= 0.7"
    )


def fair_sqlite(_url: str, sizes: Sizes) -> Iterator[Measure]:
    """Do the same on SQLite."""
    found = []
    for policies in (Policies(registry=Registry(queues=FAIR)), Policies()):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "onward.db"
            with Client(store=SqliteStore(path), policies=policies) as client:
                fill_orgs(client, sizes.drained)
            fair = {"fair": 1} if policies.registry.queues else {}
            subject = ONWARD(f"sqlite:///{path}", **fair)
            found.append(drain(subject, sizes.drained, left_in(path), 1).rate)
    by_turns, plain = found
    yield Measure(f"sqlite: fair drain of {ORGS} orgs, by an unfair one", "jobs/s", by_turns, plain, ">= 0.7")


def limited_postgres(url: str, sizes: Sizes) -> Iterator[Measure]:
    """Drain jobs of a limit that is never reached, beside the same jobs without one."""
    found = []
    for limited in ({"limited": 1}, {}):
        with fresh_store(url) as store:
            fill_limited(Client(store=store), sizes.drained, "ample" if limited else None)
            subject = ONWARD(store.url, schema=store.prefix.rstrip("."), **limited)
            found.append(drain(subject, sizes.drained, unfinished(store), 1).rate)
    ample, plain = found
    yield Measure("postgres: drain with an ample limit, by one without", "jobs/s", ample, plain, ">= 0.67")


def limited_sqlite(_url: str, sizes: Sizes) -> Iterator[Measure]:
    """Do the same on SQLite."""
    found = []
    for limited in ({"limited": 1}, {}):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "onward.db"
            with Client(store=SqliteStore(path)) as client:
                fill_limited(client, sizes.drained, "ample" if limited else None)
            subject = ONWARD(f"sqlite:///{path}", **limited)
            found.append(drain(subject, sizes.drained, left_in(path), 1).rate)
    ample, plain = found
    yield Measure("sqlite: drain with an ample limit, by one without", "jobs/s", ample, plain, ">= 0.67")


def fill_limited(client: Client, jobs: int, key: str | None) -> None:
    client.enqueue_many(
        NewJob(job_type="noop", payload={"n": number}, limit_key=key) for number in range(jobs)
    )


def fill_orgs(client: Client, jobs: int) -> None:
    client.enqueue_many(
        NewJob(job_type="noop", payload={"n": number}, org_id=f"org-{number % ORGS}")
        for number in range(jobs)
    )


def drained(store: PostgresStore, jobs: int, processes: int = 1) -> Drain:
    """Have a filled store drained by workers of their own processes."""
    return drain(ONWARD(store.url, schema=store.prefix.rstrip(".")), jobs, unfinished(store), processes)


def drained_file(path: Path, jobs: int, processes: int = 1) -> Drain:
    """Have a filled file drained by workers of their own processes."""
    return drain(ONWARD(f"sqlite:///{path}"), jobs, left_in(path), processes)


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
        fill_noops(Client(store=store, policies=Policies.of(audit=audit)), jobs)
        yield store


@contextmanager
def filled_file(jobs: int, job: NewJob | None = None) -> Iterator[Path]:
    """Make a file with as many no-op jobs, or with `job` as many times."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "onward.db"
        with Client(store=SqliteStore(path)) as client:
            if job is None:
                fill_noops(client, jobs)
            else:
                client.enqueue_many([job] * jobs)
        yield path
