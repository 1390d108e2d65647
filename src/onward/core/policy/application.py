"""Which application a process runs: the schema of a named one, and job types that two of them declare."""

from __future__ import annotations

import re
from collections.abc import Mapping

import msgspec

from onward.errors import InvalidSetting

SCHEMA = "onward"
"""The schema of an application without a name."""

_NAME = re.compile(r"[a-z](?:[a-z0-9_]{0,22}[a-z0-9])?")


def schema_of(name: str | None, what: str = "name") -> str:
    """Return the schema of an application's tables; on SQLite it begins their names.

    `what` is where the name came from, for the error about a bad one.

    No two names have a table of one name: what stands before the first `onward` is the name.
    """
    if name is None:
        return SCHEMA
    if not isinstance(name, str) or not _NAME.fullmatch(name) or SCHEMA in name:
        raise InvalidSetting(
            f"{what} is {name!r:.80}; give one such as 'shop': at most 24 lower-case letters, digits and _, "
            f"with a letter at the beginning and without {SCHEMA!r}"
        )
    return f"{name}_{SCHEMA}"


class DeclaredTypes(msgspec.Struct, frozen=True):
    """The job types that an application declares, each with the fingerprint of its signature.

    `application` is its name, or the module that makes it. Both stay when a new version is deployed.
    """

    application: str
    signatures: Mapping[str, str]

    def clashes(self, other: DeclaredTypes) -> list[str]:
        """Return the job types that another application declares with another signature."""
        if self.application == other.application:
            return []
        theirs = other.signatures
        return sorted(name for name, mine in self.signatures.items() if theirs.get(name, mine) != mine)

    def shared(self, other: DeclaredTypes) -> list[str]:
        """Return the job types that another application declares too: each may run the other's jobs."""
        return (
            []
            if self.application == other.application
            else sorted(self.signatures.keys() & other.signatures.keys())
        )


def name_for(application: str) -> str:
    """Return a name to suggest for an application that is known by its module."""
    return application.partition(".")[0].strip("_").lower()
