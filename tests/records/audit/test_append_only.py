"""Nobody changes what the audit says, not even who owns its tables."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest

from onward import Client, Succeeded
from onward.stores.postgres.sync.postgres_store import PostgresStore
from tests.jobs.inspect.reading import rows
from tests.records.audit.audit_history import claimed, finished
from tests.stores.postgres.postgres_schema import fresh_schema

REFUSED = (sqlite3.IntegrityError, psycopg.errors.InsufficientPrivilege)


CHANGES = {
    "audit": ["UPDATE {} SET event = 'job.forged'", "DELETE FROM {}"],
    "chain": ["UPDATE {} SET link = ''", "DELETE FROM {}"],
}
# Refused as statements, also those that would meet no row.
ON_POSTGRES = ["TRUNCATE {}", "DELETE FROM {} WHERE seq < 0", "UPDATE {} SET seq = DEFAULT WHERE seq < 0"]
SOON = datetime.now(UTC) + timedelta(days=1)


@pytest.mark.parametrize("table", CHANGES)
def test_the_audit_and_its_chain_refuse_every_change(client, table):  # A26
    finished(client)
    client.audit.seal()
    before = rows(client, f"SELECT * FROM {{prefix}}{table} ORDER BY seq")
    postgres = isinstance(client.store, PostgresStore)
    for change in [*CHANGES[table], *(ON_POSTGRES if postgres else [])]:
        with pytest.raises(REFUSED, match="append-only"):
            rows(client, change.format(f"{{prefix}}{table}"))
    assert rows(client, f"SELECT * FROM {{prefix}}{table} ORDER BY seq") == before


@pytest.mark.parametrize(
    "change", ["DELETE FROM {}", "UPDATE {} SET floor = -9", "UPDATE {} SET position = position - 1"]
)
def test_the_end_of_the_chain_never_goes_back(client, change):
    finished(client)
    client.audit.seal()
    before = rows(client, "SELECT floor, position FROM {prefix}sealing")
    with pytest.raises(REFUSED, match="never goes back"):
        rows(client, change.format("{prefix}sealing"))
    assert rows(client, "SELECT floor, position FROM {prefix}sealing") == before
    assert client.audit.verify().intact


def test_the_end_of_the_chain_is_not_truncated(client):
    if isinstance(client.store, PostgresStore):
        with pytest.raises(REFUSED, match="never goes back"):
            rows(client, "TRUNCATE {prefix}sealing")


def test_the_marker_of_a_prune_ends_with_it(client):
    finished(client)
    assert client.at(SOON).audit.prune(before=SOON).count
    with pytest.raises(REFUSED, match="append-only"):
        rows(client, "DELETE FROM {prefix}audit")


def test_the_audit_is_closed_after_a_prune_within_a_callers_transaction(client):
    finished(client)
    store = client.store
    if isinstance(store, PostgresStore):
        connection: Any = psycopg.connect(store.url)
    else:
        connection = sqlite3.connect(store.file.path)
    with closing(connection):
        assert client.within(connection).at(SOON).audit.prune(before=SOON).count
        with pytest.raises(REFUSED, match="append-only"):
            connection.execute(f"DELETE FROM {store.prefix}audit")
        connection.rollback()


def test_a_role_that_may_only_insert_and_select_can_work(postgres_url):
    # The grants that the guide names.
    with fresh_schema(postgres_url) as store, psycopg.connect(postgres_url, autocommit=True) as owner:
        schema = store.prefix.rstrip(".")
        role = f"role_{schema}"
        for text in (
            f"CREATE ROLE {role} LOGIN",
            f"GRANT USAGE ON SCHEMA {schema} TO {role}",
            f"GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {schema} TO {role}",
            f"REVOKE UPDATE, DELETE ON {schema}.audit, {schema}.chain FROM {role}",
        ):
            owner.execute(text.encode())
        try:
            url = psycopg.conninfo.make_conninfo(postgres_url, user=role)
            own = PostgresStore(url, schema=schema)
            client = Client(store=own)
            [job] = claimed(client)
            client.worker.finish([job.end_with(Succeeded())]).require()
            client.worker.note(claimed(client)[0].held_lease, "NOTED")
            assert [record.event for record in client.audit.list(limit=2)] == [
                "job.noted",
                "job.started",
            ]
            assert client.audit.verify().intact
            own.close()
            with psycopg.connect(url) as connection, pytest.raises(psycopg.errors.InsufficientPrivilege):
                connection.execute(f"DELETE FROM {schema}.audit".encode())
        finally:
            owner.execute(f"DROP OWNED BY {role}".encode())
            owner.execute(f"DROP ROLE {role}".encode())
