"""Turn a statement into the SQL text and parameters of a driver, the same for every driver of a database."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import chain, groupby
from typing import Any

import msgspec

from onward.connections.libpq.arrays import Array
from onward.operations.statement import Row, Rows, Scalar, Statement, picker
from onward.sql.catalogue import Content, Query, Step, formed

_to_json = msgspec.json.Encoder().encode
_from_json = msgspec.json.Decoder(list[list[Any]]).decode
_MARK = re.compile(r"\?(\d+)")
_VALUES = re.compile(r"\bVALUES (?=\()")
_BRACKETS = re.compile(r"'[^']*'|[()]")

# Rows per INSERT: with 100, a row takes 2 µs instead of 5. More would not help and take longer to parse.
_AT_ONCE = (100, 10, 1)

# In bytes of JSON. SQLite accepts no text of more than a gigabyte.
_LARGEST_SET = 2**28

# CPython issue gh-117995: these versions take `?1` for a named parameter and emit a DeprecationWarning.
_MISTAKES_NUMBERS_FOR_NAMES = (3, 12) <= sys.version_info < (3, 12, 4)


# Parameters that any statement may use and that a client always sets; defaults for a statement without a
# client.
UNSAID: Mapping[str, Scalar] = {
    "only_org": None, "only_project": None, "audited": 2, "now": None, "actor_type": None, "actor_id": None,
}  # fmt: skip


def postgres_call(query: Query, statement: Statement) -> tuple[Query, tuple[Any, ...]]:
    """Return the form of a PostgreSQL statement to run, and its parameters in the query's style."""
    params: dict[str, Any] = {**UNSAID, **statement.params}
    if query.sets:
        query = formed(query, tuple([_put_in(params, name, query) for name in query.sets]))
    return query, tuple([params[name] for name in query.steps[0].names])


def _put_in(params: dict[str, Any], name: str, query: Query) -> Content:
    """Add a set to `params`, and the values that its rows share; a single row shares all of its values."""
    rows: Rows = params[name]
    types, common = query.sets[name], rows.common
    own = rows.columns if rows.values else ()
    if len(rows.values) == 1:
        own, common = (), {**common, **dict(zip(own, rows.values[0], strict=True))}
    present = [column for column, value in common.items() if value is not None]
    for column in present:
        params[f"{name}.{column}"] = common[column]
    if len(own) == 1 and types[own[0]] == "uuid":
        ids = [str(row[0]) for row in rows.values]
        # The server reads an array faster than JSON, even as text.
        params[name] = Array("uuid", ids) if query.style == "arrays" else f"{{{','.join(ids)}}}"
    elif own and query.style == "arrays":
        for column, values in zip(own, zip(*rows.values, strict=True), strict=True):
            params[f"{name}.{column}"] = Array(types[column], values)
    elif own:
        params[name] = _as_json(rows, [at for at, column in enumerate(own) if types[column] == "jsonb"])
    return Content(own, tuple(present), not rows.values)


def _as_json(rows: Rows, raw: list[int]) -> str:
    """Return the rows as a JSON array of objects; columns in `raw` are JSON already and stay unchanged."""
    columns = rows.columns
    # Row by row, so that the garbage collector never has ten thousand dicts to traverse at once.
    made = [_to_json(dict(zip(columns, _with_raw(row, raw), strict=True))) for row in rows.values]
    return f"[{b','.join(made).decode()}]"


def _with_raw(values: tuple[Any, ...], raw: list[int]) -> Sequence[Any]:
    if not raw:
        return values
    made = list(values)
    for at in raw:
        if made[at] is not None:
            made[at] = msgspec.Raw(made[at])
    return made


@dataclass(frozen=True, slots=True)
class Call:
    """One SQL text for SQLite, and the rows of arguments to run it with."""

    text: str
    rows: list[tuple[Any, ...]]
    returns: bool
    packed: bool = False

    def read(self, rows: Sequence[Row]) -> Sequence[Row]:
        """Return the fetched rows, or the rows that they contain as JSON if the call is packed."""
        return _Packed([text for [text] in rows]) if self.packed else rows


class _Packed(Sequence[Row]):
    """Rows decoded on first use, so that the writer thread does not decode rows that it only passes on."""

    def __init__(self, texts: list[str]) -> None:
        self._texts = texts

    @cached_property
    def _rows(self) -> list[Row]:
        return [row for text in self._texts for row in _from_json(text)]

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, place: Any) -> Any:
        return self._rows[place]

    def __iter__(self) -> Iterator[Row]:
        return iter(self._rows)


def calls(query: Query, statement: Statement) -> Iterator[Call]:
    """Return the calls of a SQLite statement in order, all with the same value of the clock."""
    made = _calls(query, statement)
    return map(_unnumbered, made) if _MISTAKES_NUMBERS_FOR_NAMES else made


def _unnumbered(call: Call) -> Call:
    places = [int(number) - 1 for number in _MARK.findall(call.text)]
    rows = [tuple(row[place] for place in places) for row in call.rows]
    return Call(_MARK.sub("?", call.text), rows, call.returns, call.packed)


