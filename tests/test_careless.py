"""What a careless caller does: each mistake is refused in words that name the fix, and nothing is written."""

from __future__ import annotations

import multiprocessing
import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import psycopg
import pytest

from onward import (
    AuditFilter,
    Client,
    DeadFilter,
    Failed,
    InvalidJob,
    InvalidSetting,
    JobFilter,
    LeaseLost,
    NewJob,
    OnwardError,
    Snooze,
    Succeeded,
)
from onward.core.page import make_cursor
from onward.core.work.lease import JobLease
from onward.errors import StoreClosed, StoreUnreachable, TransactionNotOpen
from onward.stores.postgres.sync.postgres_store import PostgresStore
from onward.stores.sqlite.sqlite_store import SqliteStore
from tests.stores.postgres.postgres_schema import clean_schema

JOB = NewJob(job_type="t")
NAIVE = datetime.fromtimestamp(0, UTC).replace(tzinfo=None)

MISTAKES: dict[str, Any] = {
    "a job instead of a list": lambda client, job: client.enqueue_many(JOB),
    "a dict in the list": lambda client, job: client.enqueue_many([{"job_type": "t"}]),
    "a dict instead of a job": lambda client, job: client.enqueue({"job_type": "t"}),
    "a lifetime without a key": lambda client, job: client.enqueue(NewJob(job_type="t", unique="active")),
    "a list of types": lambda client, job: client.enqueue(NewJob(job_type=["t"])),  # type: ignore[arg-type]
    "a dict of orgs": lambda client, job: client.enqueue(NewJob(job_type="t", org_id={})),  # type: ignore[arg-type]
    "a priority that is true": lambda client, job: client.enqueue(NewJob(job_type="t", priority=True)),
    "a list of lifetimes": lambda client, job: client.enqueue(NewJob(job_type="t", key="k", unique=[])),  # type: ignore[arg-type]
    "tags as text": lambda client, job: client.enqueue(NewJob(job_type="t", tags="abc")),  # type: ignore[arg-type]
    "a naive time": lambda client, job: client.enqueue(NewJob(job_type="t", run_at=NAIVE)),
    "a naive now": lambda client, job: client.at(NAIVE).enqueue(JOB),
    "text for now": lambda client, job: client.at("x").worker.claim("q", worker_id="w"),
    "a number for an actor": lambda client, job: client.acting_as(7).enqueue(JOB),
    "an actor without an id": lambda client, job: client.acting_as("user").enqueue(JOB),
    "one end instead of a list": lambda client, job: client.worker.finish(job.end_with(Succeeded())),
    "a job without an outcome": lambda client, job: client.worker.finish([job]),
    "an id instead of a job": lambda client, job: client.worker.finish([job.id]),
    "the lease of no job": lambda client, job: client.worker.extend("w", [JobLease("a job", 1, 1)]),
    "no outcome": lambda client, job: client.worker.finish([job.end_with("done")]),
    "a word for a delay": lambda client, job: client.worker.finish([job.end_with(Snooze("soon"))]),
    "a word for a wait": lambda client, job: client.worker.finish([job.end_with(Failed({}, after="soon"))]),
    "a job instead of jobs": lambda client, job: client.worker.release(job.held_lease),
    "ids to extend": lambda client, job: client.worker.extend("w", [job.id]),
    "a word for a lease": lambda client, job: client.worker.register("v", lease="soon"),
    "no lease at all": lambda client, job: client.worker.register("v", lease=timedelta()),
    "a limit of zero": lambda client, job: client.worker.claim("q", 0, worker_id="w"),
    "a limit in text": lambda client, job: client.worker.claim("q", "3", worker_id="w"),
    "a huge limit": lambda client, job: client.worker.claim("q", 10**30, worker_id="w"),
    "a list of queues": lambda client, job: client.worker.claim(["q"], worker_id="w"),
    "a negative rescue": lambda client, job: client.worker.rescue(-1),
    "a text to promote": lambda client, job: client.worker.promote("x"),
    "a text as a filter": lambda client, job: client.jobs.list("dead"),
    "no reason": lambda client, job: client.jobs.cancel(job.id, reason=None),
    "a number of states to reset from": lambda client, job: client.enqueue(
        NewJob(job_type="t", key="k", on_conflict="reset", reset_from=5)  # type: ignore[arg-type]
    ),
    "a word among ids": lambda client, job: client.jobs.get_many(["nope"]),
    "an empty id": lambda client, job: client.jobs.get_many([""]),
    "an id with a NUL": lambda client, job: client.jobs.get_many(["a\0b"]),
    "an id instead of ids": lambda client, job: client.jobs.get_many(job.id),
    "an empty cursor of jobs": lambda client, job: client.jobs.list(cursor=""),
    "an empty cursor of artifacts": lambda client, job: client.artifacts.list(cursor=""),
    "an empty cursor of a check": lambda client, job: client.artifacts.verify(cursor=""),
    "a number for a cursor": lambda client, job: client.audit.list(cursor=7),
    "a huge cursor of the audit": lambda client, job: client.audit.list(
        cursor=make_cursor("audit.newest", 2**70)
    ),
    "a cursor of another order": lambda client, job: client.audit.list(
        cursor=make_cursor("audit.newest", 1), oldest_first=True
    ),
    "a cursor that is true": lambda client, job: client.audit.list(cursor=True),
    "a cursor in text": lambda client, job: client.audit.list(cursor="x"),
    "a number for resolved": lambda client, job: client.dead.list(
        DeadFilter(resolved=2**70)  # type: ignore[arg-type]
    ),
    "a number for a reset": lambda client, job: client.dead.replay(
        [job.id], reason="r", reset_attempts=2**70
    ),
    "a cursor of a pair": lambda client, job: client.keys.list(cursor=("a", "b")),
    "an empty cursor of keys": lambda client, job: client.keys.list(cursor=""),
    "a cursor of numbers": lambda client, job: client.keys.list(cursor=make_cursor("keys", 1, 2, 3)),
    "a cursor with a NUL": lambda client, job: client.keys.list(cursor=make_cursor("keys", "", "", "a\0b")),
    "the cursor of another listing": lambda client, job: client.dead.list(cursor=make_cursor("jobs", job.id)),
    "a cursor with no id": lambda client, job: client.jobs.list(cursor=make_cursor("jobs", "x")),
    "a cursor with a count below zero": lambda client, job: client.dead.discard_where(
        DeadFilter(), reason="r", cursor=make_cursor("dead.discard", job.id, -1)
    ),
    "a dict for dead letters": lambda client, job: client.dead.list({"job_type": "t"}),
    "a list for resolved": lambda client, job: client.dead.list(
        DeadFilter(resolved=["no"])  # type: ignore[arg-type]
    ),
    "an id to replay instead of ids": lambda client, job: client.dead.replay(job.id, reason="r"),
    "a word to prune from": lambda client, job: client.keys.prune(cursor="abc"),
    "a number to prune from": lambda client, job: client.keys.prune(cursor=5),
    "half a pair as text": lambda client, job: client.artifacts.put("n", text="\ud800"),
    "a list of content types": lambda client, job: client.artifacts.put("n", b"x", content_type=["a/b"]),
    "a list of paths": lambda client, job: client.artifacts.put_file("n", ["a"]),
    "an artifact of an id": lambda client, job: client.worker.artifacts.add(job.id, "n", b"x"),
    "an artifact of no lease": lambda client, job: client.worker.artifacts.add(
        msgspec.structs.replace(job, lease=2**70), "n", b"x"
    ),
}
for hostile in ("a\0b", "\ud800"):
    MISTAKES |= {
        f"artifacts by the name {hostile!a}": lambda client, job, it=hostile: client.artifacts.list(name=it),
        f"an actor {hostile!a}": lambda client, job, it=hostile: client.acting_as(("user", it)).enqueue(JOB),
    }
    for field in ("job_type", "queue", "org_id", "project_id", "key", "subject", "correlation_id"):
        MISTAKES[f"jobs by {field} {hostile!a}"] = lambda client, job, asked={field: hostile}: (
            client.jobs.list(JobFilter(**asked))
        )
    for field in ("event", "action", "org_id", "actor_type", "actor_id"):
        MISTAKES[f"audit by {field} {hostile!a}"] = lambda client, job, asked={field: hostile}: (
            client.audit.list(AuditFilter(**asked))
        )


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_told_in_onwards_own_words_and_changes_nothing(client, mistake):
    client.worker.register("w")
    client.enqueue(JOB)
    [job] = client.worker.claim("q:default", worker_id="w")
    with pytest.raises(OnwardError) as refused:
        MISTAKES[mistake](client, job)
    assert isinstance(refused.value, InvalidJob | InvalidSetting)
    assert client.jobs.list().items == [job]


