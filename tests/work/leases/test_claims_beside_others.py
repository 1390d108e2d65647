"""A claim that goes on past a job steps over what others claim; one from the front takes all it can."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import psycopg
import pytest

from onward import Client, NewJob
from onward.core.jobs.job import Job
from tests.postgres import start_postgres
from tests.stores.postgres.postgres_schema import fresh_schema


@pytest.fixture(scope="module")
def server_url() -> Iterator[str]:
    """A server where nobody else's transactions run: how old the oldest one is decides."""
    with start_postgres() as server:
        yield server.url()


@pytest.fixture
def client(server_url) -> Iterator[Client]:
    with fresh_schema(server_url) as store:
        client = Client(store=store)
        client.register("w", lease=timedelta(days=1))
        client.enqueue_many([NewJob(job_type="t", payload={"n": n}) for n in range(6)])
        yield client


@pytest.fixture
def first(client: Client) -> Job:
    [job] = client.claim("q:default", 1, worker_id="w")
    assert job.payload["n"] == 0
    return job


@pytest.fixture
def writer(server_url) -> Iterator[psycopg.Connection]:
    """A transaction that has written something, and goes on."""
    with psycopg.connect(server_url) as connection:
        connection.execute("SELECT pg_current_xact_id()")
        yield connection


def touch(client: Client, server_url: str, numbers: list[int]) -> None:
    """Lock jobs, and let go of them: their rows keep the trace of it."""
    with psycopg.connect(server_url) as connection:
        lock(connection, client, numbers)


def lock(connection: psycopg.Connection, client: Client, numbers: list[int]) -> None:
    query = f"SELECT id FROM {client.store.prefix}live WHERE (payload ->> 'n')::int = ANY (%s) FOR UPDATE"
    found = connection.execute(query, [numbers]).fetchall()
    assert len(found) == len(numbers)


def numbers(jobs: list[Job]) -> list[int]:
    return [job.payload["n"] for job in jobs]


def test_what_others_hold_is_stepped_over_without_waiting(client, first, server_url):
    with psycopg.connect(server_url) as other:
        lock(other, client, [1, 3])
        assert numbers(client.claim("q:default", 2, worker_id="w", past=first)) == [2, 4]
    assert numbers(client.claim("q:default", 9, worker_id="w")) == [1, 3, 5]


def test_what_was_touched_beside_a_running_transaction_is_left_to_the_front(
    client, first, writer, server_url
):
    touch(client, server_url, [1, 2])
    assert numbers(client.claim("q:default", 9, worker_id="w", past=first)) == [3, 4, 5]
    assert numbers(client.claim("q:default", 9, worker_id="w")) == [1, 2]
    assert writer.info.transaction_status == psycopg.pq.TransactionStatus.INTRANS


def test_what_was_touched_before_all_that_runs_is_claimed(client, first, server_url):
    touch(client, server_url, [1, 2])
    assert numbers(client.claim("q:default", 9, worker_id="w", past=first)) == [1, 2, 3, 4, 5]


def test_an_old_transaction_keeps_no_job_from_claims_that_go_on(client, first, writer, server_url):
    touch(client, server_url, [1, 2])
    with psycopg.connect(server_url, autocommit=True) as other:
        for _ in range(1000):
            other.execute("SELECT pg_current_xact_id()")
    assert numbers(client.claim("q:default", 9, worker_id="w", past=first)) == [1, 2, 3, 4, 5]
    assert writer.info.transaction_status == psycopg.pq.TransactionStatus.INTRANS
