"""Reads of an operator among many ended and waiting jobs: listings with and without matches, counts."""

from __future__ import annotations

import sqlite3
import statistics
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg

from bench.measuring import Measure, fresh_store, seconds, settle
from bench.sizes import Sizes
from onward.clients.sync.client import Client
from onward.core.jobs.filters import JobFilter
from onward.stores.sqlite.sqlite_store import SqliteStore

__all__ = ["fill_postgres", "fill_sqlite", "postgres", "reads_of", "sqlite"]

TARGET = "<= 50 ms"
TIMES = 7
HOURS = 48

# Each job is one of 20 types, 5 queues and 200 orgs, with a key and a correlation of its own. A tenth has a
# tag, a third a subject; one in a hundred died of one of 50 causes, one in a hundred was cancelled.
COLUMNS = """
id, job_type, queue, category, state, priority, run_at, attempt, max_attempts, lease, payload, created_at,
started_at,
outcome, ended_at, org_id, key, correlation_id, subject, tags, error, worker_id, cost_micros, waits, crashes,
rerun_requested
"""
WAITING = ", ".join(
    name.strip() for name in COLUMNS.split(",") if name.strip() not in {"outcome", "ended_at"}
)
SHARED = """
'type_' || (n % 20) AS job_type, 'q:' || (n % 5) AS queue, 'default' AS category,
{state} AS state, 5 AS priority, {at} AS run_at, {attempt} AS attempt, 5 AS max_attempts, {attempt} AS lease,
'{{"user_id": 1, "template": "welcome_mail", "to": "user1@example.com"}}' AS payload, {at} AS created_at,
{at} AS started_at, {state} AS outcome, {at} AS ended_at, 'org-' || (n * 7919 % 200) AS org_id,
'confirm:' || {kind} || n AS key, 'correlation-' || {kind} || n AS correlation_id,
CASE WHEN n % 3 = 0 THEN 'user:' || (n % 10000) END AS subject,
CASE WHEN n % 10 = 0 THEN '["vip"]' END AS tags,
CASE WHEN {state} = 'dead'
THEN '{{"error_class": "E", "message": "m", "fingerprint": "f' || (n / 100 % 50) || '"}}' END AS error,
'w-1' AS worker_id, 0 AS cost_micros, 0 AS waits, 0 AS crashes
"""
ENDED_STATE = "CASE n % 100 WHEN 0 THEN 'dead' WHEN 1 THEN 'cancelled' ELSE 'succeeded' END"
LIVE_STATE = "CASE n % 4 WHEN 0 THEN 'scheduled' ELSE 'queued' END"
AUDIT = """
INSERT INTO {prefix}audit (at, event, job_id, job_type, org_id, actor_type, attempt, lease)
SELECT ended_at, 'job.' || state, id, job_type, org_id, 'system', 1, 1 FROM {prefix}ended
"""


def postgres(url: str, sizes: Sizes) -> Iterator[Measure]:
    with fresh_store(url) as store:
        with psycopg.connect(store.url, autocommit=True) as connection:
            fill_postgres(connection, store.prefix, sizes.listed, sizes.waiting)
        settle(store.url)
        yield from measured("postgres", Client(store=store))


