"""An enqueue that changes the job of its key becomes its origin: actor, request, correlation, trace."""

from __future__ import annotations

from typing import Any

import pytest

from onward import Client, Context, NewJob, Onward, Succeeded
from onward.results import Job
from tests.jobs.keys.test_conflicts import add, ask, at, bring, take, working
from tests.policy.contract.conftest import make_app

__all__ = ["make_app", "working"]

ADA: dict[str, Any] = {
    "actor_type": "user", "actor_id": "ada", "request_id": "r-2", "correlation_id": "c-2",
    "traceparent": f"00-{1:032x}-{2:016x}-01",
}  # fmt: skip
UNKNOWN = dict.fromkeys(ADA)


def origin(job: Job) -> dict[str, Any]:
    return {name: getattr(job, name) for name in ADA}


def origins(client: Client, job: Job) -> dict[str, str | None]:
    """Return the actor of each event of a job."""
    return {event.event: event.actor_id for event in client.jobs.events(job.id)}


@pytest.mark.parametrize("asks", [ADA, UNKNOWN], ids=["an actor", "no actor"])
@pytest.mark.parametrize("conflict", ["replace", "reset", "coalesce"])
@pytest.mark.parametrize("state", ["queued", "scheduled", "retrying"])
def test_a_waiting_job_takes_the_origin_of_the_enqueue_that_changes_it(
    working, state, conflict, asks
):  # R27, S4-1
    job = bring(working, state)
    first = {**ADA, "actor_id": "root"} if asks is UNKNOWN else {}
    ask(working, 1, on_conflict="replace", now=5, **first)
    ask(working, 2, on_conflict=conflict, merge=add, now=10, **asks)
    now = working.jobs.get(job.id)
    assert origin(now) == asks
    if now.state == "queued":
        working.at(at(20)).worker.finish([take(working, 15).end_with(Succeeded())])
        seen = origins(working, job)
        assert (seen["job.started"], seen["job.succeeded"]) == (asks["actor_id"], asks["actor_id"])


@pytest.mark.parametrize("state", ["succeeded", "dead", "cancelled"])
def test_an_ended_job_takes_the_origin_of_the_enqueue_that_resets_it(working, state):  # R27, S4-1
    job = bring(working, state)
    ask(working, 2, on_conflict="reset", now=10, **ADA)
    assert origin(working.jobs.get(job.id)) == ADA


@pytest.mark.parametrize("conflict", ["reset", "coalesce"])
def test_the_next_run_of_a_running_job_takes_the_origin_of_the_enqueue_that_asked_for_it(
    working, conflict
):  # R27, S4-1
    job = bring(working, "running")
    ask(working, 2, on_conflict=conflict, merge=add, now=10, **ADA)
    assert origin(working.jobs.get(job.id)) == UNKNOWN
    working.at(at(12)).worker.finish([job.end_with(Succeeded())])
    assert origin(working.jobs.get(job.id)) == ADA
    # The run that ended had no actor.
    seen = origins(working, job)
    assert (seen["job.succeeded"], seen["job.reset"]) == (None, "ada")


def test_many_changes_in_one_call_each_have_their_own_actor(working):  # R27
    jobs = [NewJob(job_type="t", key=f"k{n}", actor_type="user", actor_id="root") for n in range(3)]
    working.enqueue_many(jobs)
    asked = [
        NewJob(job_type="t", key=f"k{n}", on_conflict="replace", actor_type="user", actor_id=f"u{n}")
        for n in range(3)
    ]
    answers = working.enqueue_many(asked)
    assert [working.jobs.get(answer.id).actor_id for answer in answers] == ["u0", "u1", "u2"]


def pay_for(app: Onward, ran: list[tuple[str | None, str]]) -> Any:
    @app.authorize
    def allow(job: Job) -> bool:
        return job.actor_id != "mallory"

    @app.job(key="pay_{d}", unique="forever", max_attempts=1)
    def pay(ctx: Context, d: int, to: str) -> None:
        ran.append((ctx.job.actor_id, to))

    return pay


@pytest.mark.parametrize("conflict", ["replace", "reset"])
def test_permission_is_asked_for_the_actor_whose_payload_runs(make_app, conflict):
    # R27, S4-48
    app = make_app()
    ran: list[tuple[str | None, str]] = []
    pay = pay_for(app, ran)
    pay.using(actor="user:admin").enqueue(1, to="alice")
    handle = pay.using(actor="user:mallory", on_conflict=conflict).enqueue(1, to="mallory")
    app.tick()
    job = app.client.jobs.get(handle.id)
    assert (ran, job.state, job.error.reason) == ([], "dead", "not_authorised")


def test_an_ended_job_is_not_reset_past_the_permission(make_app):  # R27, S4-48
    app = make_app()
    ran: list[tuple[str | None, str]] = []
    pay = pay_for(app, ran)
    pay.using(actor="user:admin").enqueue(1, to="alice")
    app.tick()
    handle = pay.using(actor="user:mallory", on_conflict="reset").enqueue(1, to="mallory")
    app.tick()
    job = app.client.jobs.get(handle.id)
    assert (ran, job.state) == ([("admin", "alice")], "dead")


def test_a_debounced_job_takes_the_origin_of_its_last_enqueue(make_app):  # R27
    app = make_app()

    @app.job(debounce="1h")
    def sync(n: int) -> None: ...

    sync.using(actor="user:ada").enqueue(1)
    handle = sync.using(actor="user:bob", request_id="r-9").enqueue(2)
    job = app.client.jobs.get(handle.id)
    assert (job.actor_id, job.request_id, job.payload) == ("bob", "r-9", {"n": 2})
