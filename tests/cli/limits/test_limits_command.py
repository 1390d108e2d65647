"""`onward limits`: lists, shows, sets and resets."""

from __future__ import annotations

import json

import pytest

from onward import Client, Limit, NewJob


@pytest.fixture
def client(folder):
    with Client(f"sqlite:///{folder}/onward.db") as client:
        client.worker.limits.declare({"sync": Limit(2), "mail": Limit(rate="1/s", burst=3, ordered=True)})
        for _ in range(3):
            client.enqueue(NewJob(job_type="t", limit_key="sync/acme"))
        client.worker.limits.admit(["sync/acme"])
        yield client


def test_limits_are_listed_for_people_and_for_programs(onward, client):
    assert onward("limits", "list").out.splitlines() == [
        "mail  1 at once  1/s, 3 at once  in order  0 active  0 waiting",
        "sync  2 at once  2 active  1 waiting",
    ]
    _, sync = json.loads(onward("limits", "list", "--json").out)["items"]
    assert (sync["name"], sync["declared"], sync["active"], sync["waiting"]) == (
        "sync",
        {"concurrency": 2},
        2,
        1,
    )
    assert sync["keys"] == [{"key": "sync/acme", "value": "acme", "active": 2, "waiting": 1}]


def test_one_is_shown_with_its_keys(onward, client):
    assert onward("limits", "show", "sync").out.splitlines() == [
        "sync  2 at once  2 active  1 waiting",
        "sync/acme  2 active  1 waiting",
    ]
    unknown = onward("limits", "show", "absent")
    assert unknown.code == 2
    assert "no worker has declared a limit 'absent'" in unknown.err


def test_a_limit_is_set_and_reset_for_a_reason(onward, client):
    ran = onward(
        "limits", "set", "sync", "--concurrency", "9", "--reason", "a quiet night", "--actor", "user:ada"
    )
    assert ran.err == "sync  9 at once  2 active  1 waiting  by hand  user:ada  a quiet night\n"
    assert client.limits.get("sync").terms.concurrency == 9
    assert onward("limits", "reset", "sync", "--reason", "over").err == "sync is as declared\n"
    again = onward("limits", "reset", "sync", "--reason", "over")
    assert (again.code, again.err) == (1, "sync: nothing was set\n")
    assert onward("limits", "set", "sync", "--reason", "r").code == 2


def test_before_any_worker_there_is_none(onward):
    onward("migrate")
    assert onward("limits", "list").err == "no worker has declared a limit\n"
