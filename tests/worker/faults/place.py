"""Tables of their own, and worker processes that work on them."""

from __future__ import annotations

import signal
import sqlite3
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pytest

from onward import Client, JobState, NewJob
from onward.core.jobs.job import ENDED
from onward.stores import open_store
from tests.cli.program import Program
from tests.stores.postgres.postgres_schema import clean_schema
from tests.stores.sqlite.using_sqlite import clean_file

__all__ = ["Place", "chosen_place", "fresh_place", "may_mount", "pid_of", "small_disk", "until"]

ROOT = Path(__file__).parents[3]


def may_mount() -> bool:
    """Tell whether small file systems can be mounted here: that takes a privilege."""
    try:
        return (
            subprocess.run(["unshare", "--mount", "true"], capture_output=True, check=False).returncode == 0
        )
    except OSError:
        return False


@contextmanager
def small_disk(folder: Path, megabytes: int) -> Iterator[None]:
    """A file system of this size in a folder."""
    mount = ["mount", "-t", "tmpfs", "-o", f"size={megabytes}m,mode=0700", "none", str(folder)]
    subprocess.run(mount, check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def until(condition: Callable[[], Any], seconds: float = 20.0, *, about: Callable[[], object] = str) -> float:
    """Wait for what no event tells; gives the seconds that it took."""
    began = time.monotonic()
    while not condition():
        assert time.monotonic() - began < seconds, f"waited {seconds} s in vain; {about()}"
        time.sleep(0.01)
    return time.monotonic() - began


@dataclass
class Place:
    """Where jobs are kept during a test."""

    url: str
    schema: str
    client: Client
    workers_url: str | None = None
    """Where the workers find it, if that is by way of a proxy."""

    def worker(self, *options: str) -> Program:
        """Start a worker process; it is killed at the end of its context."""
        return Program(
            ROOT,
            "worker",
            "tests.worker.faults.faults_app:app",
            *options,
            ONWARD_URL=self.workers_url or self.url,
            FAULTS_SCHEMA=self.schema,
        )

    def put(
        self, job_type: str, *, queue: str = "q:default", max_attempts: int | None = None, **payload: Any
    ) -> str:
        """Enqueue a job."""
        job = NewJob(job_type=job_type, queue=queue, max_attempts=max_attempts, payload=payload)
        return self.client.enqueue(job).id

    def put_many(self, count: int, job_type: str, **payload: Any) -> list[str]:
        """Enqueue many jobs at once."""
        jobs = [NewJob(job_type=job_type, payload=payload) for _ in range(count)]
        return [enqueued.id for enqueued in self.client.enqueue_many(jobs)]

    def put_until(self, refused: type[Exception]) -> list[str]:
        """Enqueue until that is refused; gives the jobs that were accepted."""
        accepted: list[str] = []
        while len(accepted) < 2000:
            try:
                accepted.append(self.put("step"))
            except refused:
                return accepted
        raise AssertionError(f"{len(accepted)} jobs were accepted")

    def state(self, job_id: str) -> JobState:
        """Read the state of a job."""
        return self.client.jobs.get(job_id).state

    def ended(self) -> int:
        """Count the jobs that have ended."""
        counts = self.client.jobs.count()
        return sum(counts.total(state) for state in ENDED)

    def leader(self) -> int | None:
        """Give the process that leads the sweep; None while nobody does."""
        now = time.time_ns() // 1000
        at = (
            "until"
            if self.url.startswith("sqlite")
            else "CAST(extract(epoch FROM until) * 1000000 AS bigint)"
        )
        table = f"{self.client.store.prefix}leaders"
        rows = self.query(f"SELECT worker_id FROM {table} WHERE name = 'sweeper' AND {at} > {now}")
        return int(rows[0][0].split(":")[1]) if rows else None

    def freeze(self, worker: Program) -> None:
        """Stop a process between its writes: within one it has SQLite's only lock, and all would wait."""
        worker.send(signal.SIGSTOP)
        while not self._can_be_written():
            worker.send(signal.SIGCONT)
            worker.send(signal.SIGSTOP)

    def _can_be_written(self) -> bool:
        if not self.url.startswith("sqlite"):
            return True
        path = self.url.removeprefix("sqlite:///")
        with closing(sqlite3.connect(path, isolation_level=None, timeout=1)) as connection:
            try:
                connection.execute("BEGIN IMMEDIATE")
            except sqlite3.OperationalError:
                return False
            connection.execute("ROLLBACK")
            return True

    def query(self, sql: str) -> list[Any]:
        """Ask the database itself."""
        if self.url.startswith("sqlite"):
            connection = sqlite3.connect(self.url.removeprefix("sqlite:///"))
            try:
                return connection.execute(sql).fetchall()
            finally:
                connection.close()
        with psycopg.connect(self.url, autocommit=True) as asked:
            return asked.execute(sql.encode()).fetchall()


def pid_of(worker_id: str | None) -> int:
    """Give the process of a worker."""
    assert worker_id is not None
    return int(worker_id.split(":")[1])


@contextmanager
def fresh_place(url: str, schema: str) -> Iterator[Place]:
    """A place on tables that are made here."""
    with Client(store=open_store(url, schema=schema)) as client:
        client.migrate()
        yield Place(url, schema, client)


@contextmanager
def chosen_place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    """A place on the database that a fixture's parameter names."""
    if request.param == "sqlite":
        with fresh_place(clean_file(tmp_path), "onward") as place:
            yield place
    else:
        url = request.getfixturevalue("postgres_url")
        with clean_schema(url) as store, fresh_place(url, store.prefix.rstrip(".")) as place:
            yield place
