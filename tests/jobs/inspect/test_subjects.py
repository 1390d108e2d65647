"""The jobs of a subject: their history, and what becomes of them when the subject is deleted."""

from __future__ import annotations

import re
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import UTC, datetime, timedelta

import psycopg
import pytest
from msgspec.structs import replace

from onward import (
    Category,
    Client,
    Failed,
    InvalidSetting,
    JobFilter,
    JobNotFound,
    NewJob,
    Succeeded,
    category,
)
from onward.connections.driver_calls import calls, postgres_call
from onward.core.policy.category import CATEGORIES
from onward.core.policy.policies import Policies
from onward.core.policy.registry import Registry
from onward.operations.jobs import listing
from onward.operations.statement import Statement
from onward.sql.catalogue import catalogue
from onward.stores.postgres.sync.postgres_store import PostgresStore
from onward.stores.sqlite.sqlite_store import SqliteStore
from tests.apps import with_categories
from tests.jobs.keys.test_held_keys import open_transaction

T = datetime(2026, 3, 1, tzinfo=UTC)


@pytest.fixture
def client(client: Client) -> Client:
    """An application with the categories of the examples."""
    return with_categories(client)


def job(job_type: str, subject: str | None = "booking:42", **options) -> NewJob:
    return NewJob(job_type=job_type, subject=subject, **options)


def put(client: Client, *jobs: NewJob) -> list[str]:
    return [client.at(T).enqueue(new).id for new in jobs]


def finish_all(client: Client, outcome=None) -> None:
    for taken in client.at(T).worker.claim("q:default", 50, worker_id="w"):
        client.at(T).worker.finish([taken.end_with(outcome or Succeeded())])


@pytest.fixture
def working(client: Client) -> Client:
    client.at(T).worker.register("w", lease=timedelta(days=1))
    return client


def test_the_history_of_a_subject_is_listed(working):
    # R22, S0-79
    first = put(working, job("invoice"), job("mail"), job("mail", "booking:43"), job("mail", None))
    finish_all(working)
    later = put(working, job("refund"))
    listed = working.jobs.list(JobFilter(subject="booking:42")).items
    assert [found.id for found in reversed(listed)] == [*first[:2], *later]


def test_the_jobs_of_a_subject_are_found_by_an_index(client):  # S0-18
    client.enqueue_many(job("t", f"booking:{number}") for number in range(500))
    reading = listing.list_jobs(JobFilter(subject="booking:42"))
    next(reading)
    statement = reading.send([])
    assert isinstance(statement, Statement)
    bound = {"now": None, "only_org": None, "only_project": None, **statement.params}
    plan = plan_of(client, replace(statement, params=bound))
    by_index = re.findall(
        r"Index Cond: \(\(subject = |SEARCH \w+ USING .*INDEX \w+_subject \(subject=\?", plan
    )
    assert len(by_index) >= 2, "the live jobs and the ended ones; on PostgreSQL each partition of these"
    assert not re.search(r"Seq Scan|SCAN (live|ended)", plan)


def plan_of(client: Client, statement: Statement) -> str:
    """The plan of a statement, as its database tells it."""
    store = client.store
    if isinstance(store, SqliteStore):
        [call] = calls(catalogue("sqlite", "question", store.prefix)[statement.name], statement)
        with closing(sqlite3.connect(store.file.path)) as connection:
            lines = connection.execute(f"EXPLAIN QUERY PLAN {call.text}", call.rows[0]).fetchall()
        return "\n".join(detail for *_, detail in lines)
    assert isinstance(store, PostgresStore)
    query, values = postgres_call(catalogue("postgres", "dollar", store.prefix)[statement.name], statement)
    with psycopg.connect(store.url) as session, psycopg.RawCursor(session) as cursor:
        cursor.execute(f"ANALYZE {store.prefix}live".encode())
        found = cursor.execute(b"EXPLAIN " + query.encoded, values, prepare=False).fetchall()
    return "\n".join(line for (line,) in found)


