"""Runs that use something, without a worker."""

from __future__ import annotations

from datetime import datetime

from onward import Client, NewJob, Outcome, Succeeded
from onward.core.records.usage import Usage
from onward.core.work.lease import Leases
from onward.core.work.lifecycle import End
from onward.results import Job

__all__ = ["claimed", "end", "spend", "write"]


def claimed(client: Client, org: str | None = None, *, now: datetime | None = None, **fields: str) -> Job:
    """A job of an org that the worker `w` holds."""
    new = NewJob(**{"job_type": "t", "org_id": org, "queue": "q:default", **fields})  # type: ignore[arg-type]
    job_id = client.at(now).enqueue(new).id
    # As a worker that has not heard yet that the budget of the org is spent.
    held = client.at(now).worker.claim(str(new.queue), 100, worker_id="w", paused_orgs=[], paused_types=[])
    [job] = [job for job in held if job.id == job_id]
    return job


def end(client: Client, job: Job, outcome: Outcome, *used: Usage) -> End:
    """What a run comes to that has used something."""
    return End.of(job, outcome, client.policies.policy_of(job), 1.0, used)


def write(
    client: Client, job: Job, *used: Usage, outcome: Outcome | None = None, now: datetime | None = None
) -> Leases:
    """Finish a run that has used something."""
    return client.at(now).worker.write([end(client, job, outcome or Succeeded(), *used)])


def spend(client: Client, org: str | None, cost: int, *, now: datetime | None = None) -> Job:
    """Run a job of an org that costs so much."""
    job = claimed(client, org, now=now)
    write(client, job, Usage("unit", 1.0, cost), now=now).require()
    return job
