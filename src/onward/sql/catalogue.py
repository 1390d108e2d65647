"""The SQL catalogue: named statements, compiled once per database, driver's style and table prefix.

A name in `portable/` serves both databases unless the database's own folder overrides it. `:name::type` is
a parameter, `{name}` a table, `{+name}` a fragment; `TYPES` and `MACROS` are the whole difference in
dialect. A block named `list_<newest|oldest>` is two statements; `<1>` in its text is the chosen word. Every
statement may also use `:only_org::text` and `:only_project::text`, to which its client is confined (null: to
none), and `:audited::int`, the level of the audit (0 off, 1 ends, 2 full).

On PostgreSQL a name is one statement: one round trip, and one atomic change even outside a transaction. The
text after `-- early` is a second form, for a caller that runs it in a transaction of its own and then waits
for the disk if the last column of any row is true. Only this form has that column, and the rows that need it.

On SQLite a name may be several statements, run in one transaction, and their rows are returned together.
`-- each NAME` runs a statement for each row of a set. `-- all NAME` runs it once if the set has rows, and the
statement reads them as `:NAME::rows AS NAME`. `-- packed` returns rows as JSON: each row that Python fetches
releases the global interpreter lock, which a busy process takes milliseconds to get back.
`-- when audited >= 2`, or `< 2`, runs a statement only at such a level of the audit. The first statement
writes, so that a caller's transaction takes the write lock at once, instead of failing to turn a read lock
into it. Python's sqlite3 opens a transaction by itself only before INSERT, UPDATE, DELETE or REPLACE: never
start with WITH.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache, lru_cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from itertools import product
from typing import Literal, NamedTuple

from onward.core.jobs.job import COLUMNS

Database = Literal["sqlite", "postgres"]
Style = Literal["question", "percent", "dollar", "arrays"]

TABLES = (
    "live", "ended", "keys", "ledger", "reruns", "attempts", "audit", "chain", "sealing", "claimed",
    "workers", "queues", "controls", "leaders", "usage", "budgets", "artifacts", "settings",
    "dead_letters", "breakers", "effects", "alerts", "alerted", "alert_sends", "followers", "batches",
    "limits", "permits", "schedules", "schedule_runs", "signals", "awaited", "jobs", "migrations",
)  # fmt: skip

_RECORD = "CAST(CAST({} AS text) AS jsonb)"
_EPOCH = "timestamptz 'epoch' + CAST({} AS bigint) * interval '1 microsecond'"

# Every parameter is text, a number or null, so no driver's own adaptation of types is involved. In the style
# `arrays`, for psycopg, sets are arrays in the server's own format: parsing them from text takes it long.
TYPES: dict[Database, dict[str, str]] = {
    "postgres": {
        "text": "CAST({} AS text)",
        "int": "CAST({} AS bigint)",
        "float": "CAST({} AS double precision)",
        "json": _RECORD,
        # In a sub-select, else the planner would parse the whole set to fold it, and copy it repeatedly.
        "set": "CAST((SELECT CAST({} AS text)) AS jsonb)",
        "ids_set": "CAST((SELECT CAST({} AS text)) AS uuid[])",
        "id": "CAST(CAST({} AS text) AS uuid)",
        "clock": f"coalesce({_EPOCH}, clock_timestamp())",
        "texts": f"SELECT v FROM jsonb_array_elements_text({_RECORD}) AS t(v)",  # noqa: S608
        "ids": f"SELECT CAST(v AS uuid) FROM jsonb_array_elements_text({_RECORD}) AS t(v)",  # noqa: S608
    },
    "sqlite": {
        "text": "{}",
        "int": "{}",
        "float": "{}",
        "json": "{}",
        "id": "{}",
        "clock": "{}",
        "texts": "SELECT value FROM json_each({})",
        "ids": "SELECT value FROM json_each({})",
        "rows": "json_each({})",
    },
}

_AS_ARRAYS = {"ids_set": "CAST((SELECT CAST({} AS uuid[])) AS uuid[])"}

# `{micros(x)}` reads an instant as microseconds, `{instant(x)}` is the reverse, `{later(t, x)}` adds them.
# `{scope(t)}` keeps the rows of a table that are of the client's org and project, as `{+in_scope}` does.
_SCOPE = (
    "(:only_org::text IS NULL OR {0}.org_id = :only_org::text) "
    "AND (:only_project::text IS NULL OR {0}.project_id = :only_project::text)"
)
MACROS: dict[Database, dict[str, str]] = {
    "postgres": {
        "scope": _SCOPE,
        "micros": "CAST(date_part('epoch', {0}) * 1000000 AS bigint)",
        "instant": "timestamptz 'epoch' + {0} * interval '1 microsecond'",
        "later": "{0} + {1} * interval '1 microsecond'",
        "text": "CAST({0} AS text)",
    },
    "sqlite": {"scope": _SCOPE, "micros": "{0}", "instant": "{0}", "later": "{0} + {1}", "text": "{0}"},
}

_PARAMETERS = {"uuid": "id", "text": "text", "jsonb": "json", "float8": "float"}
_END = ("result", "outcome", "ended_at")
_CHANGED = ("state", "attempt", "waits", "crashes", "error")
_TIES = ("flow", "limit_key", "fair")

_BLOCK = re.compile(r"^-- (?:name|fragment): (\S+)$", re.MULTILINE)
_NAMES = re.compile(r"^-- name: (\S+)$", re.MULTILINE)
_CHOICE = re.compile(r"<([\w|]+)>")
_SET = re.compile(r"^-- (each|all) (\w+)$", re.MULTILINE)
_PACKED = re.compile(r"^-- packed$", re.MULTILINE)
_WHEN = re.compile(r"^-- when audited (>=|<) (\d)$", re.MULTILINE)
_EARLY = re.compile(r"^-- early$", re.MULTILINE)
_PLAN_ONCE = re.compile(r"^-- plan: once$", re.MULTILINE)
_STEADY = re.compile(r"^-- plan: steady$", re.MULTILINE)
_COMMENT = re.compile(r"^[ \t]*--.*\n?", re.MULTILINE)
_FRAGMENT = re.compile(r"\{\+(\w+)\}")
_COLUMNS = re.compile(r"\{(job_columns|carried) ?(\w*)\}")
_MACRO = re.compile(r"\{(micros|instant|later|text|scope)\((.*?)\)\}")
_ROWS = re.compile(r":(\w+)::rows\(([^)]*)\)")
_PARAM = re.compile(r"(?<![:\w]):(\w+(?:\.\w+)?)(?:::(\w+))?")
_QUOTED = re.compile(r"('[^']*')")

_MARKS: dict[Style, str] = {"question": "?{0}", "percent": "%({1})s", "dollar": "${0}", "arrays": "${0}"}
_ALL_LEVELS = range(3)


@dataclass(frozen=True, slots=True)
class Step:
    """One SQL text with its parameters in order, `names`; `each` is the set over whose rows it is run.

    `at_once` runs it once for the whole set; a `packed` step returns rows as JSON. It is run only at the
    levels of the audit in `levels`.
    """

    text: str
    names: tuple[str, ...]
    each: str | None = None
    returns: bool = False
    at_once: bool = False
    packed: bool = False
    levels: range = _ALL_LEVELS


@dataclass(frozen=True, slots=True, eq=False)
class Query:
    """A named statement: one step on PostgreSQL, one or more in one transaction on SQLite.

    On PostgreSQL `sets` has the columns and types of its sets of rows, and `template` is the text into which
    `formed` puts them. `early` has the same parameters, and serves callers that wait for the disk afterwards.
    """

    name: str
    steps: tuple[Step, ...]
    encoded: bytes = b""
    plan_once: bool = False
    steady: bool = False
    sets: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    template: str = ""
    style: Style = "question"
    early_template: str = ""
    early: bytes = b""


class Content(NamedTuple):
    """The columns of a set: those that differ between rows and those that all rows share; others are null."""

    own: tuple[str, ...]
    common: tuple[str, ...]
    empty: bool


@cache
def catalogue(database: Database, style: Style, prefix: str) -> dict[str, Query]:
    """Compile all statements for one database and one driver's parameter style."""
    return {name: _compile(name, text, database, style, prefix) for name, text in sources(database).items()}


