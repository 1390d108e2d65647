"""Read the numbered migrations of a database, and compare them with those that were applied.

Each migration is one transaction, which also inserts the migration's row into the `migrations` table, so no
migration is ever half applied. A migration is a file `0002_name.sql`, or a folder `0001_name` whose files are
applied in the order of their names.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Collection, Iterator, Sequence
from importlib.resources import files
from importlib.resources.abc import Traversable

from onward.core.upkeep.maintenance import Migration, Plan
from onward.errors import InvalidSetting, SchemaTooNew
from onward.sql.catalogue import Database, expand

BUNDLED: Traversable = files("onward.sql").joinpath("migrations")

_NAME = re.compile(r"(\d{4})_(\w+?)(?:\.sql)?")
_PREFIX = {"sqlite": re.compile(r"[a-z][a-z0-9_]{0,30}_"), "postgres": re.compile(r"[a-z][a-z0-9_]{0,30}\.")}
# Appended to every migration after the first: where row-level security is on, new tables get it too.
_PROTECT_NEW_TABLES = """DO $$
BEGIN
    IF (SELECT relrowsecurity FROM pg_class WHERE oid = to_regclass('{live}')) THEN
        PERFORM {prefix}protect_orgs(true);
    END IF;
END
$$;
"""


def read_migrations(database: Database, prefix: str, folder: Traversable = BUNDLED) -> tuple[Migration, ...]:
    """Return the migrations for a kind of database, in order."""
    found = [(_NAME.fullmatch(entry.name), entry) for entry in folder.joinpath(database).iterdir()]
    steps = [
        _migration(int(name[1]), name[2], _text(entry), database, prefix) for name, entry in found if name
    ]
    return tuple(sorted(steps, key=lambda step: step.version))


def _text(entry: Traversable) -> str:
    if entry.is_file():
        return entry.read_text(encoding="utf-8")
    parts = sorted(
        (part for part in entry.iterdir() if part.name.endswith(".sql")), key=lambda part: part.name
    )
    return "\n".join(part.read_text(encoding="utf-8") for part in parts)


def _migration(version: int, name: str, text: str, database: Database, prefix: str) -> Migration:
    protect = _PROTECT_NEW_TABLES if database == "postgres" and version > 1 else ""
    record = f"INSERT INTO {{migrations}} (version, name) VALUES ({version}, '{name}');\n"  # noqa: S608
    return Migration(version, name, expand(f"{text.rstrip()}\n\n{protect}{record}", database, prefix))


def plan(bundled: Sequence[Migration], applied: Collection[int]) -> Plan:
    """Return which known migrations are pending; raise SchemaTooNew if the schema is newer than this code."""
    newest, version = bundled[-1].version, max(applied, default=0)
    if version > newest:
        raise SchemaTooNew(
            f"the schema is at version {version}, this code knows {newest}; upgrade onward to run it here"
        )
    return Plan(version, newest, tuple(step for step in bundled if step.version not in applied))


def statements(sql: str) -> Iterator[str]:
    """Split a script into statements; sqlite3's own `executescript` would commit first."""
    text = ""
    for line in sql.splitlines(keepends=True):
        text += line
        if sqlite3.complete_statement(text):
            yield text
            text = ""
    if text.strip():
        yield text


def check_prefix(database: Database, prefix: str) -> str:
    """Return the prefix; raise InvalidSetting if it would need quoting in SQL."""
    if not _PREFIX[database].fullmatch(prefix):
        form = "a name such as onward_" if database == "sqlite" else "a schema's name such as onward"
        raise InvalidSetting(f"table prefix {prefix!r}: give {form}, of lower-case letters, digits and _")
    return prefix
