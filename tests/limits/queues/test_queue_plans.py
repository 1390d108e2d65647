"""PostgreSQL's plans of a claim by policy: probes of an index, whether its statistics are new or old."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

from onward.stores.postgres.sync.postgres_store import PostgresStore
from tests.limits.queues.asking import Q, asked_by, only
from tests.stores.postgres.postgres_schema import fill, fresh_schema
from tests.stores.postgres.test_postgres_plans import plan_of, scans_of_live

POLICIES = {
    "fair": '{"fair": true, "concurrency": 9}',
    "fair, aged": '{"fair": true, "ageing": 60}',
    "aged": '{"ageing": 60}',
}
BY = {
    "lock_queue": set[str](),
    "count_running": {"live_held"},
    "find_orgs": {"live_fair"},
    "find_fair_jobs": {"live_fair", "live_ready"},
    "find_aged_fair_jobs": {"live_fair", "live_ready"},
    "find_aged_jobs": {"live_ready"},
    "claim_picked_jobs": {"live_pkey", "Tid Scan"},
    "note_turn": set[str](),
}
MOST_ROWS = 1000


@pytest.fixture
def store(postgres_url: str) -> Iterator[PostgresStore]:
    with fresh_schema(postgres_url) as store:
        yield store


@pytest.mark.parametrize("statistics", ["old", "new"])
@pytest.mark.parametrize("policy", POLICIES)
def test_no_statement_of_a_claim_by_policy_reads_more_than_it_gives(store, policy, statistics):
    with psycopg.connect(store.url, autocommit=True) as connection:
        live = f"{store.prefix}live"
        connection.execute(f"ALTER TABLE {live} SET (autovacuum_enabled = off)".encode())
        fill(connection, store, 10)
        connection.execute(f"ANALYZE {live}".encode())
        fill(connection, store, 20_000)
        connection.execute(f"UPDATE {live} SET queue = '{Q}', fair = true, org_id = 'a'".encode())
        if statistics == "new":
            connection.execute(f"VACUUM ANALYZE {live}".encode())
        asked = asked_by(POLICIES[policy])
        assert {"lock_queue", "claim_picked_jobs"} < asked.keys()
        for name, statement in asked.items():
            plan = plan_of(connection, store, only(statement), ran=True)
            assert scans_of_live(plan) == BY[name]
            read = [node["Actual Rows"] * node["Actual Loops"] for node in plan if "Index Name" in node]
            assert sum(read) <= MOST_ROWS
            assert sum(node.get("Rows Removed by Filter", 0) for node in plan) <= MOST_ROWS
