"""The server that the tests use is a real PostgreSQL, wherever its binaries come from."""

import os
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest

from tests.postgres import PostgresServer, fresh_database, server_binaries

ROOT = Path(__file__).resolve().parent.parent


def test_the_database_of_the_tests_is_an_empty_real_postgres(postgres_server_url):
    name = f"onward_test_empty_{os.getpid()}"
    with fresh_database(postgres_server_url, name) as url, psycopg.connect(url) as connection:
        [(version, tables)] = connection.execute(
            "SELECT version(), (SELECT count(*) FROM pg_tables WHERE schemaname = 'public')"
        )
    assert version.startswith("PostgreSQL ")
    assert tables == 0


def test_a_dropped_database_is_gone_even_while_somebody_is_connected(postgres_server_url):
    with fresh_database(postgres_server_url, f"onward_test_dropped_{os.getpid()}") as url:
        connection = psycopg.connect(url)
    connection.close()
    with pytest.raises(psycopg.OperationalError, match="does not exist"):
        psycopg.connect(url)


@pytest.mark.parametrize("binaries", server_binaries(), ids=lambda path: path.parent.name)
def test_a_server_starts_from_every_source_of_binaries_and_survives_a_crash(binaries):
    with PostgresServer(binaries) as server:
        with psycopg.connect(server.url(), autocommit=True) as connection:
            connection.execute("CREATE TABLE kept (id int)")
        server.stop("immediate")
        with pytest.raises(psycopg.OperationalError):
            psycopg.connect(server.url())
        server.start()
        with psycopg.connect(server.url()) as connection:
            assert connection.execute("SELECT count(*) FROM kept").fetchone() == (0,)
    assert server.pid is None
    assert not server.directory.exists()


def test_a_durable_server_waits_for_the_disk():
    with PostgresServer(durable=True) as server, psycopg.connect(server.url()) as connection:
        assert connection.execute("SHOW fsync").fetchone() == ("on",)


def test_a_killed_run_leaves_no_server_behind():
    program = "from tests.postgres import start_postgres; print(start_postgres().url(), flush=True); input()"
    run = subprocess.Popen(
        [sys.executable, "-c", program], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with psycopg.connect(run.stdout.readline().strip()) as connection:
        run.kill()
        run.communicate()
        with pytest.raises(psycopg.OperationalError, match=r"terminating|closed"):
            connection.execute("SELECT pg_sleep(20)")
