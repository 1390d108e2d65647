"""The diagnosis of a database: one function for each kind of finding."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta

from onward.core.secrets.redaction import redact_text
from onward.core.upkeep.diagnosis import Finding, fine, found, lasting, problem, psql, warning
from onward.core.upkeep.facts import DatabaseSeen, VacuumHolder
from onward.errors import (
    OnwardError,
    SchemaBehind,
    SchemaMissing,
    SchemaTooNew,
    StorageFull,
    StoreBusy,
    StoreError,
    StoreUnreachable,
)

DATABASE_CODES = frozenset({
    "database_missing", "database_unreachable", "schema_behind", "schema_missing", "schema_too_new",
})  # fmt: skip
"""Findings that prevent any further check; the command line exits with code 5."""

_NAMES = {"sqlite": "SQLite", "postgres": "PostgreSQL"}
_LARGE_LOG = 256 * 2**20
_MANY_DEAD_ROWS = 100_000
_LONG_TRANSACTION = 300
_OLD_SLOT = 1_000_000
# The first release of each line without the bug in which a reset of the write-ahead log damages the file.
_MENDED = ((3, 44, 6), (3, 50, 7), (3, 51, 3))


def examine(seen: DatabaseSeen) -> list[Finding]:
    """Return the findings on a database that answers, including that it does."""
    return [finding for check in _CHECKS for finding in check(seen)]


def trouble(error: OnwardError) -> Finding:  # noqa: PLR0911 - one for each
    """Return the finding for an error that ended a check of the database."""
    text = redact_text(str(error))
    facts = {"error": error.code, "message": text}
    match error:
        case SchemaMissing():
            return problem(
                "schema_missing", "Onward's tables are not in this database", "onward migrate", **facts
            )
        case SchemaBehind():
            return problem(
                "schema_behind", f"the tables are older than this code: {text}", "onward migrate", **facts
            )
        case SchemaTooNew():
            return problem(
                "schema_too_new",
                f"the tables are newer than this code: {text}",
                "pip install -U onward",
                **facts,
            )
        case StoreUnreachable():
            return problem("database_unreachable", text, "start the database, or correct ONWARD_URL", **facts)
        case StoreBusy():
            return problem("database_busy", text, "end the transaction that holds it", **facts)
        case StorageFull():
            return problem("storage_full", text, "make room on the disk of the database", **facts)
    remedy = "see the log and the disk of the database" if isinstance(error, StoreError) else None
    return problem("check_failed", f"a part of the diagnosis failed: {text}", remedy, **facts)


def missing_file(path: str) -> Finding:
    """Return the finding for a missing database file; the check does not create it."""
    return problem(
        "database_missing", f"there is no database file {path}; the first worker or enqueue makes it",
        "onward migrate", path=path,
    )  # fmt: skip


def app_broken(name: str | None, error: Exception) -> Finding:
    """Return the finding for an app that can't be imported: the other findings use default settings."""
    cause = error.__cause__ or error
    module = (name or "").partition(":")[0]
    return problem(
        "app_broken",
        f"{redact_text(str(error))}; the rest is by default policies",
        # Its traceback shows where the import fails.
        f'python -c "import {module}"' if error.__cause__ else "name the app: --app module:attribute",
        app=name, error=type(cause).__name__, message=redact_text(str(cause)),
    )  # fmt: skip


def dry_run() -> Finding:
    """Return the finding that the dry run is on: effects are not done."""
    return warning(
        "dry_run", "the dry run is on: jobs succeed, and their effects are not done", "Onward(dry_run=False)"
    )


def _answers(seen: DatabaseSeen) -> Iterator[Finding]:
    took = seen.round_trip.total_seconds() * 1000
    name = _NAMES[seen.kind]
    yield fine(
        "database", f"{name} {seen.version}, {took:.3g} ms round trip", round_trip_ms=round(took, 3),
        version=seen.version,
    )  # fmt: skip
    if seen.schema is not None:
        yield fine("schema", f"version {seen.schema}, as this code needs it", version=seen.schema)


