"""Commands of an application that has a name: they work on its own tables."""

from __future__ import annotations

import json

import pytest

from tests.cli.program import Program

APP = """
from onward import Onward

app = Onward("sqlite:///jobs.db", NAMED)

@app.job(max_attempts=1)
async def send(SIGNATURE) -> str:
    raise ValueError("no paper")
"""


@pytest.fixture
def apps(folder):
    """Two modules on one database, each with an application of its own name."""
    for name in ("shop", "crm"):
        (folder / f"{name}.py").write_text(
            APP.replace("NAMED", f'name="{name}"').replace("SIGNATURE", f"{name}: str")
        )
    return folder


def test_each_command_sees_the_jobs_of_its_own_application(onward, apps):
    for name in ("shop", "crm"):
        assert onward("enqueue", "send", f"{name}=x", "--app", name).code == 0
    ran = onward("worker", "shop", "--drain", "--json")
    assert (ran.code, json.loads(ran.out)["dead"]) == (6, 1)
    assert len(json.loads(onward("dead", "list", "--app", "shop", "--json").out)["items"]) == 1
    assert json.loads(onward("dead", "list", "--app", "crm", "--json").out)["items"] == []
    told = {one["code"] for one in json.loads(onward("doctor", "--app", "crm", "--json").out)["findings"]}
    assert "dead_letters" not in told


def test_without_the_app_its_name_comes_from_the_environment(onward, apps, monkeypatch):
    assert onward("enqueue", "send", "shop=x", "--app", "shop").code == 0
    assert onward("worker", "shop", "--drain").code == 6
    ran = onward("dead", "list", "--url", "sqlite:///jobs.db")
    assert (ran.code, "no tables onward_* in" in ran.err, "ONWARD_NAME" in ran.err) == (5, True, True)
    monkeypatch.setenv("ONWARD_NAME", "shop")
    assert "send" in onward("dead", "list", "--url", "sqlite:///jobs.db").out
    monkeypatch.setenv("ONWARD_NAME", "Shop!")
    ran = onward("dead", "list", "--url", "sqlite:///jobs.db")
    assert (ran.code, "give one such as 'shop'" in ran.err) == (2, True)


def test_the_banner_of_a_worker_names_the_tables(apps):
    with Program(apps, "worker", "shop", "--drain") as worker:
        assert "sqlite ./jobs.db, tables shop_onward_* (created" in worker.wait_for("sqlite")


def test_a_worker_that_would_run_another_applications_jobs_says_how_to_part_them(folder):
    for name, signature in (("shop", "to: str"), ("crm", "to: int")):
        (folder / f"{name}.py").write_text(APP.replace(", NAMED", "").replace("SIGNATURE", signature))
    with Program(folder, "worker", "shop") as shop:
        shop.wait_for("slots")
        with Program(folder, "worker", "crm") as crm:
            told = crm.wait_for("error")
    assert "the job type 'send' of crm has another signature in shop" in told
    assert "Onward(name='crm')" in told
