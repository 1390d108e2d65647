"""The history of a job: every run, with its start, end, worker, outcome, error and duration."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from onward import Cancelled, Failed, JobState, NewJob, Released, Skip, Snooze, Succeeded

T = datetime(2026, 1, 1, 12, tzinfo=UTC)


def at(seconds: float) -> datetime:
    return T + timedelta(seconds=seconds)


def test_every_run_is_told_from_the_first_to_the_one_that_runs_now(client):  # I4, S4-44
    client.at(T).worker.register("w", lease=timedelta(days=1))
    job_id = client.at(T).enqueue(NewJob(job_type="t")).id
    assert client.jobs.attempts(job_id).items == []
    [job] = client.at(at(1)).worker.claim("q:default", worker_id="w")
    [now] = client.jobs.attempts(job_id)
    assert (now.lease, now.attempt, now.worker_id, now.started_at) == (job.lease, 1, "w", at(1))
    assert (now.ended_at, now.outcome, now.error, now.duration, now.error_class) == (None,) * 5

    client.at(at(3)).worker.finish(
        [job.end_with(Failed({"error_class": "KeyError", "message": "x"}, after=0))]
    )
    [first] = client.jobs.attempts(job_id)
    assert (first.lease, first.attempt, first.outcome) == (job.lease, 1, "failed")
    assert (first.duration, first.error_class) == (timedelta(seconds=2), "KeyError")

    [job] = client.at(at(4)).worker.claim("q:default", worker_id="w")
    assert [run.outcome for run in client.jobs.attempts(job_id)] == ["failed", None]
    client.at(at(4.5)).worker.finish([job.end_with(Succeeded(5))])
    runs = client.jobs.attempts(job_id)
    assert runs[0] == first
    assert (runs[1].attempt, runs[1].outcome, runs[1].error) == (2, "succeeded", None)
    assert runs[1].duration == timedelta(seconds=0.5)


def test_the_last_run_of_each_way_to_end_is_told_once(client):
    client.at(T).worker.register("w", lease=timedelta(days=1))
    outcomes = {
        "skipped": Skip("nothing to do"),
        "failed": Failed({"error_class": "E"}, retryable=False),
        "cancelled": Cancelled("enough"),
    }
    ids = {name: client.at(T).enqueue(NewJob(job_type=name)).id for name in outcomes}
    claimed = client.at(at(1)).worker.claim("q:default", 3, worker_id="w")
    client.at(at(2)).worker.finish([job.end_with(outcomes[job.job_type]) for job in claimed])
    for name, job_id in ids.items():
        [run] = client.jobs.attempts(job_id)
        assert (run.outcome, run.started_at, run.ended_at) == (name, at(1), at(2))
        assert (run.error is None) == (name == "skipped")


def test_a_job_that_ended_while_it_waited_had_no_further_run(client):
    client.at(T).worker.register("w", lease=timedelta(days=1))
    ids = [client.at(T).enqueue(NewJob(job_type="t")).id for _ in range(3)]
    claimed = client.at(at(1)).worker.claim("q:default", 3, worker_id="w")
    outcomes = [Released(), Snooze("1h"), Failed("boom", after="1h")]
    client.at(at(2)).worker.finish(
        [job.end_with(outcome) for job, outcome in zip(claimed, outcomes, strict=True)]
    )
    for job_id in ids:
        assert client.at(at(3)).jobs.cancel(job_id, reason="enough").state == JobState.CANCELLED
    assert [[run.outcome for run in client.jobs.attempts(job_id)] for job_id in ids] == [
        ["released"], ["snoozed"], ["failed"],
    ]  # fmt: skip
    never = client.at(T).enqueue(NewJob(job_type="t")).id
    client.at(at(3)).jobs.cancel(never, reason="enough")
    assert client.jobs.attempts(never).items == []


def test_runs_at_one_instant_are_told_apart_by_their_leases(client):
    client.at(T).worker.register("w", lease=timedelta(days=1))
    job_id = client.at(T).enqueue(NewJob(job_type="t")).id
    for _ in range(3):
        [job] = client.at(T).worker.claim("q:default", worker_id="w")
        client.at(T).worker.finish([job.end_with(Released())])
    [job] = client.at(T).worker.claim("q:default", worker_id="w")
    client.at(T).worker.finish([job.end_with(Succeeded())])
    runs = client.jobs.attempts(job_id)
    assert [run.outcome for run in runs] == ["released", "released", "released", "succeeded"]
    assert len({run.lease for run in runs}) == 4


def test_an_error_is_kept_for_each_attempt_and_of_a_bounded_size(client):
    client.at(T).worker.register("w", lease=timedelta(days=1))
    job_id = client.at(T).enqueue(NewJob(job_type="t", max_attempts=2)).id
    for number in range(2):
        [job] = client.at(at(number)).worker.claim("q:default", worker_id="w")
        error = {
            "error_class": f"E{number}",
            "message": "x" * 5_000_000,
            "traceback": "y" * 5_000_000 + "last line",
        }
        client.at(at(number)).worker.finish([job.end_with(Failed(error, after=0))])
    for number, run in enumerate(client.jobs.attempts(job_id)):
        assert run.error_class == f"E{number}"
        assert run.error is not None
        assert len(run.error.message) <= 20_000
        assert run.error.traceback.endswith("last line")
        assert len(run.error.traceback) <= 20_000