def _calls(query: Query, statement: Statement) -> Iterator[Call]:
    # SQLite's own 'now' is this machine's clock too, but only in milliseconds.
    params = {**UNSAID, **statement.params}
    if params.get("now", 0) is None:
        params["now"] = time.time_ns() // 1000
    level = params["audited"]
    chosen = [step for step in query.steps if level in step.levels]
    for (each, at_once), group in groupby(chosen, lambda step: (step.each, step.at_once)):
        steps = list(group)
        if each is None:
            for step in steps:
                yield Call(step.text, [tuple(params[name] for name in step.names)], step.returns, step.packed)
            continue
        rows = params[each]
        if not isinstance(rows, Rows) or not rows.values:
            continue
        if at_once:
            yield from _all(steps, each, rows, params)
        else:
            for step in steps:
                yield from _each(step, rows, params)


def _all(steps: list[Step], each: str, rows: Rows, params: Mapping[str, Any]) -> Iterator[Call]:
    """Return calls that run steps over a whole set, or one half after the other if it is very large."""
    columns = tuple(f"{each}.{name}" for name in rows.columns)
    values = [row[0] for row in rows.values] if len(columns) == 1 else rows.values
    text = _to_json(values)
    if len(text) > _LARGEST_SET and (half := len(rows.values) // 2):
        for part in (rows.values[:half], rows.values[half:]):
            yield from _all(steps, each, Rows(rows.columns, part, rows.common), params)
        return
    shared = {
        **params,
        each: text.decode(),
        **{f"{each}.{name}": value for name, value in rows.common.items()},
    }
    for step in steps:
        nulls = frozenset(name for name in step.names if name not in columns and shared.get(name) is None)
        sql, names = _reading(step, columns, nulls)
        yield Call(sql, [tuple(shared[name] for name in names)], step.returns, step.packed)


@lru_cache(maxsize=1024)
def _reading(step: Step, columns: tuple[str, ...], nulls: frozenset[str]) -> tuple[str, tuple[str, ...]]:
    """Return the text of a step that reads each row's own values from JSON, and its parameters."""
    shared = tuple(name for name in step.names if name not in columns and name not in nulls)
    row = f"{step.each}.value"
    places = {name: f"json_extract({row}, '$[{at}]')" for at, name in enumerate(columns)}
    if len(columns) == 1:
        places = {columns[0]: row}
    places |= {name: f"?{at}" for at, name in enumerate(shared, 1)}
    return _MARK.sub(lambda mark: places.get(step.names[int(mark[1]) - 1], "NULL"), step.text), shared


def _each(step: Step, rows: Rows, params: Mapping[str, Any]) -> Iterator[Call]:
    """Return calls that run a step for each row of a set; an INSERT … VALUES takes many rows at once."""
    shared = {**params, **{f"{step.each}.{name}": value for name, value in rows.common.items()}}
    columns = tuple(f"{step.each}.{name}" for name in rows.columns)
    nulls = frozenset(name for name in step.names if name not in columns and shared.get(name) is None)
    start = 0
    for size in _AT_ONCE if _values(step.text) else (1,):
        end = len(rows.values) - (len(rows.values) - start) % size
        if start == end:
            continue
        text, names, places = _compiled(step, columns, nulls, size)
        constants, pick = tuple(shared[name] for name in names), picker(places)
        own = [pick(row) for row in rows.values[start:end]]
        if size > 1:
            own = [tuple(chain.from_iterable(own[at : at + size])) for at in range(0, len(own), size)]
        yield Call(text, [constants + row for row in own], step.returns, step.packed)
        start = end


@lru_cache(maxsize=1024)
def _values(text: str) -> slice | None:
    """Return the place of the brackets after VALUES; others may follow, such as those of ON CONFLICT."""
    if found := _VALUES.search(text):
        depth = 0
        for mark in _BRACKETS.finditer(text, found.end()):
            depth += {"(": 1, ")": -1}.get(mark[0], 0)
            if not depth:
                return slice(found.end(), mark.end())
    return None


@lru_cache(maxsize=1024)
def _compiled(
    step: Step, columns: tuple[str, ...], nulls: frozenset[str], size: int
) -> tuple[str, tuple[str, ...], tuple[int, ...]]:
    """Return a step's text for `size` rows, the parameters that they share, and the places of a row's own.

    A value that is null in every row is written into the text: not binding it saves a third of the time.
    """
    own = [name for name in step.names if name in columns]
    shared = [name for name in step.names if name not in columns and name not in nulls]

    def numbered(text: str, row: int) -> str:
        before = len(shared) + row * len(own)
        numbers = {name: f"?{at}" for at, name in enumerate(shared, 1)}
        numbers |= {name: f"?{before + at}" for at, name in enumerate(own, 1)}
        return _MARK.sub(lambda mark: numbers.get(step.names[int(mark[1]) - 1], "NULL"), text)

    text = step.text
    if size > 1 and (values := _values(text)):
        tuples = ", ".join(numbered(text[values], row) for row in range(size))
        text = numbered(text[: values.start], 0) + tuples + numbered(text[values.stop :], 0)
    else:
        text = numbered(text, 0)
    return text, tuple(shared), tuple(columns.index(name) for name in own)
