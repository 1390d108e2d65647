"""`onward gate` and `onward queues`: the commands that the doctor names."""

from __future__ import annotations

import getpass
import json
import socket

import pytest

from onward import Client, NewJob


@pytest.fixture
def client(folder):
    with Client(f"sqlite:///{folder}/onward.db") as client:
        client.migrate()
        yield client


def test_the_gate_is_closed_and_opened_by_whoever_sits_there(onward, client):  # S0-83
    ran = onward("gate", "close", "--reason", "deploy")
    assert (ran.code, ran.out, ran.err) == (0, "", "the gate is closed\n")
    gate = client.gate.status().gate
    assert gate is not None
    assert (gate.reason, gate.actor_type) == ("deploy", "cli")
    assert gate.actor_id == f"{getpass.getuser()}@{socket.gethostname()}"
    assert (
        onward("gate", "close", "--reason", "deploy").err == "the gate was closed for that reason already\n"
    )
    assert onward("gate", "open", "--actor", "user:ada", "--reason", "done").err == "the gate is open\n"
    assert client.gate.status().gate is None
    assert onward("gate", "open").err == "the gate was open already\n"
    [event] = client.audit.list(limit=1)
    assert (event.event, event.actor_type, event.actor_id) == ("gate.opened", "user", "ada")


def test_the_state_of_the_gate_is_told(onward, client):
    assert onward("gate", "status").out == "open\n"
    assert json.loads(onward("gate", "status", "--json").out) == {"open": True}
    client.acting_as("user:ada").gate.close(reason="deploy")
    assert onward("gate", "status").out.endswith("user:ada  deploy\n")
    told = json.loads(onward("gate", "status", "--json").out)
    assert (told["open"], told["reason"], told["actor_id"]) == (False, "deploy", "ada")
    assert told["closed_at"].endswith("Z")


@pytest.mark.parametrize(
    ("words", "scope", "name"),
    [
        (["q:mail"], "queue", "q:mail"),
        (["--org", "acme"], "org", "acme"),
        (["--job-type", "t"], "job_type", "t"),
    ],
)
def test_a_queue_an_org_or_a_job_type_is_paused_and_resumed(onward, client, words, scope, name):
    client.enqueue(NewJob(job_type="t", queue="q:mail", org_id="acme"))
    assert onward("queues", "pause", *words, "--reason", "slow").err == f"{name} is paused\n"
    [pause] = client.gate.status().pauses
    assert (pause.scope, pause.name, pause.reason, pause.actor_type) == (scope, name, "slow", "cli")
    again = onward("queues", "pause", *words, "--reason", "slow")
    assert again.err == f"{name} was paused for that reason already\n"
    assert onward("queues", "resume", *words, "--actor", "user:ada").err == f"{name} is resumed\n"
    assert client.gate.status().pauses == frozenset()
    assert onward("queues", "resume", *words).err == f"{name} was not paused\n"


@pytest.mark.parametrize(
    ("words", "missing"),
    [
        (["q:mial"], "no job type, job or worker has the queue 'q:mial'; did you mean \"q:mail\"?"),
        (["q:exprots"], "no job type, job or worker has the queue 'q:exprots'; did you mean \"q:exports\"?"),
        (["%"], "no job type, job or worker has the queue '%' (--force does it anyway)"),
        (["--org", "acmee"], "no job has the org 'acmee'; did you mean \"acme\"?"),
        (["--job-type", "sent"], "no job or worker has the job type 'sent'; did you mean \"send\"?"),
        (["--job-type", "deplyo"], "no job or worker has the job type 'deplyo'; did you mean \"deploy\"?"),
    ],
)
def test_what_does_not_exist_is_paused_only_by_force(onward, client, folder, words, missing):
    (folder / "app.py").write_text(
        "from onward import Onward\napp = Onward()\n@app.job\ndef deploy() -> None: ...\n"
    )
    client.enqueue(NewJob(job_type="send", queue="q:mail", org_id="acme"))
    refused = onward("queues", "pause", *words, "--reason", "slow")
    assert refused.code == 2
    assert missing in refused.err
    assert client.gate.status().pauses == frozenset()
    assert onward("queues", "pause", *words, "--reason", "slow", "--force").code == 0
    [pause] = client.gate.status().pauses
    assert pause.name == words[-1]
    assert onward("queues", "pause", *words, "--reason", "other").code == 0, "it is paused, so it is known"


def test_a_queue_that_only_a_worker_serves_exists(onward, client):
    client.worker.register("w1", lease="30s", info={"queues": {"q:rare": None}})
    assert onward("queues", "pause", "q:rare", "--reason", "slow").code == 0
    assert onward("queues", "limit", "q:rare", "--concurrency", "1", "--reason", "slow").code == 0
    ran = onward("queues", "limit", "q:rear", "--concurrency", "1", "--reason", "slow")
    assert (ran.code, 'did you mean "q:rare"?' in ran.err) == (2, True)


def test_the_end_of_a_pause_that_there_is_not_names_the_nearest(onward, client):
    client.queues.pause("q:exports", reason="slow")
    ran = onward("queues", "resume", "q:exprots")
    assert ran.err == 'q:exprots was not paused; did you mean "q:exports"?\n'


