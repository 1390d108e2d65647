"""Ends that differ in nothing but their ids are written by a shorter statement: it must come to the same."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from onward import Cancelled, Client, Failed, Limit, NewJob, Released, Skip, Succeeded
from onward.core.policy.policies import Policies
from onward.core.policy.registry import Registry
from onward.core.policy.settings import AuditLevel, Settings
from onward.core.work.lifecycle import Outcome
from onward.results import Job

OUTCOMES = [
    Succeeded(),
    Succeeded({"n": 1}),
    Skip("no need"),
    Failed("no", retryable=False),
    Cancelled("asked"),
]


@dataclass
class Told:
    """What became of the jobs, named by what is special about each."""

    held: set[str]
    lost: set[str]
    tied: set[str]
    permits: frozenset[str]
    states: dict[str, tuple[object, ...]]
    events: dict[str, list[str]]


def claimed(client: Client, prefix: str) -> dict[str, Job]:
    """Have jobs run under equal leases: plain ones, and those about which something is to be told."""
    asked = {
        "plain": NewJob(job_type="t"),
        "another": NewJob(job_type="t", org_id="acme", subject="s"),
        "tied": NewJob(job_type="t"),
        "limited": NewJob(job_type="t", limit_key=f"few/{prefix}"),
        "reset": NewJob(job_type="t", key=f"{prefix} reset"),
        "lost": NewJob(job_type="t"),
        "gone": NewJob(job_type="t"),
    }
    ids = {name: client.enqueue(new).id for name, new in asked.items()}
    client.enqueue(NewJob(job_type="t", queue="q:later", after=(ids["tied"],)))
    client.worker.limits.admit([f"few/{prefix}"])
    jobs = {job.id: job for job in client.worker.claim("q:default", 10, worker_id="w")}
    found = {name: jobs[job_id] for name, job_id in ids.items()}
    assert {job.lease for job in found.values()} == {1}
    client.enqueue(NewJob(job_type="t", payload={"n": 2}, key=f"{prefix} reset", on_conflict="reset"))
    client.worker.finish([found["gone"].end_with(Succeeded()), found["lost"].end_with(Released())]).require()
    return found


def told(client: Client, jobs: dict[str, Job], batches: list[list[str]], outcome: Outcome) -> Told:
    answers = [client.worker.finish([jobs[name].end_with(outcome) for name in names]) for names in batches]
    names = {job.id: name for name, job in jobs.items()}
    now = {name: client.jobs.get(job.id) for name, job in jobs.items()}
    return Told(
        held={names[one] for answer in answers for one in answer.held},
        lost={names[one] for answer in answers for one in answer.lost},
        tied={names[one] for answer in answers for one in answer.tied},
        permits=frozenset(permit.split("/")[0] for answer in answers for permit in answer.permits),
        states={
            name: (
                job.state,
                job.attempt,
                job.lease,
                job.outcome,
                job.result,
                job.error,
                job.org_id,
                job.subject,
            )
            for name, job in now.items()
        },
        events={name: [event.event for event in client.jobs.events(job.id)] for name, job in jobs.items()},
    )


@pytest.mark.parametrize("audit", ["full", "ends", "off"])
@pytest.mark.parametrize("outcome", OUTCOMES, ids=repr)
def test_what_is_written_together_comes_to_the_same_as_one_by_one(
    client: Client, outcome: Outcome, audit: AuditLevel
):
    own = Client(
        store=client.store,
        policies=Policies(Settings(audit=audit), Registry(limits={"few": Limit(5, name="few")})),
    )
    own.worker.limits.declare()
    own.worker.register("w")
    kinds = []
    for prefix in ("together", "alone"):
        jobs = claimed(own, prefix)
        batches = [list(jobs)] if prefix == "together" else [[name] for name in jobs]
        kinds.append(told(own, jobs, batches, outcome))
    together, alone = kinds
    assert together == alone
    assert together.lost == {"gone", "lost"}
    assert together.tied == {"tied"}
    assert together.permits == {"few"}
