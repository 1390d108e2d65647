"""Row-level security: PostgreSQL itself keeps the orgs apart, for a role that owns and bypasses nothing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import psycopg
import pytest
from psycopg import errors, sql

from onward import AsyncClient, Client, JobFilter, JobNotFound, NewJob, Onward
from onward.errors import InvalidSetting, NotAllowed
from onward.operations.jobs import listing
from onward.operations.statement import with_params
from onward.stores import open_async_store, open_store
from onward.stores.postgres.postgres_store import AsyncPostgresStore
from onward.stores.postgres.sync.postgres_store import PostgresStore
from tests.stores.later_version import later_version
from tests.stores.postgres.postgres_schema import fresh_schema
from tests.tenancy.plain_role import plain_role
from tests.tenancy.world import POLICIES, A, B, World, inhabited, tables

# What no table should ever give or take, whatever an administrator has granted.
FAR_TOO_MUCH = "SELECT, INSERT, UPDATE, DELETE"


@pytest.fixture(scope="module")
def world(postgres_url: str) -> Iterator[World]:
    with fresh_schema(postgres_url) as store:
        yield inhabited(Client(store=store, policies=POLICIES))


@pytest.fixture(scope="module")
def application(world: World) -> Iterator[PostgresStore]:
    """The store of a role with Onward's own grants."""
    assert isinstance(world.all.store, PostgresStore)
    with plain_role(world.all.store) as store:
        yield store


@pytest.fixture(scope="module")
def careless(world: World) -> Iterator[PostgresStore]:
    """The store of a role that was granted far too much."""
    assert isinstance(world.all.store, PostgresStore)
    with plain_role(world.all.store, rights=FAR_TOO_MUCH) as store:
        yield store


def of_nobody(world: World) -> dict[str, None]:
    """Give the live jobs that have no org."""
    return {job.id: None for job in world.all.jobs.list(limit=1000).items if job.org_id is None}


@pytest.fixture
def session(careless: PostgresStore) -> Iterator[psycopg.Connection[Any]]:
    """A hand-written session for B of the role that was granted far too much."""
    with psycopg.connect(careless.url, autocommit=True) as connection:
        connection.execute(f"SET {careless.prefix}org = '{B.org_id}'")
        yield connection


def test_every_table_is_protected(world):
    # Migrations that come later must keep this true.
    query = f"""
        SELECT c.relname FROM pg_class c WHERE c.relkind IN ('r', 'p') AND NOT c.relrowsecurity
            AND c.relnamespace = '{world.all.store.prefix.rstrip(".")}'::regnamespace
    """
    world.all.protect_orgs()
    with psycopg.connect(world.all.store.url) as connection:
        assert connection.execute(query.encode()).fetchall() == []


def test_a_session_of_one_org_reads_nothing_of_another_from_any_table(world, session):
    marks = (A.org_id, world.a.artifact, *world.a.jobs.values())
    seen = 0
    for table in [*tables(world.all), *(f"{world.all.store.prefix}{view}" for view in ("jobs", "ledger"))]:
        rows = [text for (text,) in session.execute(f"SELECT one::text FROM {table} AS one".encode())]
        assert [row for row in rows if any(mark in row for mark in marks)] == [], table
        seen += sum(B.org_id in row for row in rows)
    assert seen > len(world.own.jobs), "it does see its own"


@pytest.mark.parametrize("verb", ["UPDATE", "DELETE"])
def test_a_session_of_one_org_changes_nothing_of_another_in_any_table(postgres_url, verb):
    with fresh_schema(postgres_url) as store:
        world = inhabited(Client(store=store, policies=POLICIES))
        reached = set()
        with (
            plain_role(store, rights=FAR_TOO_MUCH) as role,
            psycopg.connect(role.url, autocommit=True) as session,
        ):
            session.execute(f"SET {store.prefix}org = '{B.org_id}'")
            for table in tables(world.all):
                described = session.execute(f"SELECT * FROM {table} LIMIT 0".encode()).description or []
                change = f"UPDATE {table} SET {described[0].name} = {described[0].name}"
                # The audit and its chain are append-only for everyone.
                with suppress(errors.InsufficientPrivilege, errors.GeneratedAlways):
                    done = session.execute((change if verb == "UPDATE" else f"DELETE FROM {table}").encode())
                    reached |= {table.removeprefix(store.prefix)} if done.rowcount else set()
        own = {"attempts", "live", "ended", "keys", "controls", "usage", "budgets", "artifacts"}
        own |= {"dead_letters", "effects", "batches", "signals", "awaited", "workers"}
        assert reached - {name for name in reached if name.startswith("ended_")} == own, (
            "its own, and no more"
        )
        assert world.rows_of_a() == world.before


