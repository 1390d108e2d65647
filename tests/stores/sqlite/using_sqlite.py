"""A SQLite store put to use, by this process and by others."""

import contextlib
import os
import sqlite3
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from functools import cache
from pathlib import Path
from typing import Any

from onward import JobState, NewJob
from onward.core.jobs.ids import IdMaker
from onward.operations.jobs import enqueue as enqueuing
from onward.operations.jobs import inspect
from onward.operations.statement import Operation
from onward.results import Enqueued
from onward.stores.sqlite.sqlite_store import SqliteStore

ids = IdMaker(iter(range(10**18, 2 * 10**18, 10**6)).__next__, os.urandom)


def clean_file(folder: Path) -> str:
    """Return the URL of the database in this folder; unless it is there, make it with empty tables."""
    path = folder / "onward.db"
    if not path.exists():
        path.touch(mode=0o600)
        path.write_bytes(_migrated_file())
    return f"sqlite:///{path}"


@cache
def _migrated_file() -> bytes:
    """Return the content of a file with empty tables: to write it is cheaper than to migrate."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "onward.db"
        with opened(path) as store:
            store.migrate()
        return path.read_bytes()


@contextlib.contextmanager
def opened(path: Path, **options: Any) -> Iterator[SqliteStore]:
    store = SqliteStore(path, **options)
    try:
        yield store
    finally:
        store.close()


def enqueue(store: SqliteStore, **fields: Any) -> str:
    return submit(store, **fields).result(60).id


def submit(store: SqliteStore, **fields: Any) -> Future[Enqueued]:
    """Hand a job over without waiting for it."""
    new, job_id = NewJob(**{"job_type": "t"} | fields), ids.make()
    return store._submit(lambda: enqueuing.enqueue(new, job_id), write=True)


def queued(store: SqliteStore) -> int:
    return store.run(inspect.count, write=False).total(JobState.QUEUED)


def writer(store: SqliteStore) -> sqlite3.Connection:
    assert store._threads is not None
    connection = store._threads[1]._connection
    assert connection is not None
    return connection


def held(entered: threading.Event, leave: threading.Event) -> Operation[None]:
    """An operation that keeps its thread busy, so that what is submitted meanwhile is served together.

    It asks something first: until then it would keep its caller busy.
    """
    yield from inspect.count()
    entered.set()
    assert leave.wait(30)


@contextlib.contextmanager
def busy_thread(store: SqliteStore, *, write: bool = True) -> Iterator[None]:
    enqueue(store)
    entered, leave = threading.Event(), threading.Event()
    future = store._submit(lambda: held(entered, leave), write=write)
    assert entered.wait(30)
    try:
        yield
    finally:
        leave.set()
        future.result(30)


def process(program: str, *arguments: object, **options: Any) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", program, *map(str, arguments)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, **options)


def exit_code(child: subprocess.Popen[str]) -> int:
    try:
        child.communicate(timeout=60)
    finally:
        child.kill()
    return child.returncode


def integrity(path: Path) -> str:
    with contextlib.closing(sqlite3.connect(path)) as connection:
        return str(connection.execute("PRAGMA integrity_check").fetchone()[0])
