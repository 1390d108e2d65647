"""What the tables take up, and what is said about it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import psycopg

from onward import Client
from onward.core.upkeep.sizes import FileSize, IndexSize, SizeReport, TableSize, advise
from tests.upkeep.maintenance.maintenance_history import put_ended

NOW = datetime(2026, 6, 1, tzinfo=UTC)
MIB = 2**20


def advice(**found: object) -> list[str]:
    """What is said of a database that is well but for this."""
    report = SizeReport(**{"file": FileSize(bytes=100 * MIB), **found})  # type: ignore[arg-type]
    return [one.sql for one in advise(report, NOW)]


def table(**changes: object) -> TableSize:
    return TableSize(**{
        "name": "onward.live", "bytes": 100 * MIB, "heap_bytes": 80 * MIB, "live_rows": 400_000,
        "dead_rows": 0, "row_bytes": 160, "vacuumed_at": NOW, **changes,
    })  # type: ignore[arg-type]  # fmt: skip


def index(**changes: object) -> IndexSize:
    return IndexSize(**{
        "name": "onward.live_ready", "table": "onward.live", "bytes": 40 * MIB, "entries": 900_000,
        "key_bytes": 24, **changes,
    })  # type: ignore[arg-type]  # fmt: skip


def test_what_is_well_needs_nothing():
    assert advice(tables=(table(),), indexes=(index(),)) == []
    assert advice(tables=(table(live_rows=0, row_bytes=None),), indexes=(index(key_bytes=None),)) == []


def test_dead_rows_are_vacuumed_and_autovacuum_is_told_to_come_sooner():
    many = table(dead_rows=200_000)
    assert advice(tables=(many,)) == ["VACUUM (ANALYZE) onward.live"]
    unseen = table(dead_rows=200_000, vacuumed_at=NOW - timedelta(days=2))
    assert advice(tables=(unseen,))[1].startswith(
        "ALTER TABLE onward.live SET (autovacuum_vacuum_scale_factor"
    )


def test_an_index_that_is_mostly_empty_is_made_anew_while_all_goes_on():
    assert advice(indexes=(index(entries=100_000),)) == ["REINDEX INDEX CONCURRENTLY onward.live_ready"]
    # Of one that is small nobody gains anything.
    assert advice(indexes=(index(entries=1, bytes=8192),)) == []


def test_a_table_that_is_mostly_empty_may_give_it_back():
    assert advice(tables=(table(live_rows=1000),)) == ["VACUUM (FULL, ANALYZE) onward.live"]


def test_a_file_of_free_pages_and_very_old_rows_are_told():
    assert advice(file=FileSize(bytes=100 * MIB, free_bytes=60 * MIB)) == ["VACUUM"]
    assert advice(file=FileSize(bytes=MIB, oldest_transaction=1_500_000_000)) == ["VACUUM (FREEZE)"]


def test_the_report_of_either_database_tells_its_size(client):
    put_ended(client)
    report = client.maintenance.report()
    assert report.file.bytes > 0
    assert report.advice == ()
    if client.store.database == "sqlite":
        assert report.file.log_bytes > 0
        assert report.tables == ()


def test_postgres_tells_of_every_table_and_index(postgres):
    client = Client(store=postgres)
    for _ in range(3):
        put_ended(client)
    with psycopg.connect(postgres.url, autocommit=True) as connection:
        connection.execute(f"VACUUM (ANALYZE) {postgres.prefix}keys, {postgres.prefix}workers".encode())
    report = client.maintenance.report()
    workers = next(one for one in report.tables if one.name == f"{postgres.prefix}workers")
    assert workers.row_bytes
    assert workers.fill == 50
    assert workers.vacuumed_at is not None
    assert workers.analyzed_at is not None
    assert workers.bytes >= workers.heap_bytes > 0
    key = next(one for one in report.indexes if one.name == f"{postgres.prefix}workers_pkey")
    assert (key.table, key.entries) == (workers.name, 3)
    assert key.key_bytes
    assert report.file.oldest_transaction is not None


def test_hot_tables_are_vacuumed_sooner(postgres):
    with psycopg.connect(postgres.url, autocommit=True) as connection:
        rows = connection.execute(
            "SELECT relname, array_to_string(reloptions, ' ') FROM pg_class "
            "WHERE relnamespace = CAST(%s AS regnamespace) AND relkind = 'r'",
            [postgres.prefix.rstrip(".")],
        ).fetchall()
    options = {name: said or "" for name, said in rows}
    for name in ("workers", "leaders", "permits"):
        assert "autovacuum_vacuum_threshold=200" in options[name]
    for name in ("keys", "effects", "ended_rest"):
        assert "autovacuum_vacuum_scale_factor=0.05" in options[name]
    for name in ("audit", "usage"):
        assert "autovacuum_vacuum_insert_scale_factor=0.02" in options[name]
