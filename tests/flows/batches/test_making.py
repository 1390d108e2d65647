"""Batches are made as a whole or not at all, and are filled only while they may be."""

from __future__ import annotations

import sqlite3
import threading
from contextlib import closing
from typing import Any

import psycopg
import pytest

from onward import Client, InvalidJob, InvalidSetting, NewJob
from onward.core.policy.policies import Policies
from onward.errors import BatchClosed, BatchNotFound
from onward.stores.postgres.sync.postgres_store import PostgresStore
from onward.stores.sqlite.sqlite_store import SqliteStore
from tests.flows.batches.crew import Crew, new
from tests.stores.postgres.postgres_schema import clean_schema

NOBODY = "01890000-0000-7000-8000-000000000000"


def connected(client: Client) -> Any:
    store = client.store
    if isinstance(store, SqliteStore):
        return sqlite3.connect(store.file.path)
    assert isinstance(store, PostgresStore)
    return psycopg.connect(store.url)


def test_a_large_batch_is_one_transaction(crew):
    batch_id, ids = crew.batch(5001)
    assert len(set(ids)) == 5001
    assert crew.read(batch_id).waiting == 5001


def test_a_batch_belongs_to_the_callers_transaction(crew):
    with closing(connected(crew.client)) as connection:
        bound = crew.client.within(connection) if isinstance(connection, psycopg.Connection) else None
        if bound is None:
            connection.execute("BEGIN")
            bound = crew.client.within(connection)
        made = bound.batches.enqueue([new()], on_complete=new("after"))
        assert bound.batches.get(made.id).total == 1
        connection.rollback()
    with pytest.raises(BatchNotFound, match=made.id):
        crew.read(made.id)
    assert crew.client.jobs.list().items == []


@pytest.mark.parametrize(
    ("jobs", "options", "said"),
    [
        ([new()], {"on_success": new("after", priority=1077)}, "priority is 1077"),
        ([new()], {"on_failure": new("after", payload={"n": float("nan")})}, "NaN"),
        ([new()], {"on_complete": new("after", after=(NOBODY,))}, "on_complete waits for the whole batch"),
        ([new(), new(batch_id=NOBODY)], {}, r"jobs\[1\] is in batch"),
        ([new(), new(priority=-1001)], {}, r"jobs\[1\]: priority is -1001"),
        ([new(org_id="a"), new(org_id="b")], {}, "a batch is of one org"),
        ([new(org_id="a")], {"on_success": new("after")}, "a batch is of one org"),
        ([new()], {"name": ""}, "name is empty"),
        (["no job"], {}, "is no job"),
    ],
)
def test_what_is_wrong_is_refused_before_anything_is_stored(client, jobs, options, said):
    with pytest.raises(InvalidJob, match=said):
        client.batches.enqueue(jobs, **options)
    assert client.jobs.list().items == []
    assert client.batches.list().items == []


def test_the_arguments_of_a_callback_are_checked_where_its_job_type_is_known(app):
    app.job(name="need")(lambda a: None)
    for payload in ({"z": 1}, {}):
        with pytest.raises(InvalidJob, match="argument"), app.batch(on_complete=new("need", payload=payload)):
            pass
    assert app.client.batches.list().items == []
    with app.batch(on_complete=new("of another application", payload={"z": 1})) as batch:
        assert batch.refresh().open


def test_a_batch_is_not_used_before_its_block(app):
    step = app.job(name="step")(lambda: None)
    batch = app.batch()
    for use in (lambda: batch.add(step.build()), batch.refresh, lambda: step.using(batch=batch)):
        with pytest.raises(InvalidSetting, match="use it inside its block"):
            use()
    with pytest.raises(InvalidJob, match="'x' is not a batch id"):
        app.client.batches.get("x")
    with batch:
        assert len(batch.add(step.build())) == 1


def test_what_is_no_job_is_no_callback(client):
    with pytest.raises(InvalidSetting, match="on_success is 'mail'"):
        client.batches.enqueue([], on_success="mail")


def test_a_callback_is_enqueued_whoever_holds_its_key(crew):
    crew.client.enqueue(new("after", key="taken", queue="q:after"))
    batch_id, _ = crew.batch(
        [], on_success=None, on_failure=None, on_complete=new("after", key="taken", queue="q:after")
    )
    job = crew.client.jobs.get(crew.read(batch_id).callbacks["on_complete"])
    assert job.key == f"batch:{batch_id}:on_complete"
    assert crew.client.keys.get(job.key).job_id == job.id


def test_where_every_job_needs_a_key_a_callback_has_one_of_its_own(tmp_path):
    policies = Policies.of(contract="required", tenancy="off")
    with Client(f"sqlite:///{tmp_path}/onward.db", policies=policies) as client:
        about = {"actor_type": "user", "actor_id": "1", "request_id": "r"}
        for _ in range(2):
            client.batches.enqueue([], on_complete=new("after", **about))
        assert len(client.jobs.list().items) == 2


