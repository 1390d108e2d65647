"""Why one job has not run, or has not had its effect."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from onward import Client, Context, Failed, JobFilter, JobNotFound, NewJob, Outcome, Skip, Succeeded
from onward.core.policy.policies import Policies
from onward.core.upkeep.diagnosis import Finding
from onward.core.work.error_record import ErrorRecord
from onward.results import Job
from tests.upkeep.doctor.facts import HOUR, MINUTE, SECOND, codes

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


def enqueued(client: Client, **fields: Any) -> str:
    return client.at(NOW).enqueue(NewJob(**({"job_type": "mail", "subject": "booking:42"} | fields))).id


def alive(client: Client, name: str = "w", **info: Any) -> str:
    client.at(NOW).worker.register(name, lease=timedelta(days=1), info={"concurrency": 5, **info})
    return name


def ran(client: Client, outcome: Outcome, **fields: Any) -> str:
    job_id = enqueued(client, **fields)
    [job] = client.at(NOW).worker.claim("q:default", worker_id=alive(client))
    client.at(NOW).worker.finish([job.end_with(outcome)]).require()
    return job_id


def told(client: Client, job_id: str, after: timedelta = SECOND) -> dict[str, Finding]:
    said = client.at(NOW + after).doctor.explain(job_id)
    assert len(said) == len({finding.code for finding in said})
    return {finding.code: finding for finding in said}


def test_a_job_that_nothing_hinders_is_the_next_in_line(client):
    alive(client)
    assert set(told(client, enqueued(client))) == {"next_in_line"}


def test_a_job_waits_behind_more_urgent_ones(client):
    alive(client)
    for priority in (1, 2, 5, 9):
        enqueued(client, priority=priority, subject=str(priority))
    said = told(client, enqueued(client, priority=6))
    assert said["behind_others"].evidence["ahead"] == 3
    assert set(said) == {"behind_others"}
    second = told(client, enqueued(client, priority=1))["behind_others"].title
    assert second == "1 job of queue q:default comes before it (priority 1)"


def test_a_job_waits_for_its_time_or_for_somebody_to_make_it_ready(client):
    alive(client)
    job_id = enqueued(client, delay=HOUR)
    assert set(told(client, job_id)) == {"waiting_for_time"}
    assert set(told(client, job_id, after=HOUR + 2 * MINUTE)) == {"silent_schedule"}


def test_whatever_is_paused_is_told_of_the_jobs_that_it_holds(client):
    alive(client)
    held, free = (enqueued(client, org_id=org, job_type=kind) for org, kind in (("acme", "mail"), ("x", "t")))
    client.orgs.pause("acme", reason="unpaid")
    client.job_types.pause("mail", reason="bug")
    client.queues.pause("q:other", reason="slow")
    assert codes(list(told(client, held).values())) == {"org_paused", "job_type_paused"}
    assert codes(list(told(client, free).values())) == set()
    client.gate.close(reason="deploy")
    client.queues.pause("q:default", reason="slow")
    assert codes(list(told(client, free).values())) == {"gate_closed", "queue_paused"}


def test_a_job_that_no_worker_would_take_is_told_why(client):
    job_id = enqueued(client)
    assert set(told(client, job_id)) == {"no_worker"}
    alive(client, "a", queues={"q:other": None}, job_types=["mail"])
    assert set(told(client, job_id)) == {"unserved_queue"}
    alive(client, "b", queues={"q:default": None}, job_types=["t"])
    assert set(told(client, job_id)) == {"unknown_job_type"}
    alive(client, "c")
    assert set(told(client, job_id)) == {"next_in_line"}


def test_a_job_is_held_by_the_breaker_of_its_provider_or_of_its_queue(client):
    alive(client, providers={"mail": "resend"})
    job_id = enqueued(client)
    client.breakers.open("other", reason="down")
    assert codes(list(told(client, job_id).values())) == set()
    for name in ("resend", "queue:q:default"):
        client.breakers.open(name, reason="down")
        assert told(client, job_id)["breaker_open"].evidence["breaker"] == name
        client.breakers.close(name, reason="up")


def test_a_running_job_is_told_with_its_worker_and_one_of_a_dead_worker_is_stuck(client):
    job_id = enqueued(client)
    client.at(NOW).worker.register("short")
    assert client.at(NOW).worker.claim("q:default", worker_id="short")
    running = told(client, job_id)["running"]
    assert running.evidence["worker"] == "short"
    client.at(NOW).jobs.cancel(job_id, reason="not needed")
    assert set(told(client, job_id)) == {"cancel_requested"}
    assert told(client, job_id, after=MINUTE)["stuck_jobs"].severity == "problem"


def test_a_job_that_waits_to_run_again_is_told_with_its_error(client):
    said = told(client, ran(client, Failed(ValueError("no total"))))
    assert set(said) == {"retrying", "waiting_for_time"}
    assert "ValueError: no total (attempt 1 of 5)" in said["retrying"].title


def test_a_dead_job_is_told_with_its_class_hint_and_link_and_then_with_what_became_of_it(client):
    # S0-84: the job failed
    error = ErrorRecord("ResendError", "422", hint="correct the address", link="https://x.y/z")
    job_id = ran(client, Failed(error, retryable=False))
    dead = told(client, job_id)["dead"]
    assert dead.severity == "problem"
    assert dead.evidence["error_class"] == "ResendError"
    assert (dead.evidence["hint"], dead.evidence["link"]) == ("correct the address", "https://x.y/z")
    assert dead.remedy == f"onward dead replay {job_id} --reason …"
    client.dead.discard([job_id], reason="address is gone")
    assert "discarded" in told(client, job_id)["resolved"].title


@pytest.mark.parametrize("rule", ["http_401", "http_403", "missing_scopes"])
def test_a_key_that_the_provider_refused_is_told(client, rule):
    # S0-84: the API key is invalid
    job_id = ran(
        client, Failed({"error_class": "AuthError", "message": "401", "rule": rule}, retryable=False)
    )
    assert set(told(client, job_id)) == {"dead", "unauthorised"}


def test_an_end_that_is_no_failure_is_told(client):
    assert set(told(client, ran(client, Succeeded()))) == {"succeeded"}


def test_a_skip_and_a_cancellation_are_told_with_their_reasons(client):
    assert (
        told(client, ran(client, Skip("nothing to send")))["skipped"].evidence["reason"] == "nothing to send"
    )
    waiting = enqueued(client, subject="other")
    client.at(NOW).jobs.cancel(waiting, reason="booking is gone")
    assert told(client, waiting)["cancelled"].evidence["reason"] == "booking is gone"


def test_an_effect_that_was_done_before_is_told_with_how_to_have_it_done_again(app):
    # S0-84: the time stamp is set already
    @app.job
    def send(ctx: Context) -> None:
        ctx.once("confirmation", lambda: "sent")

    job_id = send.enqueue().id
    app.tick()
    said = {finding.code: finding for finding in app.client.doctor.explain(job_id)}
    assert set(said) == {"succeeded", "effect_done"}
    assert said["effect_done"].remedy == f"onward effects reset --reason … {job_id} confirmation"


def test_a_dry_run_is_told_of_a_job_that_succeeded_without_its_effect(client):
    # S0-84: e-mails are switched off
    dry = Client(store=client.store, policies=Policies.of(dry_run=True))
    assert set(told(dry, ran(dry, Succeeded()))) == {"succeeded", "dry_run"}


def test_a_job_is_found_by_its_subject_and_type_and_explained(client):  # S0-87
    ran(client, Failed("no key", retryable=False), job_type="send_customer_confirmation")
    enqueued(client, job_type="send_invoice")
    wanted = JobFilter(subject="booking:42", job_type="send_customer_confirmation")
    [job] = client.jobs.list(wanted).items
    assert isinstance(job, Job)
    assert told(client, job.id)["dead"].evidence["subject"] == "booking:42"


def test_a_job_that_is_not_there_is_not_explained(client):
    with pytest.raises(JobNotFound):
        client.doctor.explain("01890000-0000-7000-8000-000000000000")


def test_a_client_of_one_org_is_told_of_its_own_jobs_and_of_no_workers(client):
    alive(client)
    own, other = enqueued(client, org_id="acme"), enqueued(client, org_id="bolt")
    client.orgs.pause("acme", reason="unpaid")
    acme = client.for_org("acme")
    assert codes(acme.doctor.explain(own)) == {"org_paused"}
    with pytest.raises(JobNotFound):
        acme.doctor.explain(other)


def test_a_job_waits_for_room_in_its_queue_or_for_its_rate(client):
    alive(client)
    client.at(NOW).queues.limit("q:bounded", concurrency=2, reason="r")
    for _ in range(2):
        enqueued(client, queue="q:bounded")
    claimed = client.at(NOW).worker.claim_by_policy("q:bounded", 5, worker_id="w").jobs
    said = told(client, enqueued(client, queue="q:bounded"))
    assert said["queue_full"].title == "its queue runs 2 of 2"
    assert said["queue_full"].remedy == "onward queues limit q:bounded --concurrency N --reason …"
    client.at(NOW).worker.finish([job.end_with(Succeeded()) for job in claimed]).require()
    client.at(NOW).queues.limit("q:bounded", rate="1/1m", reason="r")
    client.at(NOW).worker.claim_by_policy("q:bounded", 1, worker_id="w")
    said = told(client, enqueued(client, queue="q:bounded"))
    assert said["queue_rate"].title == "its queue starts 1/1m; the next may start in 59 s"
