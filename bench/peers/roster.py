"""Who is measured: how each is called, with which settings, and how to count what it has not done yet."""

from __future__ import annotations

import sqlite3
import sys
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import psycopg

from bench.children import Command
from bench.peers.installing import NODE, PYTHON

__all__ = ["PEERS", "Peer"]

Runtime = Literal["onward", "python", "node"]


@dataclass(frozen=True)
class Peer:
    """A job queue to measure; `drained` is how many jobs of a drain suit its speed, of 60 000."""

    name: str
    runtime: Runtime
    script: str
    settings: str
    unfinished: str
    drained: float = 1.0
    bulk: bool = True
    sqlite: bool = False
    processes: tuple[int, ...] = (1, 2)

    def command(self, address: str) -> Command:
        match self.runtime:
            case "onward":
                return Command((sys.executable, "-m", self.script), {"ONWARD_URL": address})
            case "python":
                return Command((str(PYTHON), "-m", self.script), {"PEER_URL": address})
            case "node":
                return Command(("node", self.script), {"PEER_URL": address}, NODE)

    def left(self, address: str) -> Callable[[], int]:
        """Give a function that counts what the database does not have as done."""

        def count() -> int:
            if self.sqlite:
                path = address.removeprefix("sqlite:///")
                with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection:
                    return int(connection.execute(self.unfinished).fetchone()[0])
            with psycopg.connect(address, autocommit=True) as connection:
                row = connection.execute(self.unfinished.encode()).fetchone()
                assert row
                return int(row[0])

        return count

    def tidy(self, address: str) -> None:
        """Do what autovacuum would have done by now, so that nobody pays for statistics of an empty table."""
        if not self.sqlite:
            with psycopg.connect(address, autocommit=True) as connection:
                connection.execute("VACUUM ANALYZE")

    def address(self, database: str, folder: Path) -> str:
        """Give its database on the server, or its file."""
        if not self.sqlite:
            return database
        path = folder / f"{self.name.replace(' ', '-')}.db"
        return f"sqlite:///{path}" if self.runtime == "onward" else str(path)


PEERS = (
    Peer(
        "Onward",
        "onward",
        "bench.subject",
        "audit and history kept; concurrency 10 (both the defaults)",
        "SELECT count(*) FROM onward.live",
    ),
    Peer(
        "graphile-worker",
        "node",
        "graphile-worker.mjs",
        "0.17.3, local queue 1 000, 24 jobs at once, completions batched; deletes finished jobs",
        "SELECT count(*) FROM graphile_worker._private_jobs",
    ),
    Peer(
        "pg-boss",
        "node",
        "pg-boss.mjs",
        "12.35.0, 2 000 jobs to one handler call, burst while full, LISTEN and NOTIFY",
        "SELECT count(*) FROM pgboss.job WHERE state < 'completed'",
    ),
    Peer(
        "PgQueuer",
        "python",
        "bench.peers.pgqueuer",
        "1.6.0, asyncpg, uvloop, batches of 2 000; deletes finished jobs, keeps a log",
        "SELECT count(*) FROM pgqueuer",
    ),
    Peer(
        "Procrastinate",
        "python",
        "bench.peers.procrastinate",
        "3.10.0, psycopg pool of 20, concurrency 4; keeps finished jobs",
        "SELECT count(*) FROM procrastinate_jobs WHERE status IN ('todo', 'doing')",
        drained=1 / 30,
    ),
    Peer(
        "Onward on SQLite",
        "onward",
        "bench.subject",
        "WAL, synchronous=FULL; audit and history kept",
        "SELECT count(*) FROM onward_live",
        sqlite=True,
        processes=(1,),
    ),
    Peer(
        "Huey on SQLite",
        "python",
        "bench.peers.huey",
        "3.5.4, WAL, synchronous=FULL, one thread, polls every 10 ms; deletes jobs when it takes them",
        "SELECT count(*) FROM task",
        drained=1 / 6,
        bulk=False,
        sqlite=True,
        processes=(1,),
    ),
)
