"""What is left of artifacts: expired rows, and files that no row has."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta

import psycopg
import pytest
from msgspec import structs

from onward import Category, Client, InvalidSetting, LeaseLost, NewJob, NotAllowed, Succeeded
from onward.core.policy.policies import Policies
from onward.errors import ArtifactNotFound
from onward.stores.postgres.sync.postgres_store import PostgresStore
from onward.stores.sqlite.sqlite_store import SqliteStore
from tests.jobs.inspect.reading import rows
from tests.records.artifacts.files import LARGE
from tests.stores.postgres.postgres_schema import clean_schema
from tests.tenancy.plain_role import plain_role

HOUR = timedelta(hours=1)


def now() -> datetime:
    return datetime.now(UTC)


@contextmanager
def transaction(client: Client) -> Iterator[Client]:
    """The client within a transaction of the test's own, which is rolled back unless it ends well."""
    client.migrate()
    if isinstance(client.store, SqliteStore):
        with closing(sqlite3.connect(client.store.file.path, isolation_level=None)) as connection:
            connection.execute("BEGIN IMMEDIATE")
            yield client.within(connection)
            connection.execute("COMMIT")
    else:
        assert isinstance(client.store, PostgresStore)
        with psycopg.connect(client.store.url) as connection:
            connection.execute("SELECT 1")
            yield client.within(connection)


class Crash(Exception):
    """The process ends between the file and the row."""


def put_and_crash(client: Client) -> None:
    with transaction(client) as bound:
        bound.artifacts.put("n", LARGE)
        raise Crash


def test_an_expired_artifact_is_not_found_and_its_file_goes_with_it(client, kept):
    artifact = client.artifacts.put("n", LARGE, expires=HOUR)
    assert artifact.expires_at == artifact.created_at + HOUR
    over = artifact.created_at + HOUR
    assert client.at(over - HOUR / 2).artifacts.read(artifact.id) == LARGE
    expired = client.at(over).artifacts
    for read in (expired.get, expired.read, expired.open):
        with pytest.raises(ArtifactNotFound):
            read(artifact.id)
    assert client.at(over).artifacts.list().items == []
    assert client.at(over - HOUR / 2).artifacts.prune().expired == 0
    pruned = client.at(over + timedelta(days=2)).artifacts.prune()
    assert (pruned.expired, pruned.removed) == (1, 1)
    assert kept() == []
    events = rows(client, "SELECT event FROM {prefix}audit ORDER BY seq")
    assert events == [("artifact.stored",), ("artifact.expired",)]


def test_a_file_stays_as_long_as_another_artifact_of_the_org_has_it(client, kept):
    lasting = client.for_org("o").artifacts.put("a", LARGE)
    client.for_org("o").artifacts.put("b", LARGE, expires=HOUR)
    client.for_org("other").artifacts.put("c", LARGE, expires=HOUR)
    assert len(kept()) == 2
    later = now() + timedelta(days=3)
    pruned = client.at(later).artifacts.prune()
    assert (pruned.expired, pruned.removed, len(kept())) == (2, 1, 1)
    assert client.artifacts.read(lasting.id) == LARGE


def test_a_crash_between_file_and_row_leaves_a_file_that_is_removed_after_a_grace(client, kept):
    with pytest.raises(Crash):
        put_and_crash(client)
    assert client.artifacts.list().items == []
    assert len(kept()) == 1
    assert client.at(now() + 23 * HOUR).artifacts.prune().removed == 0
    assert client.at(now() + 25 * HOUR).artifacts.prune().removed == 1
    assert kept() == []


def test_a_caller_who_commits_has_file_and_row(client):
    with transaction(client) as bound:
        artifact = bound.artifacts.put("n", LARGE)
        assert bound.artifacts.read(artifact.ref) == LARGE
    assert client.artifacts.read(artifact.ref) == LARGE


def test_an_interrupted_put_is_cleared_away_as_well(client, kept):
    client.artifacts.put("n", LARGE)
    [file] = kept()
    (file.parent.parent / ".0123.part").write_bytes(b"half")
    assert client.at(now() + 25 * HOUR).artifacts.prune().removed == 1
    assert kept() == [file]


def test_nothing_is_pruned_in_a_transaction_of_the_callers(client):
    with transaction(client) as bound, pytest.raises(InvalidSetting, match="no rollback brings back"):
        bound.artifacts.prune()


def test_so_many_at_a_time_are_pruned(client, kept):
    for n in range(5):
        client.artifacts.put("n", LARGE + bytes([n]), expires=HOUR)
    later = now() + timedelta(days=2)
    assert [client.at(later).artifacts.prune(limit=3).expired for _ in range(3)] == [3, 2, 0]
    assert kept() == []


