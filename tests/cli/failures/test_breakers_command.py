"""`onward breakers`: lists, opens and closes."""

from __future__ import annotations

import json

import pytest

from onward import Client
from onward.core.failures.breaker import Answer


@pytest.fixture
def client(folder):
    with Client(f"sqlite:///{folder}/onward.db") as client:
        client.migrate()
        yield client


def test_breakers_are_listed_for_people_and_for_programs(onward, client):
    assert (
        onward("breakers", "list").err
        == "no provider has ever pushed back, and no breaker was opened by hand\n"
    )
    for _ in range(3):
        client.worker.breakers.answered("crm", None, Answer(pushed_back=True, status=503))
    client.acting_as("user:ada").breakers.open("mail", reason="their maintenance")
    crm, mail = onward("breakers", "list").out.splitlines()
    assert crm.startswith("crm  open  until 20")
    assert crm.endswith("3 counted  3 jobs in a row were pushed back, the last with status 503")
    assert mail == "mail  open  by hand  user:ada  their maintenance"
    shown = json.loads(onward("breakers", "list", "--json").out)["items"]
    assert [(one["name"], one["state"], one["forced"]) for one in shown] == [
        ("crm", "open", False),
        ("mail", "open", True),
    ]
    assert shown[0]["until"].endswith("Z")


def test_a_breaker_is_opened_and_closed_for_a_reason(onward, client):
    ran = onward(
        "breakers", "open", "crm", "--reason", "their maintenance", "--for", "10m", "--actor", "user:ada"
    )
    assert ran.code == 0
    assert ran.err.startswith("crm  open  by hand  until 20")
    held = client.breakers.get("crm")
    assert (held.forced, held.actor_id, held.reason) == (True, "ada", "their maintenance")
    assert (held.until - held.opened_at).total_seconds() == 600
    assert onward("breakers", "close", "crm", "--reason", "over").err == "crm is closed\n"
    assert client.breakers.get("crm").clean
    again = onward("breakers", "close", "crm", "--reason", "over")
    assert (again.code, again.err) == (1, "crm: nothing was held or counted\n")
    events = [record.event for record in client.audit.list(oldest_first=True)]
    assert events == ["breaker.opened", "breaker.closed"]
    assert client.audit.list()[0].actor_type == "cli"  # whoever says nothing


def test_what_makes_no_sense_is_refused(onward, client):
    assert onward("breakers", "open", "crm").code == 2
    for wrong in (("--for", "soon"), ("--until", "tomorrow"), ("--until", "2020-01-01T00:00+00:00")):
        assert onward("breakers", "open", "crm", "--reason", "r", *wrong).code == 2
    assert client.breakers.list().items == []