def test_a_session_of_one_org_inserts_nothing_for_another_into_any_table(world, session):
    # Taken as they are from who may read them, and given to a session that may not.
    refused = 0
    for table in tables(world.all):
        with psycopg.connect(world.all.store.url) as owner:
            query = f"SELECT one::text FROM ONLY {table} AS one WHERE one::text LIKE '%{A.org_id}%' LIMIT 1"
            found = owner.execute(query.encode()).fetchone()
        if found is None:
            continue
        whole = sql.SQL("INSERT INTO {t} OVERRIDING SYSTEM VALUE SELECT (CAST({row} AS {t})).*")
        with pytest.raises(errors.InsufficientPrivilege, match="row-level security"):
            session.execute(whole.format(t=sql.SQL(table), row=sql.Literal(found[0])))
        refused += 1
    assert refused >= 8
    assert world.rows_of_a() == world.before


def test_a_session_of_one_org_resolves_no_death_of_another(world, session):
    query = f"""
        INSERT INTO {world.all.store.prefix}dead_letters (job_id, lease, org_id, resolution, at, reason)
        VALUES (%s, 99, %s, 'discarded', now(), 'r')
    """.encode()
    with pytest.raises(errors.InsufficientPrivilege, match="row-level security"):
        session.execute(query, (world.a.jobs["dead"], B.org_id))
    with session.transaction(force_rollback=True):
        session.execute(query, (world.own.jobs["dead"], B.org_id))


@pytest.mark.parametrize("setting", [None, ""], ids=["unset", "empty"])
def test_without_an_org_a_session_sees_only_what_has_none(world, careless, setting):
    # A17: null never means all
    with psycopg.connect(careless.url) as session:
        if setting is not None:
            session.execute(f"SET {careless.prefix}org = ''")
        for table in ("live", "ended", "keys", "audit", "attempts", "usage"):
            rows = session.execute(
                f"SELECT one::text FROM {careless.prefix}{table} AS one".encode()
            ).fetchall()
            assert not [row for (row,) in rows if A.org_id in row or B.org_id in row], table
        query = f"SELECT id::text, org_id FROM {careless.prefix}live"
        assert dict(session.execute(query.encode()).fetchall()) == of_nobody(world)


def test_the_owner_of_the_tables_sees_all(world, application):
    assert world.all.jobs.get(world.a.queued).org_id == A.org_id
    assert world.all.for_org(A.org_id).jobs.get(world.a.queued).org_id == A.org_id


def test_where_a_statement_forgot_its_org_the_policy_still_holds(world, application):
    # The same operation with `:only_org` unset: what a mistake in this code would be.
    def forgetful():
        return with_params(
            listing.list_jobs(JobFilter(), limit=1000),
            {"only_org": None, "only_project": None, "audited": 2},
        )

    orgs = {job.org_id for job in application.run(forgetful, org_id=B.org_id)}
    assert orgs == {B.org_id}
    assert {job.org_id for job in application.run(forgetful)} == {None}


def test_clients_of_several_orgs_share_connections_and_see_each_their_own(world, application):
    store = PostgresStore(
        application.url, schema=application.prefix.rstrip("."), row_security=True, pool_size=1
    )
    with Client(store=store) as client:
        a, b = client.for_org(A.org_id), client.for_org(B.org_id)
        for _ in range(2):
            assert a.jobs.get(world.a.dead).org_id == A.org_id
            assert b.jobs.get(world.own.dead).org_id == B.org_id
            assert {job.org_id for job in client.jobs.list().items} == {None}
            with pytest.raises(JobNotFound):
                b.jobs.get(world.a.dead)


def test_behind_a_pooler_the_org_is_set_for_one_transaction_only(world, application):
    store = PostgresStore(
        application.url, schema=application.prefix.rstrip("."), row_security=True, pool_size=1
    )
    store.pooler = True
    with Client(store=store) as client:
        b = client.for_org(B.org_id)
        assert b.jobs.get(world.own.dead).org_id == B.org_id
        b.enqueue_many([NewJob(job_type="t", key="pooled 1"), NewJob(job_type="t", key="pooled 2")])
        with store.pool.connection() as connection:
            shown = connection.execute(f"SELECT current_setting('{store.prefix}org', true)".encode())
            assert shown.fetchone() in {(None,), ("",)}


def test_within_a_transaction_the_org_is_set_until_its_end(world, application):
    client = Client(store=application)
    with psycopg.connect(application.url) as tx:
        b = client.for_org(B.org_id).within(tx)
        assert b.org_id == B.org_id
        assert b.jobs.get(world.own.queued).org_id == B.org_id
        assert client.within(tx).jobs.list().items[0].org_id is None
        made = b.enqueue(NewJob(job_type="t", key="within"))
        assert b.jobs.get(made.id).org_id == B.org_id
        tx.rollback()
        rows = tx.execute(f"SELECT id::text, org_id FROM {application.prefix}live".encode()).fetchall()
        assert dict(rows) == of_nobody(world)


async def test_an_async_client_is_confined_alike(world, application, anyio_backend):
    store = AsyncPostgresStore(application.url, schema=application.prefix.rstrip("."), row_security=True)
    async with AsyncClient(store=store) as client:
        assert (await client.for_org(B.org_id).jobs.get(world.own.dead)).org_id == B.org_id
        with pytest.raises(JobNotFound):
            await client.for_org(B.org_id).jobs.get(world.a.dead)
        async with await psycopg.AsyncConnection.connect(application.url) as tx:
            bound = client.within(tx).for_org(B.org_id)
            assert (await bound.jobs.get(world.own.dead)).org_id == B.org_id


