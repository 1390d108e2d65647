"""Turn a statement's parameters into what a driver takes; the same for every driver of a database."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from operator import itemgetter
from typing import Any

import msgspec

from onward.operations.statement import Rows, Scalar, Statement
from onward.sql.catalogue import Query, Step

__all__ = ["Call", "calls", "postgres_values"]

Pick = Callable[[tuple[Any, ...]], tuple[Any, ...]]

_MARK = re.compile(r"\?(\d+)")

# CPython's gh-117995: these take `?1` for a named parameter, and warn of an error to come that never came.
_MISTAKES_NUMBERS_FOR_NAMES = (3, 12) <= sys.version_info < (3, 12, 4)


def postgres_values(query: Query, statement: Statement) -> dict[str, Scalar]:
    """Give the parameters of a PostgreSQL statement by name; a set becomes one JSON text."""
    params = statement.params
    return {
        name: _rows_as_json(value, query.json_columns) if isinstance(value := params[name], Rows) else value
        for name in query.steps[0].names
    }


def _rows_as_json(rows: Rows, json_columns: frozenset[str]) -> str:
    # What is JSON already is put in as it stands instead of being quoted and parsed again.
    columns = [(name, name in json_columns) for name in rows.columns]
    return msgspec.json.encode(
        [
            {
                name: msgspec.Raw(str(value)) if is_json else value
                for (name, is_json), value in zip(columns, row, strict=True)
                if value is not None
            }
            for row in rows.values
        ]
    ).decode()


@dataclass(frozen=True, slots=True)
class Call:
    """One SQL text with the argument rows to run it over, on SQLite."""

    text: str
    rows: list[tuple[Any, ...]]
    returns: bool


def calls(query: Query, statement: Statement) -> Iterator[Call]:
    """Give the steps of a SQLite statement in order, all with one reading of the clock."""
    made = _calls(query, statement)
    return map(_unnumbered, made) if _MISTAKES_NUMBERS_FOR_NAMES else made


def _unnumbered(call: Call) -> Call:
    places = [int(number) - 1 for number in _MARK.findall(call.text)]
    rows = [tuple(row[place] for place in places) for row in call.rows]
    return Call(_MARK.sub("?", call.text), rows, call.returns)


def _calls(query: Query, statement: Statement) -> Iterator[Call]:
    # SQLite has no clock of its own: 'now' in SQL is this machine's clock too, but in milliseconds.
    params = {**statement.params}
    if params.get("now", 0) is None:
        params["now"] = time.time_ns() // 1000
    for step in query.steps:
        if step.each is None:
            yield Call(step.text, [tuple(params[name] for name in step.names)], step.returns)
            continue
        rows = params[step.each]
        if isinstance(rows, Rows) and rows.values:
            yield _each(step, rows, params)


def _each(step: Step, rows: Rows, params: Mapping[str, Any]) -> Call:
    """Run a step over a set; a column that is null in every row is not bound at all, which saves a third."""
    count = len(rows.values)
    empty = frozenset(
        name
        for name, column in zip(rows.columns, zip(*rows.values, strict=True), strict=True)
        if column.count(None) == count
    )
    text, scalars, pick = _compiled(step, rows.columns, empty)
    constants = tuple(params[name] for name in scalars)
    return Call(text, [pick(row + constants) for row in rows.values], step.returns)


@lru_cache(maxsize=1024)
def _compiled(step: Step, columns: tuple[str, ...], empty: frozenset[str]) -> tuple[str, list[str], Pick]:
    """Give the text with what is left, the plain parameters, and the picker of a row followed by them."""
    kept = [name for name in step.names if name.partition(".")[2] not in empty]
    numbers = {name: f"?{at}" for at, name in enumerate(kept, 1)}
    text = _MARK.sub(lambda mark: numbers.get(step.names[int(mark[1]) - 1], "NULL"), step.text)
    scalars = [name for name in kept if "." not in name]
    places = [
        columns.index(name.partition(".")[2]) if "." in name else len(columns) + scalars.index(name)
        for name in kept
    ]
    if len(places) == 1:
        [place] = places
        return text, scalars, lambda row: (row[place],)
    return text, scalars, itemgetter(*places)
