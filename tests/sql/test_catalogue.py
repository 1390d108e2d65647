"""The catalogue: operations and SQL meet by name, and both databases are served in full."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

import onward
from onward.connections.driver_calls import UNSAID, postgres_call
from onward.core.jobs.job import JobState
from onward.core.work.lifecycle import End, Transition
from onward.operations.statement import Rows, Statement
from onward.operations.work import finish
from onward.sql.catalogue import (
    TABLES,
    TYPES,
    Content,
    Database,
    Query,
    Style,
    catalogue,
    expand,
    formed,
    parse,
    sources,
)
from tests.sql.sql_runs import RUNS, SETS, statements_of

SOURCE = Path(onward.__file__).parent
DATABASES: tuple[Database, ...] = ("sqlite", "postgres")
FORMS: list[tuple[Database, Style, str]] = [
    ("sqlite", "question", "onward_"),
    ("postgres", "percent", "onward."),
    ("postgres", "dollar", "onward."),
    ("postgres", "arrays", "onward."),
]
PREFIXES: dict[Database, str] = {"sqlite": "jobs_", "postgres": "work."}

OF_EVERY_CLIENT: dict[str, str | int | None] = {"only_org": None, "only_project": None, "audited": 2}


def names_in_sources() -> set[str]:
    """Every name that is written in a `Statement("…")`, or that fits a `Statement(f"…")`."""
    return names_in_full() | {
        name
        for call in statements()
        if isinstance(call.args[0], ast.JoinedStr)
        for name in sources("sqlite")
        if re.fullmatch(
            "".join(
                re.escape(str(p.value)) if isinstance(p, ast.Constant) else r"\w+"
                for p in call.args[0].values
            ),
            name,
        )
    }


def names_in_full() -> set[str]:
    found = [call.args[0] for call in statements()]
    return {name.value for name in found if isinstance(name, ast.Constant) and isinstance(name.value, str)}


def statements() -> Iterator[ast.Call]:
    for folder in ("operations", "connections", "stores"):
        for path in (SOURCE / folder).rglob("*.py"):
            for call in ast.walk(ast.parse(path.read_text())):
                if isinstance(call, ast.Call) and getattr(call.func, "id", "") == "Statement":
                    yield call


def queries(database: Database, style: Style, prefix: str) -> list[Query]:
    return list(catalogue(database, style, prefix).values())


@pytest.mark.parametrize("database", DATABASES)
def test_every_name_that_is_yielded_exists_and_none_is_unused(database):
    assert set(sources(database)) == names_in_sources()


def test_the_runs_yield_every_name():
    assert {statement.name for run in RUNS for statement in statements_of(run)} == names_in_sources()


@pytest.mark.parametrize("form", FORMS, ids=" ".join)
@pytest.mark.parametrize("run", RUNS)
def test_an_operation_passes_every_parameter_that_its_statement_uses(form, run):
    for asked_for in statements_of(run):
        statement = Statement(asked_for.name, {**asked_for.params, **OF_EVERY_CLIENT})
        query = catalogue(*form)[statement.name]
        for step in query.steps:
            for name in step.names:
                whole, _, column = name.partition(".")
                value = {**UNSAID, **statement.params}[whole]
                assert not column or (isinstance(value, Rows) and column in SETS[whole])
                assert not column or whole == step.each or form[1] == "arrays"
            assert step.each is None or isinstance(statement.params[step.each], Rows)
        if form[0] == "postgres":
            query, values = postgres_call(query, statement)
            assert len(query.steps[0].names) == len(values)


@pytest.mark.parametrize(
    "name",
    [
        "enqueue_jobs",
        "enqueue_keyed_jobs",
        "finish_jobs",
        "record_usage",
        "spend_budgets",
        "change_held_jobs",
        "rerun_jobs",
    ],
)
def test_the_columns_of_a_set_are_those_that_the_operations_give(name):
    for set_name, types in catalogue("postgres", "dollar", "onward.")[name].sets.items():
        assert set(types) == set(SETS[set_name])


def test_what_rows_share_is_a_parameter_and_what_is_null_is_written_into_the_text():
    query = catalogue("postgres", "dollar", "onward.")["enqueue_jobs"]
    made = formed(query, (Content(("id", "payload"), ("job_type",), empty=False),))
    assert made.steps[0].names == ("now", "jobs.job_type", "jobs", "audited")
    assert "CAST(NULL AS text) AS org_id" in made.steps[0].text
    assert "own(id uuid, payload jsonb)" in made.steps[0].text
    assert "WHERE false" in formed(query, (Content((), (), empty=True),)).steps[0].text


ENDED = Transition(JobState.SUCCEEDED, "job.succeeded", "succeeded", 1, 0, 0)
BACK = Transition(JobState.SCHEDULED, "job.failed", "failed", 1, 0, 0)


@pytest.mark.parametrize(
    ("ends", "name"),
    [
        ([End("a", 1, 1, ENDED)], "finish_alike"),
        ([End("a", 1, 1, ENDED), End("b", 1, 1, ENDED)], "finish_alike"),
        ([End("a", 1, 1, ENDED), End("b", 1, 1, replace(ENDED))], "finish_alike"),
        ([End("a", 1, 1, ENDED), End("b", 2, 1, ENDED)], "finish_jobs"),
        ([End("a", 1, 1, ENDED), End("b", 1, 1, replace(ENDED, result=1))], "finish_jobs"),
        ([End("a", 1, 1, BACK), End("b", 1, 1, BACK)], "finish_jobs"),
        ([End("a", 1, 1, ENDED), End("b", 1, 1, BACK)], "finish_jobs"),
    ],
    ids=["one", "same", "equal", "leases", "results", "returned", "mixed"],
)
def test_ends_that_differ_in_their_ids_alone_have_a_statement_of_their_own(ends, name):
    assert next(finish.finish(ends)).name == name


@pytest.mark.parametrize("run", RUNS)
def test_an_operation_passes_no_parameter_that_neither_database_uses(run):
    for statement in statements_of(run):
        steps = [step for form in FORMS for step in catalogue(*form)[statement.name].steps]
        used = {name.partition(".")[0] for step in steps for name in step.names} | {
            step.each for step in steps
        }
        # An operation that acts for an actor of its own names it for all of its statements.
        assert set(statement.params) - UNSAID.keys() <= used


@pytest.mark.parametrize("run", RUNS)
def test_every_parameter_is_text_a_number_or_null(run):
    for statement in statements_of(run):
        for value in statement.params.values():
            rows = value.values if isinstance(value, Rows) else [(value,)]
            kinds = {type(scalar) for row in rows for scalar in row}
            assert kinds <= {str, int, float, type(None)}


@pytest.mark.parametrize("run", RUNS)
def test_the_rows_of_a_set_fit_its_columns(run):
    for statement in statements_of(run):
        for value in statement.params.values():
            if isinstance(value, Rows):
                assert {len(row) for row in value.values} <= {len(value.columns)}


@pytest.mark.parametrize("name", sources("postgres"))
def test_on_postgresql_every_parameter_has_a_type(name):
    text = re.sub(r"'[^']*'|^\s*--.*$", "", sources("postgres")[name], flags=re.MULTILINE)
    query = catalogue("postgres", "dollar", "onward.")[name]
    for held, column, kind in re.findall(r"(?<![:\w]):(\w+)(?:\.(\w+))?(?:::(\w+))?", text):
        assert kind in {*TYPES["postgres"], "rows"} or column in query.sets[held]
    [step] = query.steps
    for place in re.finditer(r"\$\d+", step.text):
        assert step.text[: place.start()].endswith("CAST("), step.text[place.start() - 30 : place.end()]


@pytest.mark.parametrize("form", FORMS[1:], ids=" ".join)
def test_on_postgresql_each_statement_is_one_round_trip(form):
    for query in queries(*form):
        assert len(query.steps) == 1
        assert ";" not in query.steps[0].text
        assert query.steps[0].returns


@pytest.mark.parametrize("query", queries(*FORMS[0]), ids=lambda query: query.name)
def test_on_sqlite_what_writes_begins_with_a_write(query):
    # Python's sqlite3 opens its transaction only before these words, and a read lock that must be raised
    # to a write lock later fails at once when somebody else writes.
    verbs = [step.text.split(maxsplit=1)[0] for step in query.steps]
    assert set(verbs) <= {"INSERT", "UPDATE", "DELETE", "SELECT"}
    assert verbs[0] != "SELECT" or set(verbs) == {"SELECT"}


@pytest.mark.parametrize("query", queries(*FORMS[0]), ids=lambda query: query.name)
def test_on_sqlite_a_step_tells_whether_it_returns_rows(query):
    for step in query.steps:
        assert step.returns == (step.text.startswith("SELECT") or "\nRETURNING " in step.text)
        assert ";" not in step.text
    assert any(step.returns for step in query.steps)


@pytest.mark.parametrize("form", FORMS, ids=" ".join)
def test_nothing_is_left_to_expand(form):
    for query in queries(*form):
        for step in query.steps:
            assert not re.search(r"\{\w|\{\+|::|--", step.text), query.name
            assert not re.search(r"(?<![:\w]):[a-z]", re.sub(r"'[^']*'", "", step.text)), query.name


@pytest.mark.parametrize(("database", "style", "_"), FORMS)
def test_another_prefix_is_used_everywhere(database, style, _):
    prefix = PREFIXES[database]
    for query in queries(database, style, prefix):
        text = "".join(step.text for step in query.steps)
        assert "onward" not in text
        assert prefix in text or query.name == "tables_exist"


@pytest.mark.parametrize("database", DATABASES)
def test_another_prefix_is_used_by_every_migration(database):
    prefix = PREFIXES[database]
    paths = (SOURCE / "sql" / "migrations" / database).rglob("*.sql")
    text = expand("".join(path.read_text() for path in paths), database, prefix)
    assert "onward" not in text
    assert not re.search(r"\{\w", text)
    made = set(re.findall(r"CREATE (?:TABLE|VIEW) ([\w.]+)", text))
    # What a claim takes is put aside on SQLite alone.
    needed = set(TABLES) - ({"claimed"} if database == "postgres" else set())
    assert {f"{prefix}{table}" for table in needed} <= made


def test_a_percent_sign_in_a_text_is_not_taken_for_a_parameter():
    for query in queries("postgres", "percent", "onward."):
        assert not re.search(r"%(?!%|\(\w+\)s)", query.steps[0].text.replace("%%", "")), query.name


def test_a_parameter_that_is_used_twice_is_passed_once():
    for form in FORMS:
        for query in queries(*form):
            for step in query.steps:
                assert len(step.names) == len(set(step.names))


def test_only_what_is_planned_the_same_for_any_data_is_planned_once():
    planned_once = {query.name for query in queries("postgres", "dollar", "onward.") if query.plan_once}
    assert planned_once == {"enqueue_jobs", "enqueue_keyed_jobs"}


HOT = {
    "claim_jobs", "claim_unpaused_jobs", "claim_picked_jobs", "finish_jobs", "finish_alike", "enqueue_jobs",
    "enqueue_keyed_jobs",
}  # fmt: skip
COLUMN_LISTS = {"audit_columns", "end_columns", "new_columns", "refused_columns"}


def blocks(database: Database) -> list[tuple[str, str, str]]:
    """Give each block as it is written: whether it is a name or a fragment, how it is called, its text."""
    files = sorted(SOURCE.joinpath("sql", database).rglob("*.sql"))
    text = "\n".join(file.read_text() for file in files)
    _, *parts = re.split(r"^-- (name|fragment): (\w+)$", text, flags=re.MULTILINE)
    return list(zip(parts[::3], parts[1::3], parts[2::3], strict=True))


@pytest.mark.parametrize("database", DATABASES)
def test_a_hot_statement_stands_in_one_piece(database):
    hot = {name: text for kind, name, text in blocks(database) if kind == "name" and name in HOT}
    assert set(hot) == HOT
    for text in hot.values():
        assert set(re.findall(r"\{\+(\w+)\}", text)) <= COLUMN_LISTS


@pytest.mark.parametrize("database", DATABASES)
def test_the_brackets_of_every_block_are_balanced(database):
    for _, name, text in blocks(database):
        depth = 0
        for mark in re.findall(r"[()]", re.sub(r"'[^']*'|^\s*--.*$", "", text, flags=re.MULTILINE)):
            depth += 1 if mark == "(" else -1
            assert depth >= 0, name
        assert depth == 0, name


@pytest.mark.parametrize("database", DATABASES)
def test_a_fragment_is_included_where_it_is_used_and_no_statement_by_itself(database):
    folders = [SOURCE.joinpath("sql", name) for name in ("portable", database)]
    text = "".join(file.read_text() for folder in folders for file in sorted(folder.rglob("*.sql")))
    blocks = parse(text)
    fragments = set(parse(re.sub(r"^-- name: .*$", "", text, flags=re.MULTILINE)))
    assert fragments == {used for body in blocks.values() for used in re.findall(r"\{\+(\w+)\}", body)}
    assert not fragments & set(sources(database))


def test_a_block_with_words_to_choose_from_is_a_statement_for_each():
    found = parse("-- name: list_<newest|oldest>_of_<a|b>\nSELECT <2> ORDER BY {+<1>}\n")
    assert len(found) == 4
    assert found["list_oldest_of_a"] == "SELECT a ORDER BY {+oldest}"
