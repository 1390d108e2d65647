"""Enqueue one by one and in bulk, beside the same rows written by hand."""

from __future__ import annotations

import json
import os
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path

import psycopg

from bench.measuring import Measure, fresh_store, new_job, payload, seconds
from bench.sizes import Sizes
from onward.clients.sync.client import Client
from onward.core.jobs.ids import IdMaker
from onward.core.jobs.job import NewJob
from onward.stores.sqlite.sqlite_store import SqliteStore

SINGLES = 1500
TURN = 50
BULK = 10_000
TURNS = 5

COLUMNS = (
    "id, org_id, job_type, queue, category, state, priority, run_at, max_attempts, key, payload, created_at"
)

ids = IdMaker(time.time_ns, os.urandom)


def postgres(url: str, _sizes: Sizes) -> Iterator[Measure]:
    with fresh_store(url) as store, psycopg.connect(url, autocommit=True) as connection:
        client = Client(store=store)
        for keyed in (False, True):
            yield one_by_one(client, connection, store.prefix, keyed=keyed)
        yield from bulk_postgres(client, connection, store.prefix)


def repeat(work: Callable[[int], object], numbers: range) -> None:
    for number in numbers:
        work(number)


def one_by_one(client: Client, connection: psycopg.Connection, prefix: str, *, keyed: bool) -> Measure:
    insert = (
        f"INSERT INTO {prefix}live ({COLUMNS}) "
        "VALUES (%s, %s, %s, %s, %s, 'queued', %s, now(), %s, %s, %s, now())"
    )
    if keyed:
        insert = f"WITH k AS (INSERT INTO {prefix}keys VALUES (%s, '', %s, %s, now(), now(), now())) {insert}"

    def by_hand(number: int) -> None:
        body, job_id, key = json.dumps(payload(number)), ids.make(), f"k{number}" if keyed else None
        values = (job_id, "org-1", "send_email", "q:default", "default", 5, 5, key, body)
        connection.execute(insert.encode(), ("org-1", key, job_id, *values) if keyed else values)

    ours = hand = 0.0
    # In turns of a few, so that a slow second of the machine hits both; the first turn warms both up.
    for turn in range(SINGLES // TURN + 1):
        numbers = range(turn * TURN, (turn + 1) * TURN)
        by = seconds(partial(repeat, by_hand, numbers))
        mine = seconds(partial(repeat, lambda number: client.enqueue(new_job(number, keyed=keyed)), numbers))
        if turn:
            hand, ours = hand + by, ours + mine
    name = f"postgres: enqueue one{', by INSERT of key and job' if keyed else ', by INSERT'}"
    return Measure(name, "µs", ours * 1e6 / SINGLES, hand * 1e6 / SINGLES, "<= 1.3")


def rows_of(jobs: list[NewJob], now: object) -> list[tuple[object, ...]]:
    """Make the rows of `COLUMNS` by hand, from the same jobs that Onward is given."""
    return [
        (job_id, "org-1", job.job_type, "q:default", "default", "queued", 5, now, 5, job.key, body, now)
        for job_id, job in zip(ids.make_many(len(jobs)), jobs, strict=True)
        for body in [json.dumps(job.payload)]
    ]


def beside(
    name: str, ours: list[float], bare: list[float], made: list[float], target: str
) -> Iterator[Measure]:
    """Compare with a bare insert of ready rows, which the target is about, and with one that makes them."""
    mine = statistics.median(ours)
    yield Measure(f"{name}, rows ready", "jobs/s", mine, statistics.median(bare), target)
    yield Measure(f"{name}, rows made too", "jobs/s", mine, statistics.median(made), "")


def bulk_postgres(client: Client, connection: psycopg.Connection, prefix: str) -> Iterator[Measure]:
    def copy(rows: Callable[[], list[tuple[object, ...]]]) -> None:
        text = f"COPY {prefix}live ({COLUMNS}) FROM STDIN"
        with connection.cursor() as cursor, cursor.copy(text.encode()) as copied:
            for row in rows():
                copied.write_row(row)

    jobs = [new_job(10_000_000 + number, keyed=True) for number in range(BULK)]
    now = "2026-01-01T00:00:00Z"
    bare: list[float] = []
    made: list[float] = []
    ours: list[float] = []
    for _ in range(TURNS):
        ready = rows_of(jobs, now)
        empty(connection, prefix)
        bare.append(BULK / seconds(partial(copy, partial(list, ready))))
        empty(connection, prefix)
        made.append(BULK / seconds(partial(copy, partial(rows_of, jobs, now))))
        empty(connection, prefix)
        ours.append(BULK / seconds(partial(client.enqueue_many, jobs)))
    yield from beside("postgres: enqueue_many with keys, by COPY", ours, bare, made, ">= 0.3")


def empty(connection: psycopg.Connection, prefix: str) -> None:
    tables = ", ".join(f"{prefix}{table}" for table in ("live", "keys", "audit"))
    connection.execute(f"ALTER TABLE {prefix}audit DISABLE TRIGGER USER".encode())
    connection.execute(f"TRUNCATE {tables}".encode())
    connection.execute("CHECKPOINT")


def sqlite(_url: str, _sizes: Sizes) -> Iterator[Measure]:
    jobs = [new_job(number, keyed=True) for number in range(BULK)]
    insert = f"INSERT INTO onward_live ({COLUMNS}) VALUES ({', '.join('?' * 12)})"
    now = time.time_ns() // 1000
    bare: list[float] = []
    made: list[float] = []
    ours: list[float] = []
    for _ in range(TURNS):
        ready = rows_of(jobs, now)
        bare.append(BULK / on_a_fresh_file(partial(write, insert=insert, rows=ready)))
        made.append(BULK / on_a_fresh_file(lambda connection: write(connection, insert, rows_of(jobs, now))))
        with fresh_client() as client:
            ours.append(BULK / seconds(partial(client.enqueue_many, jobs)))
    yield from beside("sqlite: enqueue_many with keys, by executemany", ours, bare, made, ">= 0.5")
    with fresh_client() as client:
        single = seconds(lambda: [client.enqueue(new_job(number)) for number in range(500)])
    alone = on_a_fresh_file(lambda c: [c.execute(insert, (ids.make(), *ready[0][1:])) for _ in range(500)])
    yield Measure("sqlite: enqueue one, by INSERT", "µs", single * 2000, alone * 2000, "")


@contextmanager
def fresh_client() -> Iterator[Client]:
    with (
        tempfile.TemporaryDirectory() as folder,
        Client(store=SqliteStore(Path(folder) / "ours.db")) as client,
    ):
        client.jobs.count()
        yield client


def write(connection: sqlite3.Connection, insert: str, rows: list[tuple[object, ...]]) -> None:
    connection.execute("BEGIN IMMEDIATE")
    connection.executemany(insert, rows)
    connection.execute("COMMIT")


def on_a_fresh_file(work: Callable[[sqlite3.Connection], object]) -> float:
    """Time what is done by hand on Onward's own tables, with Onward's own settings."""
    with tempfile.TemporaryDirectory() as folder:
        store = SqliteStore(Path(folder) / "bare.db")
        store.migrate()
        with closing(store.file.connect()) as connection:
            return seconds(lambda: work(connection))
