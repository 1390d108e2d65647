"""What an operation is made of: it yields statements, is sent their rows, and returns its result."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeVar

import msgspec

from onward.core.arguments import zoned
from onward.core.job import micros

__all__ = ["Lazy", "Operation", "Row", "Rows", "Scalar", "Statement", "as_json", "moment"]

Scalar = str | int | float | None
Row = Sequence[Any]
Lazy = Callable[[], Scalar]

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Rows:
    """A set of rows as one parameter: a JSON text on PostgreSQL, a statement run over each on SQLite."""

    columns: tuple[str, ...]
    values: Sequence[tuple[Scalar, ...]]


@dataclass(frozen=True, slots=True)
class Statement:
    """One named statement of the SQL catalogue, with its parameters; a `Lazy` one is made only if used."""

    name: str
    params: Mapping[str, Scalar | Rows | Lazy]


Operation = Generator[Statement, Sequence[Row], T]


def moment(instant: datetime | None) -> int | None:
    """Give an instant as a parameter; None lets the database's clock decide."""
    return None if instant is None else micros(zoned("now", instant))


def as_json(value: object) -> str:
    """Give a list or a mapping of plain values as a parameter."""
    return msgspec.json.encode(value).decode()
