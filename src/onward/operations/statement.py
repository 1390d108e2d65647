"""What an operation is made of: it yields statements, is sent their rows, and returns its result."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from operator import itemgetter
from typing import Any, TypeVar

import msgspec

from onward.core.arguments import zoned
from onward.core.job import micros

__all__ = [
    "Check", "Operation", "Row", "Rows", "Scalar", "Several", "Statement", "as_json", "moment", "picker",
    "with_params",
]  # fmt: skip

Scalar = str | int | float | None
Row = Sequence[Any]

T = TypeVar("T")


class Rows(msgspec.Struct, frozen=True):
    """A set of rows as one parameter: `values` by `columns`, and what all of them have in `common`.

    A column that is in neither is null.
    """

    columns: tuple[str, ...]
    values: Sequence[tuple[Scalar, ...]]
    common: Mapping[str, Scalar] = {}

    @classmethod
    def of(cls, columns: tuple[str, ...], values: Sequence[tuple[Scalar, ...]]) -> Rows:
        """Part what the rows have in common from what each has of its own."""
        if not values:
            return cls((), ())
        count = len(values)
        own = tuple(
            at
            for at, column in enumerate(zip(*values, strict=True))
            if column[0] != column[-1] or column.count(column[0]) != count
        )
        common = {
            name: value
            for at, (name, value) in enumerate(zip(columns, values[0], strict=True))
            if value is not None and at not in own
        }
        pick = picker(own)
        return cls(tuple(columns[at] for at in own), [pick(row) for row in values], common)


class Statement(msgspec.Struct, frozen=True):
    """One named statement of the SQL catalogue, with its parameters."""

    name: str
    params: Mapping[str, Scalar | Rows]


class Several(msgspec.Struct, frozen=True):
    """Statements answered by all of their rows; the next may be made while the last one runs."""

    statements: Iterator[Statement]


Operation = Generator[Statement | Several, Sequence[Row], T]
Check = Callable[[Sequence[Statement]], Operation[None]]


def with_params(
    operation: Operation[T],
    params: Mapping[str, Scalar],
    check: Check | None = None,
    actor: Mapping[str, Scalar] | None = None,
) -> Operation[T]:
    """Add parameters to every statement of an operation, so that none can forget them.

    `check` is shown the statements before they are run: it may ask the database, and refuse. `actor` stands
    for whoever acts where a statement asks for one and none was named.
    """
    rows: Sequence[Row] = ()
    try:
        asked = next(operation)
        while True:
            if check is not None:
                statements = [asked] if isinstance(asked, Statement) else list(asked.statements)
                yield from with_params(check(statements), params)
                asked = asked if isinstance(asked, Statement) else Several(iter(statements))
            if isinstance(asked, Statement):
                named = actor is None or asked.params.get("actor_type", "") is not None
                said = asked.params if named or actor is None else {**asked.params, **actor}
                asked = Statement(asked.name, {**said, **params})
            else:
                added = (Statement(one.name, {**one.params, **params}) for one in asked.statements)
                asked = Several(added)
            try:
                rows = yield asked
            except Exception as error:  # noqa: BLE001 - it is thrown on, not swallowed
                asked = operation.throw(error)
            else:
                asked = operation.send(rows)
    except StopIteration as done:
        result: T = done.value
        return result


def moment(instant: datetime | None) -> int | None:
    """Give an instant as a parameter; None lets the database's clock decide."""
    return None if instant is None else micros(zoned("now", instant))


@lru_cache(maxsize=1024)
def picker(places: tuple[int, ...]) -> Callable[[Row], tuple[Any, ...]]:
    """Give a function that takes these places of a row."""
    if len(places) == 1:
        [place] = places
        return lambda row: (row[place],)
    return itemgetter(*places) if places else lambda _row: ()


def as_json(value: object) -> str:
    """Give a list or a mapping of plain values as a parameter."""
    return msgspec.json.encode(value).decode()
