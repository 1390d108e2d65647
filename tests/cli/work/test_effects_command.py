"""`onward effects`: lists and resets."""

from __future__ import annotations

import json

import pytest

from onward import AuditFilter, Client, NewJob
from onward.results import Effect


@pytest.fixture
def done(folder) -> Effect:
    """A database with a job that has sent something, and remembers a step."""
    with Client(f"sqlite:///{folder}/onward.db") as client:
        client.worker.register("w")
        client.enqueue(NewJob(job_type="t"))
        [job] = client.worker.claim("q:default", worker_id="w")
        client.worker.effects.done(
            job, client.worker.effects.begin(job, "send"), {"password": "hunter2hunter2", "n": 1}
        )
        client.worker.effects.remember(job, "total", 5)
        effect = client.worker.effects.read(job.id, "send")
        assert effect is not None
        return effect


def test_effects_are_listed_for_people_and_for_programs(onward, done):
    ran = onward("effects", "list", done.job_id)
    assert ran.code == 0
    heading, send, total = ran.out.splitlines()
    assert heading.split() == ["STATE", "KIND", "NAME", "ATTEMPT", "AT", "KEY"]
    assert send.split()[:4] == ["done", "once", "send", "1"]
    assert send.endswith(done.key)
    assert total.split()[:4] == ["done", "step", "total", "1"]
    assert onward("effects", "list", done.job_id[:20]).out == ran.out
    first, second = json.loads(onward("effects", "list", done.job_id, "--json").out)["items"]
    assert (first["name"], first["state"], first["idempotency_key"]) == ("send", "done", done.key)
    assert first["result"] == {"password": "[redacted]", "n": 1}
    assert first["done_at"].endswith("Z")
    assert (second["result"], second["idempotency_key"], second["begun_at"]) == (5, None, None)
    assert onward("effects", "list", "what").code == 2


def test_a_job_without_effects_is_told_from_one_that_is_not_there(onward, done, folder):
    with Client(f"sqlite:///{folder}/onward.db") as client:
        bare = client.enqueue(NewJob(job_type="t")).id
    ran = onward("effects", "list", bare)
    assert (ran.code, ran.out, ran.err) == (0, "", "no effects are recorded\n")
    unknown = onward("effects", "list", "018f0000-0000-7000-8000-000000000000")
    assert unknown.code == 3
    assert "no job 018f0000-0000-7000-8000-000000000000" in unknown.err


def test_an_effect_is_reset_by_its_name_for_a_reason(onward, done, folder):  # S0-88
    ran = onward("effects", "reset", done.job_id, "send", "--reason", "bounced", "--actor", "user:ada")
    assert ran.code == 0
    assert "the job is running, and does it again when it next runs" in ran.err
    assert ran.out.startswith("its new key  ")
    assert done.key not in ran.out
    assert onward("effects", "reset", done.job_id, "send", "--reason", "again").code == 0
    typo = onward("effects", "reset", done.job_id, "sent", "--reason", "typo")
    assert typo.code == 3
    assert f"onward effects list {done.job_id}" in typo.err
    assert onward("effects", "reset", done.job_id, "send").code == 2
    with Client(f"sqlite:///{folder}/onward.db") as client:
        second, first = client.audit.list(AuditFilter(event="effect.reset"))
        assert (first.actor_type, first.actor_id, first.detail["reason"]) == ("user", "ada", "bounced")
        assert second.actor_type == "cli"
        assert "@" in str(second.actor_id)
        assert client.worker.effects.read(done.job_id, "send").generation == 2