@cache
def sources(database: Database) -> dict[str, str]:
    """Read every statement of a database, with its fragments inserted."""
    texts = [_read("portable"), _read(database)]
    blocks = {name: block for text in texts for name, block in parse(text).items()}
    names = [name for text in texts for named in _NAMES.findall(text) for name, _ in _forms(named, "")]
    return {name: _include(blocks[name], blocks) for name in names}


def expand(text: str, database: Database, prefix: str) -> str:
    """Insert the names of tables and columns, and expand the macros."""
    for table in TABLES:
        text = text.replace(f"{{{table}}}", f"{prefix}{table}")
    text = text.replace("{prefix}", prefix).replace("{channel}", prefix[:-1])
    text = text.replace("{job_nulls}", ", ".join(["NULL"] * len(COLUMNS)))
    text = text.replace("{returned_columns}", ", ".join("NULL" if name in _END else name for name in COLUMNS))
    text = _COLUMNS.sub(lambda match: _select(match[1], match[2]), text)
    return _MACRO.sub(lambda match: MACROS[database][match[1]].format(*match[2].split(", ", 1)), text)


def _read(folder: str) -> str:
    return "\n".join(file.read_text(encoding="utf-8") for file in _files(files(__package__) / folder))


def _files(folder: Traversable) -> Iterator[Traversable]:
    """Yield the SQL files of a folder and of the folders in it."""
    for found in sorted(folder.iterdir(), key=lambda file: file.name):
        if found.is_dir():
            yield from _files(found)
        elif found.name.endswith(".sql"):
            yield found