def _sqlite_version(seen: DatabaseSeen) -> Iterator[Finding]:
    if seen.kind != "sqlite":
        return
    version = tuple(int(part) for part in seen.version.split(".")[:3])
    line = [mended for mended in _MENDED if mended[:2] == version[:2]]
    if version < (line[0] if line else _MENDED[-1]):
        yield warning(
            "sqlite_version",
            f"SQLite {seen.version} can damage a file when two programs write and checkpoint at once; "
            "Onward never does, others that open the file may",
            "run Python with SQLite 3.51.3 or newer (3.50.7 and 3.44.6 are mended too)",
            version=seen.version,
        )


def _sqlite_log(seen: DatabaseSeen) -> Iterator[Finding]:
    if seen.log_bytes > _LARGE_LOG:
        yield warning(
            "sqlite_log_large",
            f"the write-ahead log has {seen.log_bytes // 2**20} MiB: a reader that never ends keeps it from "
            "being folded back",
            "close shells, backups and readers that keep a transaction open on the file",
            log_bytes=seen.log_bytes,
        )


def _pooler(seen: DatabaseSeen) -> Iterator[Finding]:
    if seen.pooler:
        yield warning(
            "pooler",
            "a connection pooler such as PgBouncer is in between: wake-ups don't arrive, workers poll",
            "give workers an ONWARD_URL that leads to the server itself",
        )


def _bloat(seen: DatabaseSeen) -> Iterator[Finding]:
    dead, live = seen.dead_rows or 0, seen.live_rows or 0
    if dead > max(_MANY_DEAD_ROWS, 2 * live):
        yield warning(
            "table_bloat",
            f"{seen.table} has {dead} dead rows beside {live} live ones; each claim walks over them",
            psql(f"VACUUM {seen.table}"),
            dead_rows=dead,
            live_rows=live,
        )


def _autovacuum(seen: DatabaseSeen) -> Iterator[Finding]:
    if seen.autovacuum is False:
        yield warning(
            "autovacuum_off",
            f"autovacuum is off, for the server or for {seen.table}; only workers remove dead rows",
            psql(f"ALTER TABLE {seen.table} RESET (autovacuum_enabled)"),
        )


def _vacuum_held_back(seen: DatabaseSeen) -> Iterator[Finding]:
    for holder in seen.vacuum_holders:
        if (holder.seconds or 0) >= _LONG_TRANSACTION or (
            holder.seconds is None and (holder.age or 0) >= _OLD_SLOT
        ):
            yield warning(
                "vacuum_held_back",
                f"{_described(holder)} keeps dead rows from being removed",
                _ended_by(holder),
                kind=holder.kind,
                name=holder.name,
                pid=holder.pid,
                state=holder.state,
                seconds=holder.seconds,
                transactions=holder.age,
            )


def _described(holder: VacuumHolder) -> str:
    age = (
        f"{holder.age} transactions" if holder.seconds is None else lasting(timedelta(seconds=holder.seconds))
    )
    name = f" {holder.name}" if holder.name else ""
    state = f", {holder.state}" if holder.state else ""
    return f"a {holder.kind}{name} of {age} ago{state}"


def _ended_by(holder: VacuumHolder) -> str:
    # The name of a prepared transaction is any text that its session chose, so quote it.
    name = (holder.name or "").replace("'", "''")
    match holder.kind:
        case "replication slot":
            return psql(f"SELECT pg_drop_replication_slot('{name}')")
        case "prepared transaction":
            return psql(f"ROLLBACK PREPARED '{name}'")
    return psql(f"SELECT pg_terminate_backend({holder.pid})")


def _damage(seen: DatabaseSeen) -> Iterator[Finding]:
    if seen.damage:
        yield found(
            "damaged",
            "problem",
            f"the check of the tables found {len(seen.damage)} faults: {seen.damage[0]}",
            "REINDEX the index" if seen.kind == "postgres" else "restore the file from a backup",
            faults=list(seen.damage),
        )


_CHECKS: tuple[Callable[[DatabaseSeen], Iterator[Finding]], ...] = (
    _answers, _sqlite_version, _sqlite_log, _pooler, _bloat, _autovacuum, _vacuum_held_back, _damage,
)  # fmt: skip
