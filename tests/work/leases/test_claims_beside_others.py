"""A claim that goes on past a job steps over what others hold; one from the front takes all it can."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import psycopg
import pytest

from onward import Client, NewJob
from onward.core.jobs.job import Job
from onward.core.work.claim import QueuePosition
from tests.stores.postgres.postgres_schema import fresh_schema


@pytest.fixture
def client(postgres_url) -> Iterator[Client]:
    with fresh_schema(postgres_url) as store:
        client = Client(store=store)
        client.worker.register("w", lease=timedelta(days=1))
        client.enqueue_many([NewJob(job_type="t", payload={"n": n}) for n in range(6)])
        yield client


@pytest.fixture
def first(client: Client) -> QueuePosition:
    [job] = client.worker.claim("q:default", 1, worker_id="w")
    assert job.payload["n"] == 0
    return QueuePosition.of(job)


def lock(connection: psycopg.Connection, client: Client, numbers: list[int]) -> None:
    query = f"SELECT id FROM {client.store.prefix}live WHERE (payload ->> 'n')::int = ANY (%s) FOR UPDATE"
    found = connection.execute(query, [numbers]).fetchall()
    assert len(found) == len(numbers)


def numbers(jobs: list[Job]) -> list[int]:
    return [job.payload["n"] for job in jobs]


def test_what_others_hold_is_stepped_over_without_waiting(client, first, postgres_url):  # S1-24, S3-13
    with psycopg.connect(postgres_url) as other:
        lock(other, client, [1, 3])
        assert numbers(client.worker.claim("q:default", 2, worker_id="w", past=first)) == [2, 4]
    assert numbers(client.worker.claim("q:default", 9, worker_id="w")) == [1, 3, 5]


def test_what_others_held_is_claimed_as_soon_as_they_let_go(client, first, postgres_url):
    with psycopg.connect(postgres_url) as writer:
        writer.execute("SELECT pg_current_xact_id()")
        with psycopg.connect(postgres_url) as other:
            lock(other, client, [1, 2])
        assert numbers(client.worker.claim("q:default", 9, worker_id="w", past=first)) == [1, 2, 3, 4, 5]
