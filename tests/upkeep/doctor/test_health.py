"""What is said of a database that answers, and of errors of one that does not."""

from __future__ import annotations

import shlex
from datetime import timedelta
from typing import Any

import pytest

from onward.core.upkeep.facts import DatabaseSeen, VacuumHolder
from onward.core.upkeep.health import examine, trouble
from onward.errors import (
    NotAllowed,
    SchemaBehind,
    SchemaMissing,
    SchemaTooNew,
    StorageFull,
    StoreBusy,
    StoreError,
    StoreUnreachable,
)
from tests.upkeep.doctor.facts import codes, of


def postgres(**known: Any) -> DatabaseSeen:
    return DatabaseSeen(**({"kind": "postgres", "version": "16.4", "table": "onward.live"} | known))


def sqlite(version: str = "3.51.3", **known: Any) -> DatabaseSeen:
    return DatabaseSeen(kind="sqlite", version=version, **known)


def held_by(kind: str = "transaction", seconds: int | None = 600, age: int | None = 1) -> VacuumHolder:
    return VacuumHolder(kind, "name", 42, "idle in transaction", seconds, age)


@pytest.mark.parametrize(
    ("seen", "expected"),
    [
        (postgres(), set()),
        (postgres(pooler=True), {"pooler"}),
        (postgres(dead_rows=100_001, live_rows=10), {"table_bloat"}),
        (postgres(dead_rows=100_000, live_rows=10), set()),
        (postgres(dead_rows=150_000, live_rows=100_000), set()),
        (postgres(autovacuum=False), {"autovacuum_off"}),
        (postgres(autovacuum=True), set()),
        (postgres(vacuum_holders=[held_by()]), {"vacuum_held_back"}),
        (postgres(vacuum_holders=[held_by(seconds=299)]), set()),
        (postgres(vacuum_holders=[held_by("replication slot", None, 1_000_000)]), {"vacuum_held_back"}),
        (postgres(vacuum_holders=[held_by("replication slot", None, 999_999)]), set()),
        (postgres(damage=["index i is not valid"]), {"damaged"}),
        (sqlite(log_bytes=300 * 2**20), {"sqlite_log_large"}),
        (sqlite(log_bytes=200 * 2**20), set()),
        (sqlite(damage=["row missing"]), {"damaged"}),
    ],
)
def test_what_is_seen_of_a_database_is_this_finding(seen, expected):
    assert codes(examine(seen)) == expected


@pytest.mark.parametrize(
    ("version", "safe"),
    [
        ("3.35.0", False),
        ("3.44.5", False),
        ("3.44.6", True),
        ("3.45.0", False),
        ("3.50.6", False),
        ("3.50.7", True),
        ("3.51.2", False),
        ("3.51.3", True),
        ("3.52.0", True),
        ("4.0.0", True),
    ],
)
def test_a_version_of_sqlite_that_can_damage_its_file_is_named(version, safe):
    assert codes(examine(sqlite(version))) == (set() if safe else {"sqlite_version"})


@pytest.mark.parametrize(
    ("kind", "command"),
    [
        ("transaction", "pg_terminate_backend(42)"),
        ("replication slot", "pg_drop_replication_slot('name')"),
        ("prepared transaction", "ROLLBACK PREPARED 'name'"),
    ],
)
def test_what_holds_vacuum_back_is_ended_by_its_own_command(kind, command):
    found = of(examine(postgres(vacuum_holders=[held_by(kind)])), "vacuum_held_back")
    assert found.remedy is not None
    assert command in found.remedy


def test_a_database_that_answers_says_its_version_and_how_fast():
    found = of(examine(postgres(round_trip=timedelta(milliseconds=2), schema=12)), "database")
    assert (found.severity, found.title) == ("ok", "PostgreSQL 16.4, 2 ms round trip")


@pytest.mark.parametrize(
    ("error", "code", "remedy"),
    [
        (SchemaMissing("x"), "schema_missing", "onward migrate"),
        (SchemaBehind("x"), "schema_behind", "onward migrate"),
        (SchemaTooNew("x"), "schema_too_new", "pip install -U onward"),
        (StoreUnreachable("x"), "database_unreachable", "start the database, or correct ONWARD_URL"),
        (StoreBusy("x"), "database_busy", "end the transaction that holds it"),
        (StorageFull("x"), "storage_full", "make room on the disk of the database"),
        (NotAllowed("x"), "check_failed", None),
        (StoreError("x"), "check_failed", "see the log and the disk of the database"),
    ],
)
def test_an_error_of_the_database_is_a_finding(error, code, remedy):
    found = trouble(error)
    assert found.severity == "problem"
    assert (found.code, found.remedy, found.evidence["error"]) == (code, remedy, error.code)


def test_an_error_tells_no_password():
    found = trouble(StoreUnreachable("no answer from postgresql://app:hunter2hunter2@db/app"))
    assert "hunter2" not in f"{found.title}{found.evidence}"


def test_a_shell_finds_nothing_to_run_in_a_name_that_somebody_else_chose():
    named = VacuumHolder("prepared transaction", "x'; $(id) \"", None, None, 1000, 5)
    [found] = [one for one in examine(postgres(vacuum_holders=[named])) if one.code == "vacuum_held_back"]
    assert shlex.split(found.remedy or "") == ["psql", "-c", "ROLLBACK PREPARED 'x''; $(id) \"'"]