def test_a_client_of_none_sees_and_changes_nothing_of_any_org(world, application):
    with Client(
        store=PostgresStore(application.url, schema=application.prefix.rstrip("."), row_security=True)
    ) as client:
        with pytest.raises(JobNotFound):
            client.jobs.get(world.a.dead)
        with pytest.raises(JobNotFound):
            client.jobs.cancel(world.a.dead, reason="no")
        assert client.enqueue(NewJob(job_type="t", key="of nobody")).created
        assert not client.enqueue(NewJob(job_type="t", key="of nobody")).created
    assert world.rows_of_a() == world.before


def test_a_role_without_rights_to_change_tables_can_not_take_the_protection_away(world, application):
    client = Client(store=PostgresStore(application.url, schema=application.prefix.rstrip(".")))
    with client, pytest.raises(NotAllowed, match="must be owner"):
        client.protect_orgs(enable=False)


def test_tables_of_a_later_version_are_protected_by_its_migration(postgres_url, tmp_path):
    folder = later_version(tmp_path, "CREATE TABLE {prefix}more (org_id text);\n")
    with fresh_schema(postgres_url) as store, psycopg.connect(postgres_url, autocommit=True) as connection:
        schema = store.prefix.rstrip(".")
        store.protect_orgs(enable=True)
        later = PostgresStore(postgres_url, schema=schema, migrations=folder)
        later.migrate()
        later.close()
        query = f"""
            SELECT relname FROM pg_class WHERE relkind IN ('r', 'p') AND NOT relrowsecurity
                AND relnamespace = '{schema}'::regnamespace
        """
        assert connection.execute(query).fetchall() == []
        policies = f"SELECT policyname FROM pg_policies WHERE schemaname = '{schema}' AND tablename = 'more'"
        assert connection.execute(policies).fetchall() == [("of_one_org",)]


def test_what_was_turned_on_can_be_turned_off(postgres_url):
    with fresh_schema(postgres_url) as store:
        client = Client(store=store)
        client.enqueue(NewJob(job_type="t", org_id=A.org_id))
        with plain_role(store) as role, psycopg.connect(role.url, autocommit=True) as session:
            count = f"SELECT count(*) FROM {store.prefix}jobs".encode()
            assert session.execute(count).fetchone() == (0,)
            client.protect_orgs(enable=False)
            assert session.execute(f"SELECT count(*) FROM {store.prefix}live".encode()).fetchone() == (1,)
            client.protect_orgs()
            client.protect_orgs()
            assert session.execute(count).fetchone() == (0,)


def test_sqlite_has_no_row_security_and_says_so(tmp_path):
    url = f"sqlite:///{tmp_path}/onward.db"
    for opening in (open_store, open_async_store):
        with pytest.raises(InvalidSetting, match="this is SQLite"):
            opening(url, row_security=True)
    with pytest.raises(InvalidSetting, match="this is SQLite"):
        Onward(url, row_security=True).client  # noqa: B018 - opened when it is first asked for
    with Client(url) as client, pytest.raises(InvalidSetting, match="this is SQLite"):
        client.protect_orgs()


def test_an_application_hands_the_setting_to_its_clients(world, application):
    app = Onward(application.url, schema=application.prefix.rstrip("."), row_security=True)
    try:
        assert app.client.for_org(B.org_id).jobs.get(world.own.dead).org_id == B.org_id
        assert {job.org_id for job in app.client.jobs.list().items} == {None}
    finally:
        app.close()


def test_functions_are_enqueued_for_the_org_that_they_name(postgres_url):
    # R14: by option, by context, many at once and within a transaction; one call is for one org.
    with fresh_schema(postgres_url) as store, plain_role(store) as application:
        _enqueue_in_every_way(Client(store=store), application)


def _enqueue_in_every_way(owner: Client, application: PostgresStore) -> None:
    app = Onward(application.url, schema=application.prefix.rstrip("."), row_security=True)

    @app.job
    def report(n: int) -> None: ...

    made = [report.using(org_id=A.org_id).enqueue(n=1)]
    with app.context(org_id=A.org_id):
        made.append(report.enqueue(n=2))
    made += app.enqueue_many([report.using(org_id=A.org_id).build(n=n) for n in (3, 4)])
    with psycopg.connect(application.url) as tx:
        made.append(report.using(tx=tx, org_id=A.org_id).enqueue(n=5))
    assert all(handle.created for handle in made)
    assert len(owner.jobs.list(JobFilter(org_id=A.org_id, job_type="report")).items) == 5
    with pytest.raises(NotAllowed, match="2 orgs"):
        app.enqueue_many([report.using(org_id=org).build(n=6) for org in (A.org_id, B.org_id)])
    app.close()
