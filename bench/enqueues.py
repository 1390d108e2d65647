"""Enqueue one by one and in bulk, beside the same rows written by hand."""

from __future__ import annotations

import json
import os
import sqlite3
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing
from itertools import count
from pathlib import Path

import psycopg

from bench.measuring import Measure, fresh_store, new_job, payload, seconds
from onward.client import Client
from onward.core.ids import IdMaker
from onward.stores.sqlite import SqliteStore

SINGLES = 1500
BULK = 10_000

COLUMNS = (
    "id, org_id, job_type, queue, category, state, priority, run_at, max_attempts, key, payload, created_at"
)

ids = IdMaker(time.time_ns, os.urandom)


def postgres(url: str) -> Iterator[Measure]:
    with fresh_store(url) as store, psycopg.connect(url, autocommit=True) as connection:
        client = Client(store=store)
        numbers = count()
        insert = (
            f"INSERT INTO {store.prefix}live ({COLUMNS}) "
            "VALUES (%s, %s, %s, %s, %s, 'queued', %s, now(), %s, %s, %s, now())"
        )

        def by_hand(key: str | None) -> None:
            body = json.dumps(payload(next(numbers)))
            connection.execute(
                insert.encode(), (ids.make(), "org-1", "send_email", "q:default", "default", 5, 5, key, body)
            )

        for keyed in (False, True):
            # In turns of a few, so that a slow second of the machine hits both.
            ours = hand = 0.0
            for turn in range(SINGLES // 50):
                hand += seconds(lambda: [by_hand(f"k{next(numbers)}" if keyed else None) for _ in range(50)])
                mine = seconds(
                    lambda: [client.enqueue(new_job(next(numbers), keyed=keyed)) for _ in range(50)]
                )
                ours += mine
                if turn == 0:
                    ours = hand = 0.0  # The first turn warms both up.
            per_job = 1e6 / (SINGLES - 50)
            name = f"postgres: enqueue one{' with a key' if keyed else ''}, against INSERT by hand"
            yield Measure(name, "µs", ours * per_job, hand * per_job, "<= 1.3")
        yield bulk_postgres(client, connection, store.prefix)


def bulk_postgres(client: Client, connection: psycopg.Connection, prefix: str) -> Measure:
    def copy() -> None:
        copied = f"COPY {prefix}live ({COLUMNS}) FROM STDIN"
        with connection.cursor() as cursor, cursor.copy(copied.encode()) as rows:
            for job_id, job in zip(made, jobs, strict=True):
                body = json.dumps(job.payload)
                rows.write_row(
                    (
                        job_id,
                        "org-1",
                        "send_email",
                        "q:default",
                        "default",
                        "queued",
                        5,
                        now,
                        5,
                        job.key,
                        body,
                        now,
                    )
                )

    jobs = [new_job(10_000_000 + number, keyed=True) for number in range(BULK)]
    made = ids.make_many(BULK)
    now = "2026-01-01T00:00:00Z"
    empty(connection, prefix)
    hand = seconds(copy)
    empty(connection, prefix)
    ours = seconds(lambda: client.enqueue_many(jobs))
    return Measure(
        "postgres: enqueue_many of 10 000 with keys, against COPY",
        "jobs/s",
        BULK / ours,
        BULK / hand,
        ">= 0.3",
    )


def empty(connection: psycopg.Connection, prefix: str) -> None:
    tables = ", ".join(f"{prefix}{table}" for table in ("live", "keys", "audit"))
    connection.execute(f"TRUNCATE {tables}".encode())
    connection.execute("CHECKPOINT")


def sqlite(_url: str) -> Iterator[Measure]:
    with tempfile.TemporaryDirectory() as folder:
        jobs = [new_job(number, keyed=True) for number in range(BULK)]
        made = ids.make_many(BULK)
        now = time.time_ns() // 1000
        rows = [
            (job_id, "org-1", "send_email", "q:default", "default", "queued", 5, now, 5, job.key, body, now)
            for job_id, job in zip(made, jobs, strict=True)
            for body in [json.dumps(job.payload)]
        ]
        insert = f"INSERT INTO onward_live ({COLUMNS}) VALUES ({', '.join('?' * 12)})"

        def by_hand(connection: sqlite3.Connection) -> None:
            connection.execute("BEGIN IMMEDIATE")
            connection.executemany(insert, rows)
            connection.execute("COMMIT")

        bare = SqliteStore(Path(folder) / "bare.db")
        bare.migrate()
        with closing(bare.file.connect()) as connection:
            hand = seconds(lambda: by_hand(connection))
        with Client(store=SqliteStore(Path(folder) / "ours.db")) as client:
            client.count()
            ours = seconds(lambda: client.enqueue_many(jobs))
            single = seconds(lambda: [client.enqueue(new_job(number)) for number in range(500)])
        yield Measure(
            "sqlite: enqueue_many of 10 000 with keys, against executemany",
            "jobs/s",
            BULK / ours,
            BULK / hand,
            ">= 0.5",
        )
        with closing(bare.file.connect()) as connection:
            alone = seconds(
                lambda: [connection.execute(insert, (ids.make(), *rows[0][1:])) for _ in range(500)]
            )
        yield Measure("sqlite: enqueue one, against INSERT by hand", "µs", single * 2000, alone * 2000, "")
