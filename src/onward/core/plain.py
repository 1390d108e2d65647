"""Convert values to what JSON can hold: the one encoder of everything that Onward prints for programs.

Fields have their names in Python. A time is RFC 3339 text in UTC with microseconds, a duration is a number of
seconds. A class may list fields that are never shown (`HIDDEN`) and properties that are shown (`DERIVED`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import fields, is_dataclass
from datetime import UTC, date, datetime, timedelta
from enum import Enum
from typing import Any
from uuid import UUID

import msgspec

from onward.core.secrets.redaction import Redaction


def plain(value: object, redaction: Redaction | None = None) -> Any:
    """Return a value as dicts, lists, texts and numbers, without secrets if a redaction is given.

    Raise TypeError for a value that has no such form.
    """
    shown = _plain(value)
    return shown if redaction is None else redaction.redact(shown)


def plain_time(at: datetime) -> str:
    """Return an instant as RFC 3339 text in UTC, with microseconds."""
    if at.tzinfo is None:
        raise TypeError(f"{at!r} has no time zone, so it is no instant")
    return at.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def _plain(value: Any) -> Any:
    match value:
        # An enum may also be a text or a number, and json would show some of those by their names.
        case Enum():
            shown = _plain(value.value)
        case None | str() | bool() | int() | float():
            shown = value
        case datetime():
            shown = plain_time(value)
        case timedelta():
            shown = value.total_seconds()
        case date() | UUID():
            shown = str(value)
        case Mapping():
            shown = {_name(key): _plain(member) for key, member in value.items()}
        case _:
            shown = _plain_members(value)
    return shown


def _plain_members(value: Any) -> Any:
    """Return a value that has members: by their names, in their order, or sorted."""
    names = _field_names(value)
    if names is not None:
        return {name: _plain(getattr(value, name)) for name in _shown_names(value, names)}
    if isinstance(value, list | tuple):
        return [_plain(member) for member in value]
    if isinstance(value, AbstractSet):
        return sorted((_plain(member) for member in value), key=_order)
    raise TypeError(f"a {type(value).__name__} has no form in JSON")


def _field_names(value: Any) -> tuple[str, ...] | None:
    """Return the fields of a Struct, a dataclass or a named tuple; None for anything else."""
    if isinstance(value, msgspec.Struct):
        return value.__struct_fields__
    if is_dataclass(value):
        return tuple(field.name for field in fields(value))
    return getattr(value, "_fields", None) if isinstance(value, tuple) else None


def _shown_names(value: Any, names: tuple[str, ...]) -> Iterator[str]:
    hidden = getattr(value, "HIDDEN", ())
    yield from (name for name in names if name not in hidden and not name.startswith("_"))
    yield from getattr(value, "DERIVED", ())


def _name(key: object) -> str:
    """Return the key of a mapping as text."""
    name = _plain(key)
    if isinstance(name, str):
        return name
    if name is None or isinstance(name, bool | int | float):
        return msgspec.json.encode(name).decode()
    raise TypeError(f"a {type(key).__name__} can't be a name in JSON")


def _order(member: object) -> bytes:
    return msgspec.json.encode(member, order="sorted")
