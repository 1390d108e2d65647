"""A job that succeeded has no error; what went wrong before stays in its attempts."""

import pytest

from onward import Failed, NewJob, Skip, Succeeded


@pytest.mark.parametrize("outcomes", [[Succeeded()], [Skip("done")], [Succeeded(1), Succeeded(2)]], ids=repr)
def test_a_success_clears_the_error(client, outcomes):
    client.enqueue_many([NewJob(job_type="t")] * len(outcomes))
    client.worker.register("w")
    jobs = client.worker.claim("q:default", 9, worker_id="w")
    client.worker.finish([job.end_with(Failed("boom", after=0)) for job in jobs]).require()
    again = client.worker.claim("q:default", 9, worker_id="w")
    assert {job.error.message for job in again} == {"boom"}
    ends = [job.end_with(outcome) for job, outcome in zip(again, outcomes, strict=True)]
    client.worker.finish(ends).require()
    for job in again:
        assert client.jobs.get(job.id).error is None
        first, last = client.jobs.attempts(job.id)
        assert (first.error.message, last.error) == ("boom", None)


def test_a_death_keeps_its_error(client):
    job_id = client.enqueue(NewJob(job_type="t")).id
    client.worker.register("w")
    [job] = client.worker.claim("q:default", worker_id="w")
    client.worker.finish([job.end_with(Failed("boom", retryable=False))]).require()
    assert client.jobs.get(job_id).error.message == "boom"
