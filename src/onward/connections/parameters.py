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

__all__ = ["Call", "calls", "postgres_call"]

Pick = Callable[[tuple[Any, ...]], tuple[Any, ...]]

_to_json = msgspec.json.Encoder().encode
_MARK = re.compile(r"\?(\d+)")

# CPython's gh-117995: these take `?1` for a named parameter, and warn of an error to come that never came.
_MISTAKES_NUMBERS_FOR_NAMES = (3, 12) <= sys.version_info < (3, 12, 4)


def postgres_call(query: Query, statement: Statement) -> tuple[Query, tuple[Scalar, ...]]:
    """Give the form of a PostgreSQL statement to run, and its parameters in order."""
    params = statement.params
    if query.single is not None:
        rows = params[query.set_name]
        if isinstance(rows, Rows) and len(rows.values) == 1:
            scalars, pick = _places(query.single.steps[0].names, rows.columns)
            return query.single, pick(rows.values[0] + tuple(params[name] for name in scalars))
    values: dict[str, Scalar] = {}
    for name in query.steps[0].names:
        match params.get(name):
            case Rows() as rows:
                values[name], values[f"{name}_common"] = _set_as_json(rows, query.json_columns)
            case plain:
                values.setdefault(name, _made(plain))
    return query, tuple(values[name] for name in query.steps[0].names)


@lru_cache(maxsize=1024)
def _places(names: tuple[str, ...], columns: tuple[str, ...]) -> tuple[list[str], Pick]:
    """Find where each parameter stands in a row that is followed by the plain ones."""
    scalars = [name for name in names if "." not in name]
    places = [
        columns.index(name.partition(".")[2]) if "." in name else len(columns) + scalars.index(name)
        for name in names
    ]
    return scalars, _picker(tuple(places))


def _set_as_json(rows: Rows, json_columns: frozenset[str]) -> tuple[str, str]:
    """Give the rows of a set, and apart from them what they have in common, as JSON; nulls are left out."""
    if not rows.values:
        return "[]", "{}"
    count, first = len(rows.values), rows.values[0]
    equal = [
        column[0] == column[-1] and column.count(column[0]) == count
        for column in zip(*rows.values, strict=True)
    ]
    common = {
        name: _as_stored(name, value, json_columns)
        for name, value, same in zip(rows.columns, first, equal, strict=True)
        if same and value is not None
    }
    places = [at for at, same in enumerate(equal) if not same]
    names = [rows.columns[at] for at in places]
    raw = [at for at, name in enumerate(names) if name in json_columns]
    pick = _picker(tuple(places))
    # Row by row, so that ten thousand dicts do not wait together for the garbage collector.
    own = [_to_json(dict(zip(names, _with_raw(pick(row), raw), strict=True))) for row in rows.values]
    return f"[{b','.join(own).decode()}]", _to_json(common).decode()


def _as_stored(name: str, value: Scalar, json_columns: frozenset[str]) -> object:
    # What is JSON already is put in as it stands instead of being quoted and parsed again.
    return msgspec.Raw(str(value)) if name in json_columns else value


def _with_raw(values: tuple[Any, ...], raw: list[int]) -> list[Any]:
    made = list(values)
    for at in raw:
        if made[at] is not None:
            made[at] = msgspec.Raw(made[at])
    return made


def _empty_columns(rows: Rows) -> frozenset[str]:
    """Find the columns that are null in every row: most are, and what is not sent costs nothing."""
    count = len(rows.values)
    columns = zip(*rows.values, strict=True) if count else ((),) * len(rows.columns)
    return frozenset(
        name for name, column in zip(rows.columns, columns, strict=True) if column.count(None) == count
    )


@lru_cache(maxsize=1024)
def _picker(places: tuple[int, ...]) -> Pick:
    if len(places) == 1:
        [place] = places
        return lambda row: (row[place],)
    return itemgetter(*places) if places else lambda row: row[:0]


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
            yield Call(step.text, [tuple(_made(params[name]) for name in step.names)], step.returns)
            continue
        rows = params[step.each]
        if isinstance(rows, Rows) and rows.values:
            yield _each(step, rows, params)


def _made(value: Any) -> Any:
    return value() if callable(value) else value


def _each(step: Step, rows: Rows, params: Mapping[str, Any]) -> Call:
    """Run a step over a set; a column that is null in every row is not bound, which saves a third."""
    text, scalars, pick = _compiled(step, rows.columns, _empty_columns(rows))
    constants = tuple(params[name] for name in scalars)
    return Call(text, [pick(row + constants) for row in rows.values], step.returns)


@lru_cache(maxsize=1024)
def _compiled(step: Step, columns: tuple[str, ...], empty: frozenset[str]) -> tuple[str, list[str], Pick]:
    """Give the text with what is left, the plain parameters, and the picker of a row followed by them."""
    kept = [name for name in step.names if name.partition(".")[2] not in empty]
    numbers = {name: f"?{at}" for at, name in enumerate(kept, 1)}
    text = _MARK.sub(lambda mark: numbers.get(step.names[int(mark[1]) - 1], "NULL"), step.text)
    return text, *_places(tuple(kept), columns)
