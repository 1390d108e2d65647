"""`onward doctor`: says what is wrong and what mends it, to people and to programs."""

from __future__ import annotations

import json

import pytest

from onward import Client, Failed, NewJob


@pytest.fixture
def client(folder):
    with Client(f"sqlite:///{folder}/onward.db") as client:
        client.migrate()
        yield client


def test_a_queue_without_a_worker_ends_with_1_and_the_command_that_starts_one(onward, client):
    ran = onward("doctor")
    assert ran.code == 1
    lines = ran.out.splitlines()
    assert lines[-1] == (
        "✗ no worker has reported in the last 30 s (none ever has) → onward worker APP  [no_worker]"
    )
    assert any(line.startswith("✓ database  SQLite ") for line in lines)


def test_what_mends_it_names_the_app_that_was_named(onward, client, monkeypatch, folder):
    (folder / "shop.py").write_text("from onward import Onward\napp = Onward()\n")
    assert "→ onward worker shop:app" in onward("doctor", "--app", "shop:app").out
    monkeypatch.setenv("ONWARD_APP", "shop:app")
    assert "→ onward worker shop:app" in onward("doctor").out


def test_a_queue_that_works_ends_with_0(onward, client):
    client.register("w")
    ran = onward("doctor")
    assert ran.code == 0
    assert "✗" not in ran.out


def test_programs_get_one_document_with_the_evidence(onward, client):
    client.close_gate(reason="deploy \x1b[31m", actor_type="user", actor_id="ada")
    ran = onward("doctor", "--json", "--deep")
    assert ran.code == 1
    shown = json.loads(ran.out)
    assert shown["ok"] is False
    first = shown["findings"][0]
    assert (first["code"], first["severity"], first["remedy"]) == (
        "gate_closed",
        "problem",
        "onward gate open",
    )
    assert first["evidence"]["actor"] == "user:ada"
    assert "\x1b" not in ran.out + onward("doctor").out


def test_a_file_that_is_not_there_ends_with_5_and_is_not_made(onward, folder):
    ran = onward("doctor")
    assert ran.code == 5
    assert ran.out.startswith(f"✗ there is no database file {folder}/onward.db")
    assert list(folder.iterdir()) == []


def test_a_database_that_is_down_ends_with_5(onward):
    ran = onward("doctor", "--url", "postgresql://app:hunter2hunter2@127.0.0.1:1/app")
    assert ran.code == 5
    assert ran.out.startswith("✗ PostgreSQL can't be reached")
    assert "hunter2" not in ran.out + ran.err


def test_a_job_is_explained_by_its_id_or_by_its_subject_and_type(onward, client):
    # S0-87: the result of a job by its subject and type
    asked = NewJob(job_type="send_customer_confirmation", subject="booking:42")
    job_id = client.enqueue(asked).id
    client.enqueue(NewJob(job_type="send_invoice", subject="booking:42", priority=9))
    client.register("w")
    [job] = client.claim("q:default", worker_id="w")
    client.finish([(job, Failed("no key", retryable=False))]).require()
    by_subject = ("--subject", "booking:42", "--job-type", "send_customer_confirmation")
    for words in ((job_id,), by_subject):
        ran = onward("doctor", *words)
        assert ran.code == 1
        assert "✗ it is dead (unrecoverable) after an error: no key" in ran.out
    assert "next_in_line" in onward("doctor", "--subject", "booking:42").out


def test_a_job_that_is_not_there_ends_with_3(onward, client):
    assert onward("doctor", "01890000-0000-7000-8000-000000000000").code == 3
    assert onward("doctor", "--subject", "booking:43").code == 3


def test_contradictory_words_are_refused(onward, client):
    for words in (("id", "--subject", "s"), ("--job-type", "t")):
        ran = onward("doctor", *words)
        assert ran.code == 2
        assert "give a JOB_ID, or --subject" in ran.err
