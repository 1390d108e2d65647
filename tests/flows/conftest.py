"""A client with a worker, and what most tests of flows do with it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from itertools import count

import pytest

from onward import Client, Failed, NewJob, Succeeded
from onward.core.work.lifecycle import Outcome
from onward.results import Job
from tests.stores.postgres.postgres_schema import clean_schema

WORKER = "w"

_numbers = count()


class Queue:
    """The queue of the test that runs: all of a module's tests share their tables."""

    name = "q"


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def shared(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    """A client whose worker WORKER is registered for long, once for each database and module."""
    if request.param == "sqlite":
        with Client(f"sqlite:///{tmp_path_factory.mktemp('flows')}/onward.db") as client:
            client.worker.register(WORKER, lease=timedelta(days=1))
            yield client
    else:
        with clean_schema(request.getfixturevalue("postgres_url")) as store:
            client = Client(store=store)
            client.worker.register(WORKER, lease=timedelta(days=1))
            yield client


@pytest.fixture
def working(shared: Client) -> Client:
    """The client, for a test with a queue of its own."""
    Queue.name = f"q{next(_numbers)}"
    return shared


def new(job_type: str, **options) -> NewJob:
    return NewJob(job_type=job_type, queue=Queue.name, **options)


def ready(client: Client) -> list[Job]:
    """Claim all that is ready."""
    return client.worker.claim(Queue.name, 1000, worker_id=WORKER)


def run(client: Client, outcome: Callable[[Job], Outcome] = lambda _: Succeeded()) -> list[str]:
    """Claim and finish all that is ready; gives the job types."""
    jobs = ready(client)
    client.worker.finish([job.end_with(outcome(job)) for job in jobs])
    return sorted(job.job_type for job in jobs)


def die(_job: Job | None = None) -> Outcome:
    return Failed("no", retryable=False)


def state(client: Client, job_id: str) -> str:
    return str(client.jobs.get(job_id).state)