def parse(text: str) -> dict[str, str]:
    """Return the blocks of a text by their names."""
    _, *parts = _BLOCK.split(text)
    blocks = zip(parts[::2], parts[1::2], strict=True)
    return {form: body.strip() for name, block in blocks for form, body in _forms(name, block)}


def _forms(name: str, text: str) -> Iterator[tuple[str, str]]:
    """Yield the name and the text of a block for each choice of words in its name."""
    for words in product(*(choice.split("|") for choice in _CHOICE.findall(name))):
        form, body = name, text
        for number, word in enumerate(words, 1):
            form = _CHOICE.sub(word, form, count=1)
            body = body.replace(f"<{number}>", word)
        yield form, body


def _include(text: str, blocks: dict[str, str]) -> str:
    while _FRAGMENT.search(text):
        text = _FRAGMENT.sub(lambda match: _COMMENT.sub("", blocks[match[1]]), text)
    return text


def _select(what: str, table: str) -> str:
    """Return a job's columns in order; for a live job, those of the end are null."""
    live = table in {"live", "job"}
    if what == "carried":
        # The columns that each end needs come first, so that the later ones need not be unpacked.
        names = [*_TIES, *(name for name in COLUMNS if name not in _END + _CHANGED)]
        return ", ".join(f"{table}.{name}" if table else name for name in names)
    form = {"time": "{{micros({0})}}", "id": "{{text({0})}}", "json": "{{text({0})}}"}
    # Typed, because a sub-select would take a bare null for text.
    null = {"time": "CAST(NULL AS bigint)"}
    return ", ".join(
        f"{null.get(kind, 'NULL')} AS {name}"
        if live and name in _END
        else form.get(kind, "{0}").format(f"{table}.{name}")
        for name, kind in COLUMNS.items()
    )


