"""Every attempt that fails has its event, also the one at which the job dies."""

import pytest

from onward import Failed, NewJob, RateLimited, Succeeded

WHY = {"error_class": "ValueError", "reason": "attempts_exhausted"}


def test_the_attempt_at_which_a_job_dies_has_failed_too(app):  # R2, S4-52
    @app.job(max_attempts=1, audit_action={"failed": "TRY_FAILED", "deadlettered": "GIVEN_UP"})
    def fail() -> None:
        raise ValueError("never shown")

    job_id = fail.enqueue().id
    app.tick()
    events = app.client.jobs.events(job_id)
    assert [
        (event.event, event.attempt, event.lease, event.action, event.detail) for event in events[1:]
    ] == [
        ("job.started", 1, 1, None, None),
        ("job.failed", 1, 1, "TRY_FAILED", WHY),
        ("job.deadlettered", 1, 1, "GIVEN_UP", WHY),
    ]
    assert {event.worker_id for event in events[1:]} == {events[1].worker_id}


def test_the_death_of_a_job_that_is_to_run_once_more_has_a_failed_attempt(client):  # R2
    new = NewJob(job_type="t", key="k", max_attempts=1)
    job_id = client.enqueue(new).id
    client.worker.register("w")
    [job] = client.worker.claim("q:default", worker_id="w")
    client.enqueue(NewJob(job_type="t", key="k", on_conflict="reset", max_attempts=1))
    client.worker.finish([job.end_with(Failed({"error_class": "E"}))]).require()
    events = [event.event for event in client.jobs.events(job_id)]
    assert events[-3:] == ["job.failed", "job.deadlettered", "job.reset"]


@pytest.mark.parametrize("outcomes", [[Failed({"error_class": "E"}), Succeeded()], [RateLimited()]])
def test_only_a_death_is_recorded_twice(client, outcomes):  # R2
    client.enqueue_many([NewJob(job_type="t")] * len(outcomes))
    client.worker.register("w")
    jobs = client.worker.claim("q:default", 9, worker_id="w")
    client.worker.finish(
        [job.end_with(outcome) for job, outcome in zip(jobs, outcomes, strict=True)]
    ).require()
    for job in jobs:
        assert len(client.jobs.events(job.id)) == 3


def test_a_refused_death_has_no_failed_attempt(client):  # R2
    job_id = client.enqueue(NewJob(job_type="t", max_attempts=1)).id
    client.worker.register("w")
    [job] = client.worker.claim("q:default", worker_id="w")
    client.worker.release([job.held_lease]).require()
    assert client.worker.finish([job.end_with(Failed({"error_class": "E"}))]).lost == {job_id}
    events = [event.event for event in client.jobs.events(job_id)]
    assert "job.failed" not in events
