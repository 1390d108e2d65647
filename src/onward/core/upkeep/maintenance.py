"""Maintenance: what was pruned, what became of a partition, and which migrations are pending."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from onward.core.page import Cursor
from onward.errors import SchemaBehind, SchemaMissing


class PruneRound(msgspec.Struct, frozen=True):
    """How many of each kind were removed, or in a dry run would be; None as cursor: nothing is left."""

    counts: Mapping[str, int]
    next_cursor: Cursor | None = None


class Tended(msgspec.Struct, frozen=True):
    """What happened to a partition: it was created and jobs were moved into it, or dropped, or why not."""

    done: str
    name: str
    detail: str | None


class Migration(msgspec.Struct, frozen=True):
    """One numbered migration with its SQL, whose last statement records it as applied."""

    version: int
    name: str
    sql: str


class Plan(msgspec.Struct, frozen=True):
    """The version of the schema, and the migrations that `migrate` would apply."""

    version: int
    newest: int
    pending: tuple[Migration, ...]

    @property
    def sql(self) -> str:
        """The SQL of all pending migrations; run by hand, it records them as applied too."""
        return "\n".join(f"-- migration {step.version:04}: {step.name}\n{step.sql}" for step in self.pending)

    def check(self) -> None:
        """Raise SchemaMissing or SchemaBehind unless the schema has the version that this code needs."""
        if self.version == 0:
            raise SchemaMissing(
                "Onward's tables are not in this database; run onward migrate, or client.migrate()"
            )
        if self.pending:
            raise SchemaBehind(
                f"the schema is at version {self.version}, this code needs {self.newest}; "
                "run onward migrate, or client.migrate()"
            )
