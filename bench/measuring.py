"""What a benchmark gives: our number beside the limit of the same round."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from operator import ge, le, lt
from typing import Any
from uuid import uuid4

import psycopg

from onward.core.jobs.job import NewJob
from onward.stores.postgres.sync.postgres_store import PostgresStore

COMPARED: dict[str, Callable[[float, float], bool]] = {"<": lt, "<=": le, ">=": ge}


@dataclass(frozen=True)
class Measure:
    """Ours and the limit in one unit; `ratio` is ours by limit for costs and rates alike.

    A target with a unit (`<= 20 ms`) is about ours, one without (`>= 0.7`) about the ratio.
    """

    name: str
    unit: str
    ours: float
    limit: float
    target: str

    @property
    def ratio(self) -> float:
        return self.ours / self.limit


def met(target: str, ours: float, ratio: float | None) -> bool | None:
    """Tell whether a target was met; None without one."""
    if not target:
        return None
    sign, number, *unit = target.split()
    value = ours if unit or ratio is None else ratio
    return COMPARED[sign](value, float(number))


def seconds(work: Callable[[], Any]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def payload(number: int) -> dict[str, Any]:
    """A small payload of the kind that people send."""
    return {
        "user_id": number,
        "template": "welcome_mail",
        "to": f"user{number}@example.com",
        "locale": "pt-PT",
    }


def new_job(number: int, *, keyed: bool = False) -> NewJob:
    key = f"confirm:{number}" if keyed else None
    return NewJob(job_type="send_email", org_id="org-1", payload=payload(number), key=key)


def settle(url: str) -> None:
    """Have all that was written on the disk: else it would be written beside the next commits.

    The server can then write over its old log, too, instead of making new files.
    """
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("CHECKPOINT")
    os.sync()


@contextmanager
def fresh_store(url: str) -> Iterator[PostgresStore]:
    """A store on tables of its own, gone afterwards."""
    schema = f"bench_{uuid4().hex[:8]}"
    store = PostgresStore(url, schema=schema)
    store.migrate()
    try:
        yield store
    finally:
        store.close()
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(f"DROP SCHEMA {schema} CASCADE".encode())