def test_after_a_mistake_a_transaction_of_the_callers_can_go_on(postgres_url):
    # What PostgreSQL itself refuses, it punishes by refusing whatever comes next.
    with clean_schema(postgres_url) as store:
        client = Client(store=store)
        client.worker.register("w")
        client.enqueue(JOB)
        [job] = client.worker.claim("q:default", worker_id="w")
        with psycopg.connect(postgres_url) as connection, connection.transaction():
            for mistake, make in MISTAKES.items():
                with pytest.raises(OnwardError):
                    make(client.within(connection), job)
                assert connection.execute("SELECT 1").fetchone() == (1,), mistake


def test_a_cursor_beyond_the_end_of_the_audit_is_its_end(client):
    client.enqueue(JOB)
    newest, oldest = (make_cursor(name, 2**63 - 1) for name in ("audit.newest", "audit.oldest"))
    assert client.audit.list(cursor=newest) == client.audit.list()
    assert list(client.audit.list(cursor=oldest, oldest_first=True)) == []


@pytest.mark.parametrize("error", ["boom", ValueError("boom"), {"message": "boom"}])
def test_an_error_may_be_a_text_an_exception_or_a_dict(client, error):
    client.worker.register("w")
    client.enqueue(NewJob(job_type="t", max_attempts=1))
    [job] = client.worker.claim("q:default", worker_id="w")
    client.worker.finish([job.end_with(Failed(error))]).require()
    assert client.jobs.get(job.id).error.message == "boom"


