"""The parts of an operation.

An operation is a generator: it yields statements, is sent their rows, and returns its result.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from operator import itemgetter
from typing import Any, TypeVar

import msgspec

from onward.core.inputs.checks import zoned
from onward.core.jobs.actor import Actor
from onward.core.jobs.job import micros

Scalar = str | int | float | None
Row = Sequence[Any]

T = TypeVar("T")


class Rows(msgspec.Struct, frozen=True):
    """A set of rows as one parameter.

    `values` holds what differs between the rows, by `columns`. `common` holds the columns in which all rows
    have the same value. A column that is in neither is null.
    """

    columns: tuple[str, ...]
    values: Sequence[tuple[Scalar, ...]]
    common: Mapping[str, Scalar] = {}

    @classmethod
    def of(cls, columns: tuple[str, ...], values: Sequence[tuple[Scalar, ...]]) -> Rows:
        """Split rows into the columns that they have in common and those that differ."""
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
    """Statements that are run as one step and answered by the rows of all.

    The next may be built while the last one runs.
    """

    statements: Iterator[Statement]


Operation = Generator[Statement | Several, Sequence[Row], T]
Check = Callable[[Sequence[Statement]], Operation[None]]


def with_params(
    operation: Operation[T],
    always: Mapping[str, Scalar],
    usual: Mapping[str, Scalar] = {},
    check: Check | None = None,
) -> Operation[T]:
    """Add parameters to every statement of an operation, so that none can forget them.

    A statement's own parameters win over `usual` ones, and those in `always` win over both. `check` sees the
    statements before they are run. It may read from the database, and may refuse by raising.
    """
    rows: Sequence[Row] = ()
    try:
        step = next(operation)
        while True:
            if check is not None:
                statements = [step] if isinstance(step, Statement) else list(step.statements)
                yield from with_params(check(statements), always)
                step = step if isinstance(step, Statement) else Several(iter(statements))
            if isinstance(step, Statement):
                step = Statement(step.name, {**usual, **step.params, **always})
            else:
                added = (Statement(one.name, {**usual, **one.params, **always}) for one in step.statements)
                step = Several(added)
            try:
                rows = yield step
            except Exception as error:  # noqa: BLE001 - it is thrown on, not swallowed
                step = operation.throw(error)
            else:
                step = operation.send(rows)
    except StopIteration as done:
        result: T = done.value
        return result


def acting(actor: Actor, operation: Operation[T]) -> Operation[T]:
    """Run an operation on behalf of `actor`, even if its client acts for another actor."""
    return with_params(operation, {"actor_type": actor.type, "actor_id": actor.id})


def moment(instant: datetime | None) -> int | None:
    """Return an instant as a parameter; None lets the database's clock decide."""
    return None if instant is None else micros(zoned("now", instant))


@lru_cache(maxsize=1024)
def picker(places: tuple[int, ...]) -> Callable[[Row], tuple[Any, ...]]:
    """Return a function that takes the values at these places of a row."""
    if len(places) == 1:
        [place] = places
        return lambda row: (row[place],)
    return itemgetter(*places) if places else lambda _row: ()


def as_json(value: object) -> str:
    """Return a list or a mapping of plain values as a parameter, encoded as JSON."""
    return msgspec.json.encode(value).decode()
