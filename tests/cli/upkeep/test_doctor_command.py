"""`onward doctor`: says what is wrong and what mends it, to people and to programs."""

from __future__ import annotations

import json
import subprocess

import pytest

from onward import Client, Failed, NewJob
from onward.errors import StoreError


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
    client.worker.register("w")
    ran = onward("doctor")
    assert ran.code == 0
    assert "✗" not in ran.out


def test_programs_get_one_document_with_the_evidence(onward, client):
    client.acting_as("user:ada").gate.close(reason="deploy \x1b[31m")
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


def test_a_part_of_the_diagnosis_that_fails_is_a_problem(onward, client, monkeypatch):
    def fail(*_: object) -> None:
        raise StoreError("onward.db: disk I/O error")

    client.worker.register("w")
    monkeypatch.setattr("onward.operations.upkeep.doctor.gather", fail)
    ran = onward("doctor")
    assert ran.code == 1
    assert "✗ a part of the diagnosis failed: onward.db: disk I/O error" in ran.out


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
    client.worker.register("w")
    [job] = client.worker.claim("q:default", worker_id="w")
    client.worker.finish([job.end_with(Failed("no key", retryable=False))]).require()
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


@pytest.mark.parametrize(
    "name", ["a b", "-x", "--help", "q; rm -rf x", "a'b", "$(id)", "`id`", "q\nx", "\x1b[1m"]
)
def test_what_is_pasted_into_a_shell_mends_what_it_names(onward, client, name):
    client.enqueue(NewJob(job_type="mail", queue=name))
    client.queues.pause(name, reason="why")
    client.breakers.open(name, reason="why")
    for line in onward("doctor").out.splitlines():
        if line.endswith(("[queue_paused]", "[breaker_open]")):
            pasted = line.rpartition(" → ")[2].rpartition("  [")[0].removeprefix("onward ")
            said = subprocess.run(["bash", "-c", f"printf '%s\\0' {pasted}"], capture_output=True, check=True)
            assert onward(*said.stdout.decode().split("\0")[:-1]).code == 0
    assert client.gate.status().pauses == frozenset()
    assert {breaker.forced for breaker in client.breakers.list()} == {False}


def test_only_the_place_of_the_app_takes_its_name(onward, client, folder):
    (folder / "shop.py").write_text("from onward import Onward\napp = Onward()\n")
    client.worker.register("w", info={"queues": {}})
    client.enqueue(NewJob(job_type="mail", queue="the APP"))
    client.queues.pause("the APP", reason="why")
    said = onward("doctor", "--app", "shop:app").out
    assert "onward queues resume --app shop:app 'the APP'" in said
    assert "onward worker shop:app -q 'the APP'" in said


def test_what_mends_it_names_the_app_that_was_found(onward, client, folder):
    (folder / "app.py").write_text("from onward import Onward\nhere = Onward()\n")
    assert "→ onward worker app:here  [no_worker]" in onward("doctor").out
    assert "onward worker app:here" in onward("doctor", "--json").out


def test_what_mends_it_is_about_the_same_database(onward, client, folder):
    missing = onward("doctor", "--url", "sqlite:///other.db")
    assert "→ onward migrate --url sqlite:///other.db  [database_missing]" in missing.out
    client.queues.pause("-x", reason="why")
    said = onward("doctor", "--url", f"sqlite:///{folder}/onward.db").out
    assert f"onward queues resume --url sqlite:///{folder}/onward.db -- -x" in said
    refused = onward("doctor", "--url", "postgresql://app:hunter2hunter2@127.0.0.1:1/app", "--json")
    assert "hunter2" not in refused.out


@pytest.mark.parametrize("code", ["raise OSError('no disk')", "import sys; sys.exit('no disk')"])
def test_an_app_that_can_not_be_imported_is_a_finding_where_the_database_is_known(
    onward, client, folder, monkeypatch, code
):
    (folder / "app.py").write_text(f"# Onward()\n{code}\n")
    url = f"sqlite:///{folder}/onward.db"
    ran = onward("doctor", "--url", url, "--json")
    assert ran.code == 1
    [said] = [one for one in json.loads(ran.out)["findings"] if one["code"] == "app_broken"]
    assert said["severity"] == "problem"
    assert said["evidence"]["error"] in {"OSError", "SystemExit"}
    assert said["evidence"]["message"] == "no disk"
    assert said["remedy"] == 'python -c "import app"'
    monkeypatch.setenv("ONWARD_URL", url)
    assert "[app_broken]" in onward("doctor").out
    monkeypatch.delenv("ONWARD_URL")
    without = onward("doctor")
    assert (without.code, without.out) == (2, "")
    assert 'importing "app" failed' in without.err


def test_a_job_is_named_by_how_its_id_begins(onward, client):
    first, second = (client.enqueue(NewJob(job_type="mail")).id for _ in range(2))
    shared = first[
        : next(at for at, (one, other) in enumerate(zip(first, second, strict=True)) if one != other)
    ]
    for job_id in (first, second):
        # Whatever its last digits are: the highest may be among them.
        for words in (
            *(job_id[:length] for length in range(len(shared) + 1, 36)),
            job_id.replace("-", "").upper(),
        ):
            assert "no_worker" in onward("doctor", words).out
    several = onward("doctor", shared)
    assert several.code == 2
    assert f"is the beginning of several jobs: {second}, {first}" in several.err
    assert onward("doctor", "ffff").code == 3
    assert onward("doctor", "what").code == 2
