"""The least that any queue on PostgreSQL does for a job, by psycopg alone: what latencies are beside.

One committed INSERT with a NOTIFY, and one committed UPDATE by whoever listens: a row of three columns, no
audit, no lease, no retries.
"""

from __future__ import annotations

import os
from collections.abc import Callable

import psycopg

from bench.speaking import Tally, Timer, clock, serve

TABLE = """
CREATE TABLE bare (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, state text NOT NULL, sent bigint NOT NULL
);
CREATE INDEX ON bare (id) WHERE state = 'queued'
"""
ENQUEUE = """
WITH job AS (INSERT INTO bare (state, sent) VALUES ('queued', %s) RETURNING id)
SELECT pg_notify('bare', '') FROM job
"""
CLAIM = """
UPDATE bare SET state = 'running'
WHERE id = (SELECT id FROM bare WHERE state = 'queued' ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED)
RETURNING sent
"""


def connect() -> psycopg.Connection:
    return psycopg.connect(os.environ["BARE_URL"], autocommit=True)


class Bare:
    """The verbs of latencies."""

    def setup(self) -> None:
        with connect() as connection:
            connection.execute(TABLE)

    def one(self, jobs: int, timer: Timer) -> None:
        raise NotImplementedError

    many = one

    def trickle(self, jobs: int, pause: Callable[[], None]) -> None:
        with connect() as connection:
            for _ in range(jobs):
                pause()
                connection.execute(ENQUEUE, (clock(),), prepare=True)

    def work(self, tally: Tally, *, drain: bool) -> None:  # noqa: ARG002
        with connect() as listener, connect() as claimer:
            listener.execute("LISTEN bare")
            for _ in listener.notifies():
                for (sent,) in claimer.execute(CLAIM, prepare=True):
                    tally.started(sent)


if __name__ == "__main__":
    serve(Bare())
