"""The gate and the pauses: stored with their reason and actor, audited, and seen by every claim that asks."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest

from onward import Client, InvalidJob, InvalidSetting, NewJob
from onward.core.jobs.actor import Actor
from onward.results import Controls, Gate, Pause
from tests.jobs.inspect.reading import rows

NOW = datetime.now(UTC).replace(microsecond=123_456)
LATER = NOW + timedelta(minutes=1)
ADA = "user:ada"
BOB = "api_key:bob"
SCOPES = [("queue", "q:default"), ("org", "acme"), ("job_type", "mail")]


def paused_noun(client: Client, scope: str) -> Any:
    """The noun of a client whose things a scope pauses."""
    return {"queue": client.queues, "org": client.orgs, "job_type": client.job_types}[scope]


def audit(client: Client) -> list[tuple[Any, ...]]:
    """Every line of the audit that belongs to no job, with its detail."""
    found = rows(
        client,
        "SELECT event, actor_type, actor_id, org_id, job_type, CAST(detail AS text) FROM {prefix}audit "
        "WHERE job_id IS NULL ORDER BY seq",
    )
    return [(*line, json.loads(detail)) for *line, detail in found]


@pytest.mark.parametrize(("scope", "name"), SCOPES)
def test_a_pause_is_stored_with_its_reason_and_actor_until_it_is_resumed(client, scope, name):
    assert client.gate.status() == Controls()
    assert paused_noun(client.at(NOW).acting_as(ADA), scope).pause(name, reason="too many é")
    [pause] = client.gate.status().pauses
    assert pause == Pause(scope, name, "too many é", "user", "ada", NOW)
    assert client.gate.status().paused(scope) == {name}
    assert paused_noun(client.at(LATER).acting_as(BOB), scope).resume(name, reason="fixed")
    assert client.gate.status() == Controls()
    org, job_type = name if scope == "org" else None, name if scope == "job_type" else None
    assert audit(client) == [  # S4-1
        (f"{scope}.paused", "user", "ada", org, job_type, {"name": name, "reason": "too many é"}),
        (f"{scope}.resumed", "api_key", "bob", org, job_type, {"name": name, "reason": "fixed"}),
    ]


def test_pausing_again_for_the_same_reason_changes_nothing(client):
    client.at(NOW).acting_as(ADA).queues.pause("q", reason="r")
    assert not client.at(LATER).acting_as(BOB).queues.pause("q", reason="r")
    assert client.gate.status().pauses == {Pause("queue", "q", "r", "user", "ada", NOW)}
    assert len(audit(client)) == 1


def test_another_reason_replaces_the_first_and_the_pause_counts_from_its_beginning(client):
    client.at(NOW).acting_as(ADA).queues.pause("q", reason="r")
    assert client.at(LATER).acting_as(BOB).queues.pause("q", reason="worse")
    assert client.gate.status().pauses == {Pause("queue", "q", "worse", "api_key", "bob", NOW)}
    assert [line[0] for line in audit(client)] == ["queue.paused", "queue.paused"]


def test_resuming_what_is_not_paused_says_so_and_leaves_no_trace(client):
    client.at(NOW).queues.pause("q", reason="r")
    assert not client.acting_as(ADA).queues.resume("other")
    assert not client.acting_as(ADA).orgs.resume("q")
    assert client.queues.resume("q")
    assert not client.queues.resume("q")
    assert [line[0] for line in audit(client)] == ["queue.paused", "queue.resumed"]


def test_the_gate_is_closed_and_opened_with_reason_and_actor(client):  # S1-17, S1-18
    assert client.at(NOW).acting_as(ADA).gate.close(reason="the provider is down")
    assert client.gate.status().gate == Gate("the provider is down", "user", "ada", NOW)
    assert not client.at(LATER).acting_as(BOB).gate.close(reason="the provider is down")
    assert client.at(LATER).acting_as(BOB).gate.close(reason="maintenance")
    assert client.gate.status().gate == Gate("maintenance", "api_key", "bob", NOW)
    assert client.gate.status().pauses == frozenset()
    assert client.at(LATER).acting_as(ADA).gate.open()
    assert not client.at(LATER).acting_as(ADA).gate.open()
    assert client.gate.status().gate is None
    assert audit(client) == [
        ("gate.closed", "user", "ada", None, None, {"reason": "the provider is down"}),
        ("gate.closed", "api_key", "bob", None, None, {"reason": "maintenance"}),
        ("gate.opened", "user", "ada", None, None, {}),
    ]


def test_a_pause_is_still_there_when_the_store_is_opened_again(tmp_path):  # S1-18
    url = f"sqlite:///{tmp_path}/onward.db"
    with Client(url) as client:
        client.orgs.pause("acme", reason="r")
        client.gate.close(reason="r")
    with Client(url) as client:
        assert client.gate.status().paused("org") == {"acme"}
        assert client.gate.status().gate is not None


def test_a_claim_passes_over_paused_orgs_and_job_types(client):
    client.at(NOW).worker.register("w")
    for job_type, org_id in [
        ("mail", "acme"),
        ("mail", None),
        ("report", "acme"),
        ("report", "b"),
        ("x", None),
    ]:
        client.at(NOW).enqueue(NewJob(job_type=job_type, org_id=org_id))

    def claimed(**paused: Any) -> list[tuple[str, str | None]]:
        jobs = client.at(NOW).worker.claim("q:default", 10, worker_id="w", **paused)
        client.at(NOW).worker.release([job.held_lease for job in jobs]).require()
        return sorted(((job.job_type, job.org_id) for job in jobs), key=str)

    assert len(claimed()) == 5
    assert claimed(paused_orgs=["acme"]) == [("mail", None), ("report", "b"), ("x", None)]
    assert claimed(paused_types=["mail", "x"]) == [("report", "acme"), ("report", "b")]
    assert claimed(paused_orgs={"b", "acme"}, paused_types={"x"}) == [("mail", None)]
    assert claimed(paused_orgs=["b"], paused_types=["mail", "report", "x"]) == []


def test_a_claim_beside_pauses_keeps_the_order_the_limit_and_the_lease(client):
    client.at(NOW).worker.register("w")
    for priority in (9, 1, 5, 2):
        client.at(NOW).enqueue(NewJob(job_type="mail", priority=priority))
        client.at(NOW).enqueue(NewJob(job_type="paused", priority=priority))
    jobs = client.at(NOW).worker.claim("q:default", 3, worker_id="w", paused_types=["paused"])
    assert [(job.job_type, job.priority) for job in jobs] == [("mail", 1), ("mail", 2), ("mail", 5)]
    assert {(job.attempt, job.lease, job.worker_id) for job in jobs} == {(1, 1, "w")}
    assert [event.event for event in client.jobs.events(jobs[0].id)] == ["job.enqueued", "job.started"]
    from onward.errors import WorkerLost

    with pytest.raises(WorkerLost):
        client.worker.claim("q:default", worker_id="nobody", paused_orgs=["o"])


def test_what_runs_goes_on_when_it_is_paused(client):
    client.at(NOW).worker.register("w")
    client.at(NOW).enqueue(NewJob(job_type="mail"))
    [job] = client.at(NOW).worker.claim("q:default", worker_id="w")
    client.at(NOW).queues.pause("q:default", reason="r")
    client.at(NOW).gate.close(reason="r")
    assert client.at(NOW).worker.extend("w", [job.held_lease]).held == {job.id}
    assert client.at(NOW).worker.release([job.held_lease]).held == {job.id}


def test_a_paused_queue_still_shows_that_it_has_work(client):
    # To leave it alone is up to the worker, which knows of the pause by its watch.
    client.at(NOW).enqueue(NewJob(job_type="mail"))
    client.at(NOW).worker.register("w")
    client.at(NOW).queues.pause("q:default", reason="r")
    assert (
        client.at(NOW).worker.ready_queues().queues - client.at(NOW).worker.instructions("w").paused("queue")
        == frozenset()
    )


def test_a_pause_shares_the_fate_of_the_callers_transaction(client):
    store = client.store
    connect = (
        (lambda: sqlite3.connect(store.file.path))
        if store.database == "sqlite"
        else (lambda: psycopg.connect(store.url))
    )
    client.gate.status()
    with closing(connect()) as connection:
        within = client.within(connection)
        assert within.orgs.pause("acme", reason="r")
        assert within.gate.close(reason="r")
        assert within.gate.status().paused("org") == {"acme"}
        connection.rollback()
        assert client.gate.status() == Controls()
        assert audit(client) == []
        within = client.within(connection)
        assert within.acting_as(ADA).orgs.pause("acme", reason="r")
        connection.commit()
    assert client.gate.status().paused("org") == {"acme"}
    assert [line[:3] for line in audit(client)] == [("org.paused", "user", "ada")]


BAD: list[tuple[type[Exception], str, tuple[str, str], dict[str, Any]]] = [
    (InvalidJob, "queue is empty", ("queues", ""), {"reason": "r"}),
    (InvalidJob, "org_id .* takes 300 bytes", ("orgs", "x" * 300), {"reason": "r"}),
    (InvalidJob, "reason is empty", ("queues", "q"), {"reason": ""}),
    (InvalidJob, "reason is a NoneType", ("queues", "q"), {"reason": None}),
    (InvalidJob, "reason .* NUL", ("queues", "q"), {"reason": "a\0"}),
]


@pytest.mark.parametrize(("error", "message", "paused", "options"), BAD)
def test_a_pause_that_says_nothing_is_refused(tmp_path, error, message, paused, options):
    noun, name = paused
    with Client(f"sqlite:///{tmp_path}/onward.db") as client:
        with pytest.raises(error, match=message):
            getattr(client, noun).pause(name, **options)
        assert client.gate.status() == Controls()


BAD_ACTORS: list[tuple[type[Exception], str, Any]] = [
    (InvalidJob, "actor_id is an int", Actor("user", 7)),  # type: ignore[arg-type]
    (InvalidSetting, r"actor is \('user', 7\); give 'type:id'", ("user", 7)),
    (InvalidSetting, "actor is 7; give 'type:id'", 7),
]


@pytest.mark.parametrize(("error", "message", "actor"), BAD_ACTORS)
def test_a_pause_by_what_is_no_actor_is_refused(tmp_path, error, message, actor):
    with Client(f"sqlite:///{tmp_path}/onward.db") as client:
        with pytest.raises(error, match=message):
            client.acting_as(actor).queues.pause("q", reason="r")
        assert client.gate.status() == Controls()


def test_the_gate_too_wants_a_reason(client):
    with pytest.raises(InvalidJob, match="reason is empty"):
        client.gate.close(reason="")
    with pytest.raises(InvalidJob, match="reason is empty"):
        client.gate.open(reason="")
    with pytest.raises(InvalidJob, match="reason is empty"):
        client.queues.resume("q", reason="")


def test_a_job_that_is_given_back_with_a_delay_waits_and_burns_no_attempt(client):  # R13
    # An unknown type, say: given back at once it would be the first to be claimed again.
    client.at(NOW).worker.register("w")
    client.at(NOW).enqueue(NewJob(job_type="unknown"))
    [job] = client.at(NOW).worker.claim("q:default", worker_id="w")
    client.at(NOW).worker.release([job.held_lease], delay="5s").require()
    assert client.at(NOW).worker.claim("q:default", worker_id="w") == []
    waiting = client.jobs.get(job.id)
    assert (waiting.state, waiting.attempt, waiting.run_at) == ("scheduled", 0, NOW + timedelta(seconds=5))
    assert client.jobs.events(job.id)[-1].event == "job.released"
    assert client.at(NOW).worker.ready_queues().next_due == waiting.run_at


def test_a_claim_by_hand_respects_the_gate_and_every_pause(client):
    client.worker.register("w")
    for org_id, job_type in ((None, "mail"), ("acme", "work"), (None, "work")):
        client.enqueue(NewJob(job_type=job_type, org_id=org_id))
    client.gate.close(reason="r")
    assert client.worker.claim("q:default", 10, worker_id="w") == []
    client.gate.open()
    client.queues.pause("q:default", reason="r")
    assert client.worker.claim("q:default", 10, worker_id="w") == []
    client.queues.resume("q:default")
    client.orgs.pause("acme", reason="r")
    client.job_types.pause("mail", reason="r")
    [job] = client.worker.claim("q:default", 10, worker_id="w")
    assert (job.org_id, job.job_type) == (None, "work")
    assert client.worker.claim("q:default", 10, worker_id="w", paused_types=["mail"]) == []
    assert client.worker.claim("q:default", 10, worker_id="w", paused_orgs=[]) == []
    [ours] = client.worker.claim("q:default", 10, worker_id="w", paused_orgs=[], paused_types=["mail"])
    assert ours.org_id == "acme", "a worker that keeps watch itself is not asked twice"