def _compile(name: str, source: str, database: Database, style: Style, prefix: str) -> Query:
    text = expand(source, database, prefix)
    if database == "sqlite":
        steps = tuple(_step(part, database, style) for part in text.split(";\n"))
        return Query(name, steps)
    once = bool(_PLAN_ONCE.search(source))
    text, early = (*_EARLY.split(text), "")[:2]
    sets = {
        name: {column.split()[0]: column.split()[1] for column in columns.split(",")}
        for name, columns in _ROWS.findall(text)
    }
    query = Query(
        name,
        (),
        plan_once=once,
        steady=bool(_STEADY.search(source)),
        sets=sets,
        template=text,
        style=style,
        early_template=early,
    )
    return formed(query, tuple(Content(tuple(columns), (), empty=False) for columns in sets.values()))


@lru_cache(maxsize=4096)
def formed(query: Query, contents: tuple[Content, ...]) -> Query:
    """Return the form of a PostgreSQL statement that fits the content of its sets."""
    held = dict(zip(query.sets, contents, strict=True))
    step, early = _step(_with_rows(query.template, query, held), "postgres", query.style), b""
    if query.early_template:
        early = _step(_with_rows(query.early_template, query, held), "postgres", query.style).text.encode()
    return replace(query, steps=(step,), encoded=step.text.encode(), early=early)


def _with_rows(template: str, query: Query, held: Mapping[str, Content]) -> str:
    return _ROWS.sub(
        lambda match: _rows(match[1], query.sets[match[1]], held[match[1]], query.style), template
    )


def _shared(name: str, column: str, types: Mapping[str, str], content: Content) -> str:
    """Return the SQL of a column that all rows of a set share; a null is written into the text."""
    kind = types[column]
    parameter = f":{name}.{column}::{_PARAMETERS.get(kind, 'int')}" if column in content.common else "NULL"
    return f"CAST({parameter} AS {kind})"


def _rows(name: str, types: Mapping[str, str], content: Content, style: Style) -> str:
    """Return the SQL that reads a set: shared values come once, and a null is written into the text."""
    values = [
        f"own.{column}" if column in content.own else f"{_shared(name, column, types, content)} AS {column}"
        for column in types
    ]
    text = f"SELECT {', '.join(values)}"
    if len(content.own) == 1 and types[content.own[0]] == "uuid":
        text += f" FROM unnest(:{name}::ids_set) AS own({content.own[0]})"
    elif content.own and style == "arrays":
        # In a sub-select, like all sets.
        arrays = ", ".join(f"(SELECT CAST(:{name}.{column} AS {types[column]}[]))" for column in content.own)
        text += f" FROM unnest({arrays}) AS own({', '.join(content.own)})"
    elif content.own:
        columns = ", ".join(f"{column} {types[column]}" for column in content.own)
        text += f" FROM jsonb_to_recordset(:{name}::set) AS own({columns})"
    return f"({text}{' WHERE false' if content.empty else ''}) AS {name}"


def _step(text: str, database: Database, style: Style) -> Step:
    over, packed, when = _SET.search(text), bool(_PACKED.search(text)), _WHEN.search(text)
    text = _COMMENT.sub("", text).strip()
    types = TYPES[database] | (_AS_ARRAYS if style == "arrays" else {})
    names: list[str] = []

    def placeholder(match: re.Match[str]) -> str:
        name = match[1]
        if name not in names:
            names.append(name)
        mark = _MARKS[style].format(names.index(name) + 1, name)
        return types[match[2]].format(mark) if match[2] else mark

    # Quoted text may hold colons that are no parameters.
    pieces = _QUOTED.split(text.replace("%", "%%") if style == "percent" else text)
    pieces[::2] = [_PARAM.sub(placeholder, piece) for piece in pieces[::2]]
    returns = text.startswith(("SELECT", "WITH")) or "RETURNING" in text
    each, at_once = (over[2], over[1] == "all") if over else (None, False)
    return Step("".join(pieces), tuple(names), each, returns, at_once, packed, _levels(when))


def _levels(when: re.Match[str] | None) -> range:
    if when is None:
        return _ALL_LEVELS
    return _ALL_LEVELS[int(when[2]) :] if when[1] == ">=" else _ALL_LEVELS[: int(when[2])]
