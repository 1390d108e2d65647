"""A client confined to an org: every statement that it may run is narrowed, and it may run no other."""

import re

import pytest

from onward.core.jobs.scope import Scope
from onward.errors import NotAllowed
from onward.operations.statement import Rows, Statement
from onward.operations.tenancy import BY_LEASE, OF_ONE_ORG, check_confined
from onward.sql.catalogue import Database, catalogue, sources
from onward.stores.migrations import read_migrations

# These write the rows that they are given: `check_confined` looks at each, as the last tests here show.
GIVEN_ROWS = {"enqueue_jobs", "enqueue_keyed_jobs"}
# Tells how far the numbers of all rows go, to know where to look for the own; gives no row.
NUMBER = "last_audit"
# Without a column of that name, but of one org each.
OF_AN_ORG_TOO = {"attempts", "controls", "effects", "reruns"}
DATABASES: tuple[tuple[Database, str], ...] = (("sqlite", "onward_"), ("postgres", "onward."))


def tables_of_orgs() -> set[str]:
    """Every table of which a migration says that it has a column org_id."""
    return tables_with("org_id") | OF_AN_ORG_TOO


def tables_of_projects() -> set[str]:
    """Every table with a column project_id, or whose rows belong to a job."""
    return tables_with("project_id") | {"attempts", "effects", "reruns"}


def tables_with(column: str) -> set[str]:
    found = set()
    for step in read_migrations("postgres", "onward."):
        for name, body in re.findall(r"CREATE TABLE onward\.(\w+) \((.*?)\n\)", step.sql, re.DOTALL):
            if re.search(rf"^\s*({column} text|LIKE onward\.live)", body, re.MULTILINE):
                found.add(name)
    return found | {"jobs", "ledger"}


def test_the_tables_that_have_an_org_are_found():
    assert {"live", "ended", "keys", "audit", "usage", "budgets", "artifacts"} <= tables_of_orgs()


@pytest.mark.parametrize(("database", "prefix"), DATABASES)
@pytest.mark.parametrize("name", sorted(OF_ONE_ORG - GIVEN_ROWS - BY_LEASE - {NUMBER}))
def test_what_a_confined_client_may_run_names_its_org_wherever_it_touches_a_table_of_orgs(
    database, prefix, name
):
    # On SQLite each step by itself: one that forgot its org would not be saved by its neighbours.
    style = "question" if database == "sqlite" else "dollar"
    for step in catalogue(database, style, prefix)[name].steps:
        touched = set(re.findall(rf"{re.escape(prefix)}(\w+)", step.text))
        assert "only_org" in step.names or not touched & tables_of_orgs(), step.text
        of_projects = touched & tables_of_projects()
        assert "only_project" in step.names or not of_projects, step.text


def refusal(statement: Statement) -> NotAllowed:
    with pytest.raises(NotAllowed) as refused:
        next(check_confined([statement], Scope("bolt")))
    return refused.value


@pytest.mark.parametrize("name", sorted(set(sources("postgres")) - OF_ONE_ORG))
def test_any_other_statement_is_refused(name):
    assert "confined to org 'bolt'" in str(refusal(Statement(name, {})))


def test_no_statement_that_is_allowed_is_unknown():
    assert set(sources("sqlite")) >= OF_ONE_ORG


@pytest.mark.parametrize(
    ("name", "given"), [*((name, "jobs") for name in sorted(GIVEN_ROWS)), ("change_held_jobs", "changes")]
)
@pytest.mark.parametrize(
    "rows",
    [
        Rows(("id", "org_id"), [("1", "bolt"), ("2", "acme")]),
        Rows(("id", "org_id"), [("1", "bolt"), ("2", None)]),
        Rows(("id",), [("1",)], {"org_id": "acme"}),
        Rows(("id",), [("1",)]),
    ],
    ids=["another", "none", "another for all", "none for all"],
)
def test_a_row_of_another_org_or_of_none_is_refused_before_it_is_written(name, given, rows):
    assert "this client is confined to org 'bolt'" in str(refusal(Statement(name, {given: rows})))


@pytest.mark.parametrize("name", sorted(BY_LEASE))
def test_the_jobs_of_given_leases_are_looked_up_and_others_are_refused_before_they_are_changed(name):  # R14
    for rows in (Rows(("id",), [("1",), ("2",)]), Rows(("lease",), [(1,)], {"id": "2"})):
        check = check_confined([Statement(name, {"ended": rows, "returned": Rows((), ())})], Scope("bolt"))
        assert next(check).name == "find_in_scope"
        with pytest.raises(NotAllowed, match="job 2 is that of no job of org 'bolt'"):
            check.send([("1",)])


def test_rows_of_the_own_org_are_let_through():
    rows = Rows(("id",), [("1",)], {"org_id": "bolt"})
    with pytest.raises(StopIteration):
        next(check_confined([Statement("enqueue_jobs", {"jobs": rows})], Scope("bolt")))