def test_kept_jobs_are_left_alone(working):
    ids = put(working, job("invoice"))
    dropped = working.at(T).jobs.drop_subject("booking:42")
    assert (dropped.kept, dropped.cancelled, dropped.deleted) == (frozenset(ids), frozenset(), frozenset())
    assert working.jobs.get(ids[0]).state == "queued"


def test_cancelled_jobs_end_and_running_ones_are_asked_to_give_way(working):
    # R22
    done, running, waiting, other = put(
        working, job("a"), job("b"), job("c", priority=9), job("d", "booking:43", priority=9)
    )
    [first, second] = working.at(T).worker.claim("q:default", 2, worker_id="w")
    working.at(T).worker.finish([first.end_with(Succeeded())])
    dropped = working.at(T).acting_as("user:7").jobs.drop_subject("booking:42", policy="cancel")
    assert (dropped.cancelled, dropped.deleted, dropped.kept) == ({running, waiting}, set(), {done})
    assert second.id == running
    assert working.jobs.get(running).cancel_requested_at is not None
    states = [working.jobs.get(one).state for one in (done, running, waiting, other)]
    assert states == ["succeeded", "running", "cancelled", "queued"]
    [event] = [event for event in working.jobs.events(waiting) if event.event == "job.cancelled"]
    assert (event.actor_type, event.actor_id) == ("user", "7")


def test_deleted_jobs_are_gone_with_their_keys_and_runs_but_not_with_their_audit(working):
    # R22, S0-7: what belongs to a subject dies with it; the audit never does.
    new = job("invoice", category="booking")
    [ended] = put(working, new)
    finish_all(working, Failed("boom", after=1))
    working.at(T + timedelta(seconds=2)).worker.promote()
    for taken in working.at(T + timedelta(seconds=2)).worker.claim("q:default", 5, worker_id="w"):
        working.at(T).worker.finish([taken.end_with(Succeeded())])
    [waiting, running] = put(working, job("mail", priority=9), job("push", priority=1))
    [taken] = working.at(T).worker.claim("q:default", 1, worker_id="w")
    dropped = working.at(T).jobs.drop_subject("booking:42", policy="delete", reason="GDPR")
    assert (dropped.deleted, dropped.cancelled) == ({ended, waiting}, {running})
    assert taken.id == running
    for gone in (ended, waiting):
        with pytest.raises(JobNotFound):
            working.jobs.get(gone)
        assert [event.event for event in working.jobs.events(gone)][-1] == "job.deleted"
    assert working.keys.list().items == []
    # The subject may come again, and gets a job of its own.
    [answer] = [working.at(T).enqueue(new)]
    assert answer.created
    assert answer.id != ended


@pytest.mark.parametrize("outcome", [Succeeded(), Failed("boom"), Failed("boom", retryable=False)], ids=repr)
def test_a_job_that_runs_while_its_subject_is_deleted_is_deleted_at_its_end(working, outcome):  # R22
    new = job("invoice", key="k", unique="forever")
    [running] = put(working, new)
    [taken] = working.at(T).worker.claim("q:default", 5, worker_id="w")
    dropped = working.at(T).jobs.drop_subject("booking:42", policy="delete", reason="GDPR")
    assert (dropped.deleted, dropped.cancelled) == (set(), {running})
    assert working.jobs.get(running).cancel_requested_at == T
    working.at(T).worker.finish([taken.end_with(outcome)]).require()
    with pytest.raises(JobNotFound):
        working.jobs.get(running)
    assert working.keys.list().items == []
    assert [event.event for event in working.jobs.events(running)][-1] == "job.deleted"
    assert working.worker.follow_up() == 0


@pytest.mark.parametrize("conflict", ["return", "replace", "reset"])
def test_a_new_request_beside_it_gets_a_job_of_its_own(working, conflict):  # R22, R28
    new = job("invoice", key="k", unique="forever", on_conflict=conflict)
    put(working, new)
    [taken] = working.at(T).worker.claim("q:default", 5, worker_id="w")
    working.at(T).jobs.drop_subject("booking:42", policy="delete", reason="GDPR")
    again = working.at(T).enqueue(new)
    assert again.created
    working.at(T).worker.finish([taken.end_with(Succeeded())]).require()
    assert working.jobs.get(again.id).state == "queued"
    assert working.keys.get("k").job_id == again.id
    assert not working.at(T).enqueue(replace(new, on_conflict="return")).created


