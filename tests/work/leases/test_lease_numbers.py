"""Numbers that no claim can have given are refused before anything is written."""

import pytest
from msgspec.structs import replace

from onward import InvalidSetting, NewJob, Succeeded
from onward.core.work.lease import JobLease
from onward.core.work.progress import JobReport, Report

ABSURD = [
    {"lease": 2**70}, {"lease": -1}, {"lease": 1.0}, {"lease": True}, {"attempt": 2**31}, {"attempt": -1},
    {"attempt": 0},
]  # fmt: skip
CALLS = {
    "finish": lambda worker, job: worker.finish([job.end_with(Succeeded())]),
    "extend": lambda worker, job: worker.extend("w", [JobLease(job.id, job.lease, job.attempt)]),
    "release": lambda worker, job: worker.release([JobLease(job.id, job.lease, job.attempt)]),
    "note": lambda worker, job: worker.note(JobLease(job.id, job.lease, job.attempt), "seen"),
    "store_progress": lambda worker, job: worker.store_progress([JobReport.of(job, Report(1, 2))]),
    "add an artifact": lambda worker, job: worker.artifacts.add(job, "a.txt", text="a"),
    "begin an effect": lambda worker, job: worker.effects.begin(job, "pay"),
}


@pytest.mark.parametrize("absurd", ABSURD, ids=repr)
@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_an_absurd_lease_gets_a_clear_error(client, call, absurd):  # R7
    client.enqueue(NewJob(job_type="t"))
    client.worker.register("w")
    [job] = client.worker.claim("q:default", worker_id="w")
    [name] = absurd
    with pytest.raises(InvalidSetting, match=rf"^{name} is .*; give a whole number from [01] to"):
        call(client.worker, replace(job, **absurd))
    assert client.jobs.get(job.id) == job


def test_the_largest_lease_is_only_a_lost_one(client):  # R7
    client.enqueue(NewJob(job_type="t"))
    client.worker.register("w")
    [job] = client.worker.claim("q:default", worker_id="w")
    assert client.worker.finish([replace(job, lease=2**63 - 1).end_with(Succeeded())]).lost == {job.id}
