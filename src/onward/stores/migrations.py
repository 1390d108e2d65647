"""The numbered migrations of a database: which there are, which were applied, and what is still to do.

One migration is one transaction, which also writes its row in the table of versions: none is ever half done.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from onward.errors import InvalidSetting, SchemaBehind, SchemaMissing, SchemaTooNew
from onward.sql.catalogue import Database, expand

__all__ = ["Migration", "Plan", "bundled", "check_prefix", "plan", "statements"]

_FILE = re.compile(r"(\d{4})_(\w+)\.sql")
_PREFIX = {"sqlite": re.compile(r"[a-z][a-z0-9_]{0,30}_"), "postgres": re.compile(r"[a-z][a-z0-9_]{0,30}\.")}
_VERSIONS: dict[Database, str] = {
    "sqlite": "CREATE TABLE IF NOT EXISTS {migrations} "
    "(version INTEGER PRIMARY KEY, name TEXT NOT NULL, applied_at TEXT NOT NULL DEFAULT CURRENT_TIMESTAMP)",
    "postgres": "CREATE TABLE IF NOT EXISTS {migrations} "
    "(version integer PRIMARY KEY, name text NOT NULL, "
    "applied_at timestamptz NOT NULL DEFAULT clock_timestamp())",
}

# Part of every migration after the one that has it, so that no table is ever without the others' protection.
_ROW_SECURITY = 5
_PROTECT_NEW_TABLES = """DO $$
BEGIN
    IF (SELECT relrowsecurity FROM pg_class WHERE oid = to_regclass('{live}')) THEN
        PERFORM {prefix}protect_orgs(true);
    END IF;
END
$$;
"""


@dataclass(frozen=True, slots=True)
class Migration:
    """One numbered step of the schema, with its SQL; the last statement records it as applied."""

    version: int
    name: str
    sql: str


@dataclass(frozen=True, slots=True)
class Plan:
    """Where the schema stands, and what `migrate` would do."""

    version: int
    newest: int
    pending: tuple[Migration, ...]

    @property
    def sql(self) -> str:
        """The SQL of all that is pending, as `migrate` would run it; also by hand it is recorded."""
        return "\n".join(f"-- migration {step.version:04}: {step.name}\n{step.sql}" for step in self.pending)

    def check(self) -> None:
        """Raise unless the schema is the one that this code was written for."""
        if self.version == 0:
            raise SchemaMissing(
                "Onward's tables are not in this database; run onward migrate, or client.migrate()"
            )
        if self.pending:
            raise SchemaBehind(
                f"the schema is at version {self.version}, this code needs {self.newest}; "
                "run onward migrate, or client.migrate()"
            )


@cache
def bundled(database: Database, prefix: str) -> tuple[Migration, ...]:
    """Read the migrations of this version in order; the first also makes the table of versions."""
    folder = files("onward.sql").joinpath("migrations", database)
    found = sorted(
        (file for file in folder.iterdir() if _FILE.fullmatch(file.name)), key=lambda file: file.name
    )
    return tuple(_read(file.name, file.read_text(encoding="utf-8"), database, prefix) for file in found)


def _read(file: str, text: str, database: Database, prefix: str) -> Migration:
    number, name = _FILE.fullmatch(file).groups()  # type: ignore[union-attr]
    version = int(number)
    if version == 1:
        schema = f"CREATE SCHEMA IF NOT EXISTS {prefix.rstrip('.')};\n" if database == "postgres" else ""
        text = f"{schema}{_VERSIONS[database]};\n\n{text}"
    protect = _PROTECT_NEW_TABLES if database == "postgres" and version > _ROW_SECURITY else ""
    record = f"INSERT INTO {{migrations}} (version, name) VALUES ({version}, '{name}');\n"  # noqa: S608
    return Migration(version, name, expand(f"{text.rstrip()}\n\n{protect}{record}", database, prefix))


def plan(database: Database, prefix: str, applied: Collection[int]) -> Plan:
    """Compare what was applied with what this code knows; a schema newer than the code is refused."""
    known = bundled(database, prefix)
    newest, version = known[-1].version, max(applied, default=0)
    if version > newest:
        raise SchemaTooNew(
            f"the schema is at version {version}, this code knows {newest}; upgrade onward to run it here"
        )
    return Plan(version, newest, tuple(step for step in known if step.version not in applied))


def statements(sql: str) -> Iterator[str]:
    """Split a script for SQLite, whose own `executescript` would commit in between."""
    text = ""
    for line in sql.splitlines(keepends=True):
        text += line
        if sqlite3.complete_statement(text):
            yield text
            text = ""
    if text.strip():
        yield text


def check_prefix(database: Database, prefix: str) -> str:
    """Refuse a prefix that could not stand in SQL as it is."""
    if not _PREFIX[database].fullmatch(prefix):
        form = "a name such as onward_" if database == "sqlite" else "a schema's name such as onward"
        raise InvalidSetting(f"table prefix {prefix!r}: give {form}, of lower-case letters, digits and _")
    return prefix