def test_a_client_of_one_org_deletes_its_running_jobs_too(working):  # R22, R14
    mine, theirs = put(working, job("a", org_id="a"), job("b", org_id="b"))
    ends = [
        taken.end_with(Succeeded()) for taken in working.at(T).worker.claim("q:default", 5, worker_id="w")
    ]
    dropped = working.at(T).for_org("a").jobs.drop_subject("booking:42", policy="delete")
    assert dropped.cancelled == {mine}
    working.at(T).worker.finish(ends).require()
    assert [one.id for one in working.jobs.list()] == [theirs]


def test_so_it_is_if_its_worker_is_lost(working):  # R22
    [running] = put(working, job("invoice", key="k"))
    [_] = working.at(T).worker.claim("q:default", 5, worker_id="w")
    working.at(T).jobs.drop_subject("booking:42", policy="delete")
    working.at(T).worker.retire("w")
    working.at(T).worker.rescue()
    with pytest.raises(JobNotFound):
        working.jobs.get(running)


def test_a_job_whose_subject_is_only_cancelled_stays_at_its_end(working):
    [running] = put(working, job("invoice", key="k"))
    [taken] = working.at(T).worker.claim("q:default", 5, worker_id="w")
    working.at(T).jobs.drop_subject("booking:42", policy="cancel")
    working.at(T).worker.finish([taken.end_with(Succeeded())]).require()
    assert working.jobs.get(running).state == "succeeded"


def test_each_job_goes_by_its_category_within_one_transaction(working):
    categories = {
        **CATEGORIES,
        "kept": Category(name="kept", retry=category("default").retry, on_subject_delete="keep"),
        "gone": Category(name="gone", retry=category("default").retry, on_subject_delete="delete"),
        "stopped": Category(name="stopped", retry=category("default").retry, on_subject_delete="cancel"),
    }
    client = Client(store=working.store, policies=Policies(registry=Registry(categories=categories)))
    kept, gone, stopped = put(client, *(job("t", category=name) for name in ("kept", "gone", "stopped")))
    with open_transaction(client) as tx:
        dropped = client.within(tx).at(T).jobs.drop_subject("booking:42")
        tx.rollback()
    assert {one.id for one in client.jobs.get_many([kept, gone, stopped]).values()} == {kept, gone, stopped}
    assert dropped == client.at(T).jobs.drop_subject("booking:42")
    assert [*dropped.kept, *dropped.deleted, *dropped.cancelled] == [kept, gone, stopped]


def test_the_subject_of_one_org_is_not_that_of_another(working):
    mine, theirs = put(working, job("t", org_id="a"), job("t", org_id="b"))
    assert working.at(T).for_org("a").jobs.drop_subject("booking:42", policy="delete").deleted == {mine}
    assert working.jobs.get(theirs).state == "queued"


def test_a_rule_that_does_not_exist_is_refused(client):
    with pytest.raises(InvalidSetting, match="cascade"):
        client.jobs.drop_subject("booking:42", policy="cascade")


def test_dropping_a_subject_and_resetting_its_jobs_at_once_never_wait_for_each_other(client):
    # F21: keys are locked before jobs, everywhere; a deadlock would end the caller's transaction.
    rounds = 5 if client.store.database == "sqlite" else 30
    new = job("invoice", category="booking")

    def drop(_: int) -> None:
        for _ in range(rounds):
            with open_transaction(client) as tx:
                client.within(tx).jobs.drop_subject("booking:42", policy="delete")
                tx.commit()

    def reset(_: int) -> None:
        for _ in range(rounds):
            with open_transaction(client) as tx:
                client.within(tx).enqueue(new)
                tx.commit()

    client.jobs.count()
    with ThreadPoolExecutor(3) as pool:
        for done in [pool.submit(drop, 0), pool.submit(reset, 0), pool.submit(reset, 1)]:
            done.result(60)
    assert len(client.jobs.list(JobFilter(subject="booking:42")).items) <= 1
