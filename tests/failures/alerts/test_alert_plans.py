"""To look for deaths costs next to nothing, however many have died before."""

from __future__ import annotations

import re
import sqlite3
from contextlib import closing

import psycopg

from onward import Client
from onward.sql.catalogue import catalogue
from tests.stores.postgres.postgres_schema import fresh_schema

PARAMS = {"now": None, "overlap": 10_000_000, "limit": 500}

FILL = """
INSERT INTO {prefix}ended
    (id, job_type, queue, category, state, priority, run_at, max_attempts, payload, created_at, outcome,
    ended_at)
SELECT
    gen_random_uuid(), 'fill', 'q:default', 'default', 'dead', 5, now(), 5, '{{}}', now(), 'failed',
    now() - interval '1 day'
FROM generate_series(1, 2000)
"""


def test_on_postgresql_no_death_of_the_past_is_read(postgres_url):
    with fresh_schema(postgres_url) as store, psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(FILL.format(prefix=store.prefix).encode())
        [step] = catalogue("postgres", "percent", store.prefix)["find_deaths"].steps
        for _ in range(2):
            plan = connection.execute(f"EXPLAIN ANALYZE {step.text}".encode(), PARAMS).fetchall()
            text = "\n".join(line for (line,) in plan)
            assert "Index Cond: (ended_at >= " in text
            assert "Rows Removed by Filter: 2000" not in text
            connection.execute("ANALYZE")


def test_on_sqlite_deaths_are_found_by_their_index(tmp_path):
    with Client(f"sqlite:///{tmp_path}/onward.db") as client:
        client.migrate()
    [step] = catalogue("sqlite", "question", "onward_")["find_deaths"].steps
    # The plan does not depend on the numbers.
    text = re.sub(r"\?\d+", "0", step.text)
    with closing(sqlite3.connect(tmp_path / "onward.db")) as connection:
        plan = connection.execute(f"EXPLAIN QUERY PLAN {text}").fetchall()
    assert "SEARCH gone USING INDEX onward_ended_deaths (ended_at>?)" in str(plan)
