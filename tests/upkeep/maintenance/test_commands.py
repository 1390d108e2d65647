"""`onward prune` and `onward maintenance report`."""

from __future__ import annotations

import io
import json
import sys

import pytest

from onward import AuditFilter, Client
from tests.cli.conftest import folder, onward
from tests.upkeep.maintenance.maintenance_history import left, put_ended
from tests.upkeep.maintenance.test_built_in import change_times

__all__ = ["folder", "onward"]


@pytest.fixture
def client(folder):
    with Client(f"sqlite:///{folder}/onward.db") as client:
        yield client


def test_a_dry_run_counts_and_a_prune_removes(onward, client):
    old, young = [put_ended(client) for _ in range(3)], put_ended(client)
    change_times(client, old)
    dry = onward("prune", "--dry-run")
    assert (dry.code, dry.out.split()) == (0, ["succeeded", "3", "would", "be", "removed"])
    assert json.loads(onward("prune", "--dry-run", "--json").out) == {
        "counts": {"succeeded": 3},
        "more": False,
    }
    assert len(left(client, *old, young)) == 4
    ran = onward("prune", "--yes", "--actor", "user:ada")
    assert (ran.code, ran.out.split()) == (0, ["succeeded", "3", "removed"])
    assert left(client, *old, young) == [young]
    [line] = client.audit.list(AuditFilter(event="jobs.pruned"))
    assert (line.actor_type, line.actor_id) == ("user", "ada")
    assert onward("prune", "--yes").err == (
        "nothing is past its retention; onward maintenance report shows how long each kind is kept\n"
    )
    assert json.loads(onward("prune", "--json", "--yes").out) == {"counts": {}, "more": False}


def test_it_asks_before_it_removes_anything(onward, client, monkeypatch):
    old = [put_ended(client)]
    change_times(client, old)
    stdin = io.StringIO("n\n")
    stdin.isatty = lambda: True  # type: ignore[method-assign]
    monkeypatch.setattr(sys, "stdin", stdin)
    assert onward("prune").code != 0
    assert left(client, *old) == old


def test_where_nobody_can_be_asked_it_removes_nothing_and_says_so(onward, client, monkeypatch):
    old = [put_ended(client)]
    change_times(client, old)
    monkeypatch.setattr(sys, "stdin", io.StringIO(""))
    ran = onward("prune")
    assert (ran.code, left(client, *old)) == (2, old)
    assert ran.err == "error: can't ask for confirmation without a terminal; give --yes\n"


def test_the_retention_is_that_of_the_app(onward, client, folder):
    old = [put_ended(client)]
    change_times(client, old)
    (folder / "app.py").write_text(
        "from onward import Onward, Retention\n"
        f"app = Onward('sqlite:///{folder}/onward.db', retention=Retention(succeeded='90d'))\n"
    )
    assert onward("prune", "--dry-run").out == ""


def test_the_report_is_for_people_and_for_programs(onward, client):
    put_ended(client)
    ran = onward("maintenance", "report")
    assert ran.out.startswith("database ")
    assert ran.err == "nothing needs to be done\n"
    shown = json.loads(onward("maintenance", "report", "--json").out)
    assert shown["file"]["bytes"] > 0
    assert shown["advice"] == []


def test_the_report_of_postgres_lists_its_tables(onward, postgres, folder):
    put_ended(Client(store=postgres))
    schema = postgres.prefix.rstrip(".")
    (folder / "app.py").write_text(
        f"from onward import Onward\napp = Onward({postgres.url!r}, schema={schema!r})\n"
    )
    lines = onward("maintenance", "report").out.splitlines()
    assert lines[1].startswith("TABLE")
    assert any(line.startswith(f"{schema}.") for line in lines[2:])
    shown = json.loads(onward("maintenance", "report", "--json").out)
    assert {one["table"] for one in shown["indexes"]} >= {f"{schema}.workers"}
