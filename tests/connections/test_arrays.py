"""Arrays as PostgreSQL itself sends them: written here, they are read by a real server."""

import psycopg
import pytest
from psycopg import pq

from onward import AsyncClient, Client, NewJob
from onward.connections.libpq.arrays import Array
from onward.stores import open_async_store
from tests.stores.postgres.postgres_schema import clean_schema

IDS = [f"01890a5d-ac96-774b-bcce-b302099a8{number:03x}" for number in range(300)]

CASES = [
    ("uuid", IDS),
    ("uuid", [IDS[0], None, IDS[1]]),
    ("uuid", [IDS[0].upper(), IDS[1].replace("-", "")]),
    ("text", ["", "a", "ü€😀", None, "{\"},\\'", "NULL", "x" * 70_000]),
    ("jsonb", ['{"a": [1, null, "ü"]}', "null", None, "1.5", '"\\u00e9"']),
    ("smallint", [0, -1, 32767, None]),
    ("integer", [0, -(2**31), 2**31 - 1, True]),
    ("bigint", [0, -(2**63), 2**63 - 1, None]),
    ("float8", [0.1, -1e300, 3, None]),
]


def read(connection: psycopg.Connection, array: Array) -> list[str | None]:
    """Give the elements as the server writes them as text, each by itself."""
    result = connection.pgconn.exec_params(
        f"SELECT CAST(value AS text) FROM unnest(CAST($1 AS {array.kind}[])) AS t(value)".encode(),
        [array.written(connection.info.encoding)],
        param_formats=[pq.Format.BINARY],
    )
    assert result.status == pq.ExecStatus.TUPLES_OK, result.error_message
    values = [result.get_value(row, 0) for row in range(result.ntuples)]
    return [None if value is None else value.decode(connection.info.encoding) for value in values]


@pytest.mark.parametrize(("kind", "values"), CASES)
def test_the_server_reads_what_was_given(postgres_url, kind, values):
    with psycopg.connect(postgres_url) as connection:
        given = [None if value is None else str(int(value) if value is True else value) for value in values]
        expected = [
            connection.execute(f"SELECT CAST(CAST(%s AS {kind}) AS text)".encode(), (value,)).fetchone()
            for value in given
        ]
        assert [(value,) for value in read(connection, Array(kind, values))] == expected


def test_text_is_in_the_encoding_of_the_connection(postgres_url):
    with psycopg.connect(postgres_url, client_encoding="latin1") as connection:
        assert connection.info.encoding != "utf-8"
        assert read(connection, Array("text", ["é", "ÿ"])) == ["é", "ÿ"]
        assert read(connection, Array("jsonb", ['"é"'])) == ['"é"']


@pytest.mark.parametrize("wrong", [["x"], ["00"], [""], [IDS[0], IDS[1][:-2]], [IDS[0] * 2], ["01890a5d"]])
def test_what_is_no_id_is_refused(wrong):
    with pytest.raises(ValueError, match=r"no ids|hexadecimal"):
        Array("uuid", wrong).written("utf-8")


@pytest.mark.parametrize("encoding", ["utf8", "latin1"])
def test_a_bulk_on_a_callers_connection_arrives_in_its_encoding(postgres_url, encoding):
    jobs = [NewJob(job_type="t", payload={"n": "é" * n}, key=f"ÿ{n}", priority=n % 9 + 1) for n in range(40)]
    with clean_schema(postgres_url) as store, Client(store=store) as client:
        with psycopg.connect(postgres_url, client_encoding=encoding) as connection:
            made = client.within(connection).enqueue_many(jobs)
        found = client.jobs.get_many([one.id for one in made])
    stored = [(found[one.id].payload, found[one.id].key, found[one.id].priority) for one in made]
    assert stored == [(new.payload, new.key, new.priority) for new in jobs]


@pytest.mark.anyio
async def test_a_bulk_of_several_statements_keeps_what_each_job_has_of_its_own(postgres_url):
    jobs = [
        NewJob(
            job_type="t", payload={"n": n}, org_id=f"o{n}" if n % 3 else None, tags=["a"] if n % 2 else None
        )
        for n in range(6000)
    ]
    with clean_schema(postgres_url) as store:
        async with AsyncClient(store=open_async_store(store.url, schema=store.prefix.rstrip("."))) as client:
            made = await client.enqueue_many(jobs)
            found = await client.jobs.get_many([one.id for one in made])
    stored = [(found[one.id].payload, found[one.id].org_id, found[one.id].tags) for one in made]
    assert stored == [(new.payload, new.org_id, new.tags) for new in jobs]
