"""What job types are for: what their code declares, and what is known of them in the database."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from onward.core.limits.pause import Pause, TypeSkip

MOST_DESCRIBED_BYTES = 32_768
"""How much a worker reports of its job types; their names it reports all."""


class DeclaredJobType(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What the code declares of a job type; `created_by` and `triggered_by` are for people."""

    name: str
    purpose: str | None = None
    queue: str | None = None
    category: str = "default"
    created_by: str | None = None
    triggered_by: tuple[str, ...] = ()
    enabled: bool = True


class KnownJobType(msgspec.Struct, frozen=True, kw_only=True):
    """A job type that this application declares or that a live worker knows.

    `triggered_by` includes its schedules. `workers` is the number of live workers that have its handler.
    """

    name: str
    purpose: str | None
    queue: str | None
    category: str | None
    created_by: str | None
    triggered_by: tuple[str, ...]
    enabled: bool
    skip: TypeSkip | None
    pause: Pause | None
    workers: int


def described(types: Mapping[str, DeclaredJobType]) -> dict[str, object]:
    """Return what a worker reports of its job types, as many as the length of the report allows."""
    left = MOST_DESCRIBED_BYTES
    found: dict[str, object] = {}
    for name, declared in sorted(types.items()):
        left -= len(msgspec.json.encode(declared)) + len(name)
        if left < 0:
            break
        found[name] = msgspec.to_builtins(declared)
    return found


def read_described(value: object) -> dict[str, DeclaredJobType]:
    """Return what a worker reported; a worker of another version may have reported anything."""
    found: dict[str, DeclaredJobType] = {}
    for name, one in value.items() if isinstance(value, Mapping) else ():
        try:
            found[str(name)] = msgspec.convert(one, DeclaredJobType)
        except msgspec.ValidationError:
            continue
    return found
