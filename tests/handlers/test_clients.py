"""Clients are opened once for each thread pool and event loop, and closed by who opened them."""

import asyncio
import os
import sqlite3
from concurrent.futures import ThreadPoolExecutor

import pytest

from onward import InvalidSetting, NewJob
from onward.errors import StoreClosed
from onward.handlers.clients import Clients


@pytest.fixture
def clients(tmp_path):
    clients = Clients(f"sqlite:///{tmp_path}/onward.db")
    yield clients
    clients.close()


def test_all_threads_share_one_client(clients):
    with ThreadPoolExecutor(8) as threads:
        given = list(threads.map(lambda _: clients.sync, range(64)))
    assert len(set(map(id, given))) == 1


def test_a_closed_client_is_replaced_at_its_next_use(clients):
    first = clients.sync
    first.migrate()
    clients.close()
    with pytest.raises(StoreClosed):
        first.jobs.count()
    assert clients.sync.jobs.count().live == {}


def test_a_new_client_is_the_callers_own(clients):
    with clients.open() as one, clients.open() as other:
        assert one.store is not other.store
    assert clients.sync.jobs.count().live == {}


def test_each_event_loop_has_a_client_of_its_own(clients):
    async def use():
        client = clients.current()
        assert client is clients.current()
        await client.jobs.count()
        await clients.aclose()
        with pytest.raises(StoreClosed):
            await client.jobs.count()
        assert clients.current() is not client
        await clients.aclose()
        async with clients.open_async() as own:
            await own.jobs.count()
        return client

    assert asyncio.run(use()) is not asyncio.run(use())
    with pytest.raises(RuntimeError):
        clients.current()


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_forked_child_opens_its_own_client(clients):
    clients.sync.migrate()
    child = os.fork()
    if child == 0:
        try:
            clients.sync.enqueue(NewJob(job_type="from_the_child"))
            clients.close()
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    assert [job.job_type for job in clients.sync.jobs.list().items] == ["from_the_child"]


def test_a_schema_names_the_tables(tmp_path, postgres_url):
    path = tmp_path / "onward.db"
    with Clients(f"sqlite:///{path}", schema="mine").open() as client:
        client.migrate()
        assert client.store.prefix == "mine_"
    with sqlite3.connect(path) as connection:
        names = {
            name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        }
    connection.close()
    assert "mine_live" in names
    with Clients(postgres_url, schema="mine").open() as client:
        assert client.store.prefix == "mine."
    with pytest.raises(InvalidSetting, match="prefix"):
        Clients(f"sqlite:///{path}", schema="no such").open()