def sqlite(_url: str, sizes: Sizes) -> Iterator[Measure]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "onward.db"
        with Client(store=SqliteStore(path)) as client:
            client.migrate()
            with closing(sqlite3.connect(path)) as connection:
                fill_sqlite(connection, sizes.listed // 4, sizes.waiting)
            yield from measured("sqlite", client)


def measured(database: str, client: Client) -> Iterator[Measure]:
    for name, read in reads_of(client).items():
        read()
        milliseconds = [seconds(read) * 1000 for _ in range(TIMES)]
        yield Measure(f"{database}: {name}", "ms", statistics.median(milliseconds), 0, TARGET)


def reads_of(client: Client) -> dict[str, Callable[[], Any]]:
    """Every read that has to stay fast, by its name."""
    listings: dict[str, dict[str, Any]] = {
        "newest 50": {},
        "state": {"state": "dead"},
        "state, many": {"state": "succeeded"},
        "several states": {"state": ("cancelled", "retrying")},
        "state without a match": {"state": "blocked"},
    }
    matching = {
        "job_type": "type_3", "org_id": "org-7", "queue": "q:3", "key": "confirm:ended1003",
        "correlation_id": "correlation-ended1003", "tags": ["vip"], "subject": "user:3", "worker_id": "w-1",
    }  # fmt: skip
    for field, value in matching.items():
        listings[field] = {field: value}
        listings[f"{field} without a match"] = {field: ["none"] if field == "tags" else "none"}
    found = {f"list, {name}": listed(client, JobFilter(**given)) for name, given in listings.items()}
    oldest = JobFilter(job_type="none")
    return {
        **found,
        "list, oldest first, without a match": lambda: client.jobs.list(oldest, order="oldest"),
        "counts": client.jobs.count,
        "stats, counts of 24 hours": client.stats.counts,
        "stats, durations by type": client.stats.durations,
        "stats, durations by queue": lambda: client.stats.durations("queue"),
        "stats, lags": client.stats.lags,
        "stats, failures": client.stats.failures,
        "dead groups": client.dead.groups,
        "dead newest 50": client.dead.list,
        "audit newest 50": lambda: client.audit.list(limit=50),
    }


def listed(client: Client, where: JobFilter) -> Callable[[], Any]:
    return lambda: client.jobs.list(where)


def fill_postgres(connection: psycopg.Connection, prefix: str, ended: int, waiting: int) -> None:
    """Put jobs of the last two days straight into the tables, with a line of the audit for each ended one."""
    jsons = {name: f"CAST({name} AS jsonb)" for name in ("payload", "tags", "error")}
    for table, columns, count, state in (
        ("ended", COLUMNS, ended, ENDED_STATE),
        ("live", WAITING, waiting, LIVE_STATE),
    ):
        attempt = "1" if table == "ended" else "0"
        at = f"now() - interval '{HOURS} hours' * (1 - n / {count}.0)"
        shared = SHARED.format(state=state, at=at, attempt=attempt, kind=f"'{table}'")
        fresh = (
            "CAST(lpad(to_hex(CAST(extract(epoch FROM at) * 1000 AS bigint)), 12, '0') || '7' "
            "|| lpad(to_hex(n % 4096), 3, '0') || '8' || substr(md5(CAST(n AS text)), 1, 15) AS uuid)"
        )
        names = [jsons.get(name.strip(), name.strip()) for name in columns.split(",")]
        picked = ", ".join({"id": fresh, "rerun_requested": "false"}.get(name, name) for name in names)
        connection.execute(
            f"INSERT INTO {prefix}{table} ({columns}) "
            f"SELECT {picked} "
            f"FROM (SELECT n, {at} AS at, {shared} "
            f"FROM generate_series(1, CAST({count} AS bigint)) AS n) AS made".encode()
        )
    connection.execute(AUDIT.format(prefix=prefix).encode())
    for table in ("live", "ended", "audit"):
        connection.execute(f"VACUUM ANALYZE {prefix}{table}".encode())


def fill_sqlite(connection: sqlite3.Connection, ended: int, waiting: int) -> None:
    """Do the same on SQLite."""
    for table, columns, count, state in (
        ("ended", COLUMNS, ended, ENDED_STATE),
        ("live", WAITING, waiting, LIVE_STATE),
    ):
        attempt = "1" if table == "ended" else "0"
        at = f"CAST((unixepoch() - {HOURS} * 3600.0 * (1 - n / {count}.0)) * 1000000 AS INTEGER)"
        shared = SHARED.format(state=state, at=at, attempt=attempt, kind=f"'{table}'")
        stamp = "printf('%012x', at / 1000)"
        fresh = (
            f"substr({stamp}, 1, 8) || '-' || substr({stamp}, 9) || '-7' || printf('%03x', n % 4096) "
            "|| printf('-8%03x-%012x', n / 4096 % 4096, n)"
        )
        names = [name.strip() for name in columns.split(",")]
        picked = ", ".join({"id": fresh, "rerun_requested": "0"}.get(name, name) for name in names)
        connection.execute(
            f"WITH RECURSIVE numbers(n) AS "
            f"(SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < {count}) "
            f"INSERT INTO onward_{table} ({columns}) "
            f"SELECT {picked} "
            f"FROM (SELECT n, {at} AS at, {shared} FROM numbers) AS made"
        )
    connection.execute(AUDIT.format(prefix="onward_"))
    connection.commit()