@pytest.fixture
def stale(client: Client, claimed):
    """A job as its first worker still sees it, although a second one has claimed it since."""
    job = claimed(org_id="a")
    client.worker.retire(job.worker_id)
    client.worker.rescue().require()
    client.worker.register("second")
    [again] = client.worker.claim("q:default", worker_id="second")
    assert again.lease > job.lease
    return job


def test_a_job_that_nobody_claimed_can_leave_no_artifact(client):
    job = client.jobs.get(client.enqueue(NewJob(job_type="t")).id)
    with pytest.raises(InvalidSetting, match="attempt is 0"):
        client.worker.artifacts.add(job, "early.csv", b"x")
    with pytest.raises(LeaseLost, match=job.id):
        client.worker.artifacts.add(structs.replace(job, attempt=1), "early.csv", b"x")
    assert client.artifacts.list().items == []


def test_a_client_of_one_org_writes_no_line_about_the_job_of_another(client, claimed):
    theirs, acme = claimed(org_id="bolt"), client.for_org("acme")
    before = client.audit.list()
    for job in (
        theirs,
        structs.replace(theirs, org_id="acme"),
        structs.replace(theirs, org_id="acme", lease=9),
    ):
        with pytest.raises(LeaseLost):
            acme.worker.artifacts.add(job, "n", b"x")
    assert client.audit.list() == before
    with pytest.raises(LeaseLost):
        client.worker.artifacts.add(structs.replace(theirs, org_id="acme"), "n", b"x")
    [line] = client.audit.list(limit=1)
    assert (line.event, line.job_id, line.org_id) == ("job.stale_result_rejected", theirs.id, "bolt")


def test_a_stale_lease_can_leave_no_artifact(client, stale, kept):  # R7
    for content in (b"small", LARGE):
        with pytest.raises(LeaseLost, match=stale.id):
            client.worker.artifacts.add(stale, "late.csv", content)
    assert client.artifacts.list().items == []
    refused = [event for event in client.jobs.events(stale.id) if event.event == "job.stale_result_rejected"]
    assert [(event.lease, event.detail["name"]) for event in refused] == [(stale.lease, "late.csv")] * 2
    assert len(kept()) == 1
    client.at(now() + 25 * HOUR).artifacts.prune()
    assert kept() == []


def test_on_postgresql_a_lease_can_not_be_lost_before_the_artifact_is_committed(postgres_url):  # R7
    with clean_schema(postgres_url) as store, psycopg.connect(postgres_url, autocommit=True) as other:
        client = Client(store=store)
        client.worker.register("w")
        client.enqueue(NewJob(job_type="t"))
        [job] = client.worker.claim("q:default", worker_id="w")
        take = f"SELECT 1 FROM {store.prefix}live FOR UPDATE NOWAIT"
        with transaction(client) as bound:
            bound.worker.artifacts.add(job, "n", b"x")
            with pytest.raises(psycopg.errors.LockNotAvailable):
                other.execute(take.encode())
        assert other.execute(take.encode()).rowcount == 1


def test_a_job_that_has_ended_can_leave_no_artifact(client, claimed):  # R7
    job = claimed()
    assert client.worker.artifacts.add(job, "in time.csv", b"x").job_id == job.id
    client.worker.finish([job.end_with(Succeeded())]).require()
    with pytest.raises(LeaseLost):
        client.worker.artifacts.add(job, "late.csv", b"x")
    assert [found.name for found in client.artifacts.list(job_id=job.id)] == ["in time.csv"]


def test_the_category_says_how_long_what_its_jobs_leave_is_kept(client, claimed):
    policies = Policies.of(categories=[Category(name="default", artifact_retention=HOUR)])
    own = Client(store=client.store, policies=policies)
    job = claimed()
    made = own.worker.artifacts.add(job, "n", b"x")
    assert made.expires_at == made.created_at + HOUR
    made = own.worker.artifacts.add(job, "n", b"x", expires="2h")
    assert made.expires_at == made.created_at + 2 * HOUR
    until = datetime(2030, 1, 1, tzinfo=UTC)
    assert own.worker.artifacts.add(job, "n", b"x", expires=until).expires_at == until
    assert client.worker.artifacts.add(job, "n", b"x").expires_at is None


def test_a_role_from_which_rows_are_hidden_prunes_no_file(postgres_url, kept):
    with clean_schema(postgres_url) as store:
        client = Client(store=store)
        artifact = client.for_org("a").artifacts.put("n", LARGE)
        later = now() + timedelta(days=3)
        with plain_role(store) as hidden, pytest.raises(NotAllowed, match="row-level security hides"):
            Client(store=hidden).at(later).artifacts.prune()
        assert len(kept()) == 1
        assert client.artifacts.read(artifact.id) == LARGE
