"""What a benchmark gives: our number beside the limit of the same round."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import psycopg

from onward.core.job import NewJob
from onward.stores.postgres import PostgresStore


@dataclass(frozen=True)
class Measure:
    """Ours and the limit in one unit; `ratio` is ours by limit for costs and rates alike."""

    name: str
    unit: str
    ours: float
    limit: float
    target: str

    @property
    def ratio(self) -> float:
        return self.ours / self.limit


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