def test_a_job_that_nobody_claimed_cannot_be_finished(client):
    job = client.jobs.get(client.enqueue(JOB).id)
    with pytest.raises(LeaseLost, match="claim"):
        client.worker.finish([job.end_with(Succeeded())])
    assert client.jobs.get(job.id) == job


def test_a_bound_client_does_not_outlive_its_transaction(client):
    client.jobs.count()
    store = client.store
    connection: Any = (
        sqlite3.connect(store.file.path, isolation_level=None)
        if isinstance(store, SqliteStore)
        else psycopg.connect(store.url, autocommit=True)
    )
    with closing(connection):
        connection.execute("BEGIN")
        bound = client.within(connection)
        bound.enqueue(JOB)
        connection.execute("COMMIT")
        with pytest.raises(TransactionNotOpen):
            bound.enqueue(JOB)
    assert len(client.jobs.list().items) == 1


def use_in_child(client: Client, answers: Any) -> None:
    try:
        client.jobs.count()
    except StoreClosed as refused:
        answers.put(str(refused))
    else:
        answers.put("used")


def test_a_forked_child_is_told_to_open_its_own(client):
    # F13: two processes on one connection would read each other's answers.
    client.jobs.count()
    fork = multiprocessing.get_context("fork")
    answers = fork.SimpleQueue()
    child = fork.Process(target=use_in_child, args=(client, answers))
    child.start()
    assert "open a new one in the child" in answers.get()
    child.join(30)
    assert client.enqueue(JOB).created


def test_after_a_cut_at_most_one_write_fails_and_no_question_does(postgres_url):
    # F14
    with clean_schema(postgres_url) as store:
        client = Client(store=store)
        cut_all(postgres_url, store)
        assert client.jobs.count().cap
        cut_all(postgres_url, store)
        stored = 0
        for _ in range(10):
            try:
                stored += client.enqueue(JOB).created
            except StoreUnreachable:
                continue
        assert stored >= 9, "what cut one connection has cut them all, and one error is enough to learn it"
        assert len(client.jobs.list().items) == stored


def cut_all(url: str, store: PostgresStore) -> None:
    """End the sessions of a pool that has grown to five, while they idle."""
    held = [store.pool.take() for _ in range(5)]
    for own in held:
        store.pool.give(own)
    with psycopg.connect(url, autocommit=True) as connection:
        for own in held:
            connection.execute("SELECT pg_terminate_backend(%s, 5000)", (own.info.backend_pid,))


def test_sqlalchemy_without_greenlet_is_enough_for_sync_connections(tmp_path):
    program = """
import sys
sys.modules["greenlet"] = None
from sqlalchemy import create_engine
from onward import Client, NewJob
with Client("sqlite:///app.db") as client:
    client.jobs.count()
    with create_engine("sqlite:///app.db").begin() as connection:
        print(client.within(connection).enqueue(NewJob(job_type="t")).created)
"""
    environment = {**os.environ, "PYTHONWARNINGS": "ignore"}
    ran = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        env=environment,
    )
    assert (ran.stdout, ran.returncode) == ("True\n", 0), ran.stderr
