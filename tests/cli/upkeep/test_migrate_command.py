"""`onward migrate`: says what it would do, does it, and checks that it was done."""

import pytest

from onward import Client
from onward.cli.views.text import masked
from onward.stores.migrations import read_migrations
from tests.postgres import fresh_database


@pytest.fixture
def url(postgres_server_url, worker_id, folder):
    with fresh_database(postgres_server_url, f"onward_cli_{worker_id}") as url:
        yield url


def test_a_database_is_planned_checked_and_migrated(onward, url):
    check = onward("migrate", "--check", "--url", url)
    assert check.code == 5
    assert check.err.startswith("error ON-DB-001: ")
    assert check.err.endswith(f"; run onward migrate --url {masked(url)}, or client.migrate()\n")
    plan = onward("migrate", "--plan", "--url", url)
    assert plan.out.startswith("-- migration 0001: first_schema\n")
    assert "\nCREATE SCHEMA IF NOT EXISTS onward;\n" in plan.out
    with Client(url) as client:
        assert client.plan().version == 0

    done = onward("migrate", "--url", url)
    newest = read_migrations("postgres", "onward.")[-1].version
    assert (done.code, done.err) == (0, f"schema 0 → {newest}\n")
    again = onward("migrate", "--check", "--url", url)
    assert (again.code, again.err) == (0, f"schema {newest} is up to date\n")
    assert onward("migrate", "--plan", "--url", url).out == ""


def test_a_worker_without_tables_is_told_the_command_that_makes_them(onward, folder, url, monkeypatch):
    monkeypatch.setenv("ONWARD_URL", url)
    (folder / "app.py").write_text("from onward import Onward\napp = Onward()\n")
    ran = onward("worker", "app:app", "--drain")
    assert ran.code == 5
    assert ran.err.endswith("; run onward migrate --app app:app, or client.migrate()\n")


def test_the_database_of_the_app_is_the_one_that_is_migrated(onward, folder):
    (folder / "app.py").write_text("from onward import Onward\napp = Onward('sqlite:///own.db')\n")
    assert onward("migrate").code == 0
    assert (folder / "own.db").exists()


def test_plan_and_check_at_once_are_refused(onward):
    assert onward("migrate", "--plan", "--check").code == 2


def test_the_advice_to_migrate_names_the_database_and_the_app_that_were_given(onward, folder, url):
    (folder / "shop.py").write_text("from onward import Onward\napp = Onward()\n")
    ran = onward("dead", "list", "--url", url, "--app", "shop:app")
    assert ran.code == 5
    assert f"onward migrate --url {masked(url)} --app shop:app" in ran.err


def test_a_name_that_fits_nothing_is_told_of_missing_tables_first(onward, folder, url):
    (folder / "shop.py").write_text(f"from onward import Onward\napp = Onward({url!r})\n")
    ran = onward("dead", "replay", "GROUP", "--reason", "x", "--app", "shop:app")
    assert "tables are not in this database; run onward migrate --app shop:app" in ran.err