def test_an_open_batch_takes_jobs_until_it_is_closed(crew):
    batch_id = crew.client.batches.open(on_complete=new("on_complete", queue="q:after"), name="open")
    assert crew.read(batch_id).open
    first = crew.client.enqueue(new(batch_id=batch_id))
    crew.end(first.id)
    assert crew.called() == [], "more may come"
    [second] = crew.client.enqueue_many([new(batch_id=batch_id)])
    crew.client.batches.close(batch_id)
    with pytest.raises(BatchClosed, match="is closed"):
        crew.client.enqueue(new(batch_id=batch_id))
    assert crew.read(batch_id).total == 2
    crew.end(second.id)
    assert crew.called() == ["on_complete"]
    with pytest.raises(BatchClosed, match="has ended"):
        crew.client.enqueue(new(batch_id=batch_id))


def test_closing_an_open_batch_whose_jobs_have_all_ended_ends_it(crew):
    batch_id = crew.client.batches.open(on_success=new("on_success", queue="q:after"))
    crew.end(crew.client.enqueue(new(batch_id=batch_id)).id)
    crew.client.batches.close(batch_id)
    crew.client.batches.close(batch_id)
    assert crew.called() == ["on_success"]


def test_a_batch_that_is_not_there_takes_nothing(client):
    for call in (
        lambda: client.enqueue(new(batch_id=NOBODY)),
        lambda: client.batches.close(NOBODY),
        lambda: client.batches.get(NOBODY),
    ):
        with pytest.raises(BatchNotFound, match=f"no batch {NOBODY}"):
            call()
    assert client.jobs.list().items == []
    assert client.batches.jobs(NOBODY).items == []


def test_a_running_job_adds_to_its_batch_and_it_does_not_end_too_early(crew):
    batch_id, [first] = crew.batch(1)
    crew.claim()
    child = crew.client.enqueue(new(batch_id=batch_id, parent_id=first))
    crew.end(first)
    assert crew.called() == []
    assert crew.read(batch_id).total == 2
    with pytest.raises(BatchClosed):
        # Its parent has ended: it speaks for nobody of the batch any more.
        crew.client.enqueue(new(batch_id=batch_id, parent_id=first))
    crew.end(child.id)
    assert crew.called() == ["on_complete", "on_success"]


def test_who_adds_in_a_long_transaction_holds_up_nobody_but_who_closes(postgres_crew):
    crew, client = postgres_crew, postgres_crew.client
    batch_id = client.batches.open(on_complete=new("on_complete", queue="q:after"))
    first = client.enqueue(new(batch_id=batch_id))
    with closing(connected(client)) as connection:
        added = client.within(connection).enqueue(new(batch_id=batch_id))
        # These would wait for ever if they met its lock.
        crew.end(first.id)
        assert crew.read(batch_id).succeeded == 1
        another = client.enqueue(new(batch_id=batch_id))
        closing_it = threading.Thread(target=client.batches.close, args=(batch_id,))
        closing_it.start()
        waiting = "SELECT count(*) FROM pg_locks WHERE NOT granted"
        with psycopg.connect(client.store.url, autocommit=True) as other:
            while other.execute(waiting).fetchone() == (0,):
                pass
        connection.commit()
    closing_it.join(20)
    assert not closing_it.is_alive()
    assert crew.read(batch_id).waiting == 2
    crew.end(added.id, another.id)
    assert crew.called() == ["on_complete"]


@pytest.fixture
def postgres_crew(postgres_url: str) -> Any:
    """A crew on PostgreSQL."""
    with clean_schema(postgres_url) as store:
        yield Crew(Client(store=store))


def test_batches_are_listed_newest_first_and_by_what_they_are(crew):
    ids = [crew.batch(2 if at else [], name=f"n{at % 2}")[0] for at in range(4)]
    listed = crew.client.batches.list(limit=3)
    assert [batch.id for batch in listed] == ids[:0:-1]
    assert [batch.total for batch in listed] == [2, 2, 2]
    rest = crew.client.batches.list(limit=3, cursor=listed.next_cursor)
    assert ([batch.id for batch in rest], rest.next_cursor) == (ids[:1], None)
    assert [batch.id for batch in crew.client.batches.list(ended=True)] == ids[:1]
    assert [batch.id for batch in crew.client.batches.list(ended=False, name="n1")] == [
        ids[3],
        ids[1],
    ]


def test_the_jobs_of_a_batch_are_listed_wherever_they_are(crew):
    batch_id, [first, second, third] = crew.batch(3)
    crew.batch(1)
    crew.end(second)
    page = crew.client.batches.jobs(batch_id, limit=2)
    assert [job.id for job in page] == [third, second]
    rest = crew.client.batches.jobs(batch_id, limit=2, cursor=page.next_cursor)
    assert ([job.id for job in rest], rest.next_cursor) == ([first], None)


def test_a_batch_of_an_org_takes_jobs_of_that_org_alone(client):
    confined = client.for_org("acme")
    batch_id = confined.batches.open()
    assert confined.batches.get(batch_id).org_id == "acme"
    confined.enqueue(NewJob(job_type="t", batch_id=batch_id))
    with pytest.raises(InvalidJob, match="is of org 'acme', and this job of None"):
        client.enqueue(new(batch_id=batch_id))
    with pytest.raises(BatchNotFound):
        client.for_org("bolt").enqueue(new(batch_id=batch_id))
