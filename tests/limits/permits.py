"""Jobs of a limit, and how it stands with them."""

from __future__ import annotations

from collections.abc import Collection
from datetime import UTC, datetime, timedelta
from typing import Any

from onward import Client, Limit, NewJob, Succeeded
from onward.core.policy.policies import Policies
from onward.core.policy.registry import Registry
from onward.results import Job

__all__ = ["NOW", "SECOND", "declared", "put", "started", "states", "url_of", "work_off"]

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
SECOND = timedelta(seconds=1)


def declared(client: Client, **limits: Limit) -> Client:
    """Give a client of an application with these limits, which a worker has declared."""
    made = Client(store=client.store, policies=Policies(registry=Registry(limits=limits)))
    made.worker.limits.declare()
    made.at(NOW).worker.register("w", lease=timedelta(days=1))
    return made


def put(client: Client, key: str, count: int = 1, **about: object) -> list[str]:
    """Enqueue limited jobs, each a moment after the other."""
    jobs = []
    for at in range(count):
        new = NewJob(job_type="t", limit_key=key, **about)  # type: ignore[arg-type]
        jobs.append(client.at(NOW + at * timedelta(milliseconds=1)).enqueue(new).id)
    return jobs


def states(client: Client, ids: Collection[str]) -> list[str]:
    """Read the states of jobs, in their order."""
    found = client.jobs.get_many(ids)
    return [found[job_id].state.value for job_id in ids]


def started(client: Client, now: datetime = NOW, *, worker_id: str = "w") -> list[Job]:
    """Claim whatever is ready."""
    return client.at(now).worker.claim("q:default", 100, worker_id=worker_id)


def url_of(client: Client) -> str:
    """Tell where the database is, for a connection of one's own."""
    store: Any = client.store
    return str(store.url if store.database == "postgres" else store.file.path)


def work_off(client: Client, now: datetime = NOW, *, worker_id: str = "w") -> list[str]:
    """Run all jobs one claim after the other; gives them in the order in which they started."""
    order: list[str] = []
    while jobs := started(client, now, worker_id=worker_id):
        order += [job.id for job in jobs]
        client.at(now).worker.finish([job.end_with(Succeeded()) for job in jobs])
    return order
