"""Followers in a caller's transaction, and while their parents end: nobody waits, nothing is forgotten."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest

from onward import Client, JobNotFound, Succeeded
from onward.core.flows.flow import group
from tests.flows.conftest import WORKER, die, new, ready, run, state
from tests.jobs.keys.test_held_keys import open_transaction
from tests.stores.postgres.postgres_schema import clean_schema


def test_a_flow_is_stored_with_the_callers_transaction_or_not_at_all(working: Client) -> None:
    with open_transaction(working) as tx:
        gone = working.within(tx).enqueue_flow(new("a").then(new("b")))
        tx.rollback()
        kept = working.within(tx).enqueue_flow(new("c").then(new("d")))
        tx.commit()
    with pytest.raises(JobNotFound):
        working.jobs.get(gone[0].id)
    assert [run(working), run(working)] == [["c"], ["d"]]
    assert state(working, kept[1].id) == "succeeded"


def test_what_one_transaction_stores_bit_by_bit_is_tied_in_it(working: Client) -> None:
    with open_transaction(working) as tx:
        bound = working.within(tx)
        first = bound.enqueue(new("a"))
        bound.enqueue(new("b", after=(first.id,)))
        tx.commit()
    # Without any loop: the parent knew of its follower when it could first be claimed.
    assert [run(working), run(working)] == [["a"], ["b"]]


@pytest.fixture
def postgres(postgres_url: str) -> Iterator[Client]:
    """A client on PostgreSQL: SQLite has one writer at a time, so nobody meets the lock of a row there."""
    with clean_schema(postgres_url) as store:
        client = Client(store=store)
        client.worker.register(WORKER, lease=timedelta(days=1))
        yield client


@pytest.mark.parametrize("outcome", ["succeeded", "dead"])
def test_an_open_transaction_that_waits_for_a_running_job_holds_nobody_up(postgres: Client, outcome) -> None:
    client = postgres
    parent = client.enqueue(new("a"))
    [job] = ready(client)
    with open_transaction(client) as tx, ThreadPoolExecutor(1) as pool:
        child = client.within(tx).enqueue(new("b", after=(parent.id,)))
        # The worker finishes while the caller's transaction is still open.
        leases = pool.submit(
            client.worker.finish, [job.end_with(Succeeded() if outcome == "succeeded" else die())]
        )
        assert leases.result(10).held == {parent.id}
        tx.commit()
    assert state(client, child.id) == "blocked"
    assert client.worker.follow_up() == 1
    assert state(client, child.id) == ("queued" if outcome == "succeeded" else "cancelled")


def test_a_parent_that_somebody_has_locked_is_followed_later(postgres: Client) -> None:
    client = postgres
    parent = client.enqueue(new("a"))
    with open_transaction(client) as tx:
        client.within(tx).jobs.cancel(parent.id, reason="perhaps")
        child = client.enqueue(new("b", after=(parent.id,)))
        # It can't be tied yet, and nobody waits for that.
        assert (child.state, client.worker.follow_up()) == ("blocked", 0)
        tx.rollback()
    client.worker.follow_up()
    assert [run(client), run(client)] == [["a"], ["b"]]


@pytest.mark.parametrize("outcome", ["succeeded", "dead"])
def test_a_follower_that_a_caller_holds_keeps_no_end_waiting(postgres: Client, outcome) -> None:
    client = postgres
    parent = client.enqueue(new("a"))
    held, free = (client.enqueue(new("b", after=(parent.id,))) for _ in range(2))
    [job] = ready(client)
    after = "queued" if outcome == "succeeded" else "cancelled"
    with open_transaction(client) as tx, ThreadPoolExecutor(1) as pool:
        client.within(tx).jobs.cancel(held.id, reason="perhaps")
        leases = pool.submit(
            client.worker.finish, [job.end_with(Succeeded() if outcome == "succeeded" else die())]
        )
        assert leases.result(10).held == {parent.id}
        assert (state(client, held.id), state(client, free.id)) == ("blocked", after)
        assert client.worker.follow_up(patience=timedelta(microseconds=1)) == 0, (
            "a worker's loop need not ask again at once"
        )
        tx.rollback()
    assert client.worker.follow_up() == 1
    assert (state(client, held.id), client.worker.follow_up()) == (after, 0)


def test_followers_that_are_stored_while_their_parents_end_are_all_released(working: Client) -> None:
    # Some are stored in time, some find the end, some meet it half done.
    done = threading.Event()
    children: list[str] = []

    def work() -> None:
        while not done.is_set():
            run(working)

    def store(seed: int) -> None:
        dice = random.Random(seed)
        for at in range(12):
            parents = [one.id for one in working.enqueue_many([new(f"p{seed}.{at}") for _ in range(3)])]
            child = new("c", after=tuple(dice.sample(parents, 2)))
            if dice.random() < 0.5:
                children.append(working.enqueue(child).id)
                continue
            with open_transaction(working) as tx:
                children.append(working.within(tx).enqueue(child).id)
                tx.commit()

    with ThreadPoolExecutor(4) as pool:
        worker = pool.submit(work)
        for one in [pool.submit(store, seed) for seed in range(3)]:
            one.result(60)
        done.set()
        worker.result(60)
    while run(working) or working.worker.follow_up():
        pass
    states = {str(job.state) for job in working.jobs.get_many(children).values()}
    assert (len(children), states) == (36, {"succeeded"})


def test_two_parents_that_end_at_once_release_their_followers_once(working: Client) -> None:
    count = 30
    working.enqueue_flow(group(*[new(f"p{at}") for at in range(4)]).then(*[new("c") for _ in range(count)]))
    parents = ready(working)
    with ThreadPoolExecutor(4) as pool:
        for one in [pool.submit(working.worker.finish, [job.end_with(Succeeded())]) for job in parents]:
            one.result(60)
    while working.worker.follow_up():
        pass
    assert len(ready(working)) == count
