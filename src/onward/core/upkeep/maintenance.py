"""Maintenance: what was pruned, what became of a partition, and which migrations are pending."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from onward.errors import SchemaBehind, SchemaMissing

Place = Mapping[str, str]
"""Where a walk continues: for each kind that is not at its end, the last key that was read."""


class PruneRound(msgspec.Struct, frozen=True):
    """How many of each kind were removed, or in a dry run would be; `place` is where to continue, or None."""

    counts: Mapping[str, int]
    place: Place | None = None

    @property
    def more(self) -> bool:
        """Whether rows were left that were not looked at yet."""
        return self.place is not None

    @property
    def total(self) -> int:
        """The sum of the counts."""
        return sum(self.counts.values())


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