def test_where_there_is_nothing_to_list_the_next_command_is_named(onward, client):
    ran = onward("queues", "list")
    assert (ran.code, ran.out) == (0, "")
    assert (
        ran.err == "no job waits or runs, and nothing is paused; onward enqueue JOB puts a job into a queue\n"
    )


@pytest.mark.parametrize("words", [["queues", "limit", "q:default"], ["limits", "set", "crm"]])
def test_a_bound_that_is_missing_is_named_as_an_option(onward, client, words):
    ran = onward(*words, "--reason", "slow")
    assert ran.code == 2
    assert "no bound was given; give --concurrency, --rate or --burst" in ran.err


@pytest.mark.parametrize("words", [[], ["q:mail", "--org", "acme"], ["--org", "acme", "--job-type", "t"]])
def test_one_thing_is_paused_at_a_time(onward, client, words):
    ran = onward("queues", "resume", *words)
    assert ran.code == 2
    assert "give exactly one of QUEUE, --org and --job-type" in ran.err


def test_a_pause_needs_its_reason(onward, client):
    assert onward("queues", "pause", "q:mail").code == 2
    assert onward("gate", "close").code == 2


def test_queues_are_listed_with_what_waits_and_what_is_paused(onward, client):
    client.enqueue(NewJob(job_type="t", queue="q:mail"))
    client.enqueue(NewJob(job_type="t", queue="q:mail"))
    client.acting_as("user:ada").queues.pause("q:other", reason="slow")
    client.orgs.pause("acme", reason="unpaid")
    mail, other, acme = onward("queues", "list").out.splitlines()
    assert mail == "q:mail  2 queued"
    assert other.startswith("q:other  nothing waits  paused since ")
    assert other.endswith(" by user:ada: slow")
    assert acme.startswith("org acme  paused since ")
    told = json.loads(onward("queues", "list", "--json").out)
    assert [queue["name"] for queue in told["queues"]] == ["q:mail", "q:other"]
    assert (told["queues"][0]["queued"], told["queues"][0]["paused"]) == (2, None)
    assert told["queues"][1]["paused"]["reason"] == "slow"
    assert told["pauses"][0]["scope"] == "org"


def test_jobs_in_the_database_are_counted_as_the_runbook_asks(onward, client):  # S0-82
    client.enqueue(NewJob(job_type="t"))
    [queue] = json.loads(onward("queues", "list", "--json").out)["queues"]
    assert (queue["name"], queue["queued"], queue["running"]) == ("q:default", 1, 0)


def test_an_app_that_can_not_be_imported_stops_no_operator_who_names_the_database(onward, client, folder):
    client.enqueue(NewJob(job_type="t"))
    (folder / "app.py").write_text("# Onward()\nraise OSError('no disk')\n")
    place = ("--url", f"sqlite:///{folder}/onward.db")
    for words in (
        ("gate", "close", "--reason", "r"),
        ("queues", "list"),
        ("breakers", "list"),
        ("alerts", "list"),
        ("dead", "list"),
        ("audit", "list"),
    ):
        ran = onward(*words, *place)
        assert ran.code == 0, words
        warned = ran.err.splitlines()[0]
        assert warned == (
            'importing "app" failed: OSError: no disk; going on without the app, by default policies'
        )
        assert "Traceback" not in ran.err
        refused = onward(*words)
        assert (refused.code, refused.out) == (2, "")
        assert "Traceback" in refused.err
    assert client.gate.status().gate is not None


def test_a_queue_is_bounded_and_reset(onward, client):
    client.queues.limit("q:mail", concurrency=5, reason="so that it exists")
    ran = onward("queues", "limit", "q:mail", "--concurrency", "2", "--rate", "10/1m", "--reason", "slow")
    assert (ran.code, ran.err) == (0, "q:mail  at most 2 at once, at most 10/1m\n")
    policy = client.queues.get("q:mail").policy
    assert (policy.concurrency, policy.rate) == (2, "10/1m")
    assert "q:mail  nothing waits  at most 2 at once, at most 10/1m" in onward("queues", "list").out
    [queue] = json.loads(onward("queues", "list", "--json").out)["queues"]
    assert (queue["name"], queue["policy"]) == ("q:mail", {"concurrency": 2, "rate": "10/1m"})
    words = ["--concurrency", "none", "--reason", "r", "--actor", "user:ada"]
    lifted = onward("queues", "limit", "q:mail", *words)
    assert lifted.err == "q:mail  at most 10/1m\n"
    assert client.queues.get("q:mail").actor_id == "ada"
    assert onward("queues", "reset", "q:mail", "--reason", "done").err == "q:mail is as declared\n"
    assert onward("queues", "reset", "q:mail", "--reason", "done").err == "q:mail: no bounds were set\n"
    assert client.queues.get("q:mail").policy.plain


def test_a_bound_that_is_none_is_refused(onward, client):
    ran = onward("queues", "limit", "q:mail", "--concurrency", "many", "--reason", "r")
    assert ran.code != 0
    assert "--concurrency is 'many'; give a whole number, or none" in ran.err
    assert onward("queues", "limit", "q:mail", "--reason", "r").code != 0
    assert not client.queues.list()
