"""Which of the connections that wait is lent."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from onward.stores.postgres.sync.pool import Pooled
from onward.stores.postgres.sync.postgres_store import PostgresStore
from tests.stores.postgres.postgres_schema import clean_schema


class Lending:
    """A pool, of which everything comes back in the end."""

    def __init__(self, store: PostgresStore) -> None:
        self.pool = store.pool
        self.lent: list[Pooled] = []

    def take(self, use: str) -> Pooled:
        self.lent.append(self.pool.take(use))
        return self.lent[-1]

    def give(self, *connections: Pooled) -> None:
        for connection in connections:
            self.lent.remove(connection)
            self.pool.give(connection)


@pytest.fixture
def pool(postgres_url: str) -> Iterator[Lending]:
    with clean_schema(postgres_url) as store:
        lending = Lending(store)
        yield lending
        lending.give(*lending.lent)


def test_the_one_that_had_a_use_before_has_it_again(pool):
    claims, ends = pool.take("claims"), pool.take("ends")
    pool.give(claims, ends)
    assert pool.take("claims") is claims
    assert pool.take("ends") is ends
    pool.give(ends, claims)
    assert pool.take("ends") is ends


def test_without_such_a_one_it_is_the_last_that_came_back_and_no_new_one(pool):
    claims, ends = pool.take("claims"), pool.take("ends")
    pool.give(claims, ends)
    assert pool.take("else") is ends
    assert pool.take("ends") is claims


def test_one_that_had_every_use_does_it_all_alone(pool):
    first, second = pool.take("claims"), pool.take("claims")
    pool.give(first, second)
    for use in ("ends", "claims", "ends", "else", "claims"):
        assert pool.take(use) is second
        pool.give(second)


def test_threads_that_take_at_the_same_moment_do_not_meet(pool):
    def take_and_give(use: str) -> None:
        for _ in range(3000):
            pool.pool.give(pool.pool.take(use))

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(8) as threads:
            list(threads.map(take_and_give, ["claims", "ends", "", "claims", "ends", "", "a", "b"]))
    finally:
        sys.setswitchinterval(interval)
    assert len(set(pool.pool._waiting)) == len(pool.pool._waiting) <= 8
