"""Random histories of keys, by several sessions, against a model: the database agrees at every step."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from onward import Cancelled, Client, Failed, JobState, NewJob, Outcome, Released, Snooze, Succeeded
from onward.core.page import make_cursor
from onward.results import Job
from onward.stores import Store
from onward.stores.postgres.sync.postgres_store import PostgresStore
from onward.stores.sqlite.sqlite_store import SqliteStore
from tests.extent import FULL
from tests.jobs.keys.key_model import RETRY, Model, ModelJob
from tests.jobs.keys.test_held_keys import open_transaction

START = datetime(2026, 3, 1, tzinfo=UTC)
KEYS = ("a", "b", "c")
LIFETIMES: dict[Any, timedelta | None] = {
    "active": timedelta(), timedelta(seconds=20): timedelta(seconds=20), "forever": None,
}  # fmt: skip
OUTCOMES: dict[str, Outcome] = {
    "succeeded": Succeeded({"done": True}),
    "failed": Failed("boom", after=RETRY),
    "dead": Failed("boom", retryable=False),
    "snoozed": Snooze(RETRY),
    "released": Released(),
    "gave way": Cancelled("enough"),
}
STEPS, HISTORIES = 100, 100 if FULL else 15

modes = st.sampled_from(["return", "replace", "reset", "coalesce"])
froms = st.none() | st.frozensets(st.sampled_from([str(state) for state in JobState]), min_size=1, max_size=3)
enqueues = st.tuples(
    st.just("enqueue"),
    st.sampled_from(["one", "other", "transaction", "rolled back", "many"]),
    st.sampled_from(KEYS),
    st.sampled_from(list(LIFETIMES)),
    modes,
    froms,
    st.sampled_from([0, 3]),
    st.sampled_from([1, 3]),
)
places = st.integers(0, 5)
steps = st.one_of(
    enqueues,
    enqueues,
    st.tuples(st.just("claim"), st.integers(1, 3)),
    st.tuples(st.just("finish"), places, st.sampled_from(list(OUTCOMES))),
    st.tuples(st.just("finish"), places, st.sampled_from(list(OUTCOMES))),
    st.tuples(st.just("finish late"), places),
    st.tuples(st.just("cancel"), places),
    st.tuples(st.just("wait"), st.sampled_from([1, 5, 25])),
    st.tuples(st.just("forget"), st.sampled_from(KEYS)),
    st.tuples(st.just("prune")),
)


def add(old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    return {"n": old["n"] + new["n"]}


class History:
    """One history in an org and a queue of its own, done to the database and to the model."""

    def __init__(self, clients: dict[str, Client], tx: Any) -> None:
        self.clients = clients
        self.client = clients["one"]
        self.tx = tx
        self.name = uuid.uuid4().hex
        self.model = Model(START)
        self.ids: dict[int, str] = {}
        self.running: list[tuple[Job, ModelJob]] = []
        self.late: list[tuple[Job, ModelJob]] = []
        self.number = self.done = 0
        self.client.at(START).worker.register(self.name, lease=timedelta(days=300))

    def do(self, step: tuple[Any, ...]) -> None:
        kind, *details = step
        getattr(self, kind.replace(" ", "_"))(*details)
        self.done += 1
        # Each answer is compared at once; to read everything takes longer than to do something.
        if self.done % 5 == 0:
            self.compare()

    def enqueue(self, session: str, key: str, unique: Any, mode: Any, *rest: Any) -> None:
        reset_from, delay, attempts = rest
        self.number += 1
        reset_from = reset_from if mode == "reset" else None
        new = NewJob(
            job_type="t", key=key, payload={"n": self.number}, unique=unique, on_conflict=mode,
            queue=self.name, org_id=self.name, max_attempts=attempts,
            delay=timedelta(seconds=delay), merge=add, reset_from=reset_from,
        )  # fmt: skip
        now = self.model.now
        if session == "rolled back":
            self.clients["transaction"].at(now).enqueue(new)
            self.tx.rollback()
            return
        if session == "many":
            [answer] = self.clients["other"].at(now).enqueue_many([new])
        else:
            answer = self.clients[session].at(now).enqueue(new)
            if session == "transaction":
                self.tx.commit()
        job, created, change = self.model.enqueue(
            key, self.number, lifetime=LIFETIMES[unique], mode=mode, reset_from=reset_from,
            delay=timedelta(seconds=delay), max_attempts=attempts,
        )  # fmt: skip
        self.ids.setdefault(id(job), answer.id)
        found = (answer.id, answer.created, answer.change, answer.state)
        assert found == (self.ids[id(job)], created, change, job.state)

    def claim(self, limit: int) -> None:
        self.client.at(self.model.now).worker.promote()
        self.model.promote()
        claimed = self.client.at(self.model.now).worker.claim(self.name, limit, worker_id=self.name)
        expected = self.model.claim(limit)
        assert {job.id for job in claimed} == {self.ids[id(job)] for job in expected}
        by_id = {self.ids[id(job)]: job for job in expected}
        self.running += [(job, by_id[job.id]) for job in claimed]

    def finish(self, place: int, outcome: str) -> None:
        if self.running:
            job, model = self.running.pop(place % len(self.running))
            assert self.clients["other"].at(self.model.now).worker.finish(
                [job.end_with(OUTCOMES[outcome])]
            ).held == {job.id}
            model.end(outcome, self.model.now)
            self.late.append((job, model))

    def finish_late(self, place: int) -> None:
        if self.late:
            job, _ = self.late[place % len(self.late)]
            assert self.client.at(self.model.now).worker.finish([job.end_with(Succeeded("late"))]).lost == {
                job.id
            }

    def cancel(self, place: int) -> None:
        if self.model.jobs:
            job = self.model.jobs[place % len(self.model.jobs)]
            self.client.at(self.model.now).jobs.cancel(self.ids[id(job)], reason="no")
            self.model.cancel(job)

    def wait(self, seconds: int) -> None:
        self.model.now += timedelta(seconds=seconds)

    def forget(self, key: str) -> None:
        held = self.model.keys.pop(key, None)
        forgotten = self.client.at(self.model.now).for_org(self.name).keys.forget(key, reason="asked to")
        assert forgotten.changed is (held is not None)

    def prune(self) -> None:
        cursor = make_cursor("keys.prune", self.name, "", "")
        self.client.at(self.model.now).keys.prune(1000, cursor=cursor)
        self.model.prune()

    def compare(self) -> None:
        """See that every job and every key is what the model says."""
        stored = self.client.jobs.get_many(list(self.ids.values()))
        for job in self.model.jobs:
            found = stored[self.ids[id(job)]]
            wanted = (job.state, job.payload, job.attempt, job.cancel_requested, job.rerun is not None)
            now = found.cancel_requested_at is not None
            assert (found.state, found.payload["n"], found.attempt, now, found.rerun_requested) == wanted
            if job.state in {"scheduled", "queued"}:
                assert found.run_at == job.run_at
        ledger = {key.key: key for key in self.client.for_org(self.name).keys.list()}
        assert ledger.keys() == self.model.keys.keys()
        for key, held in self.model.keys.items():
            line = ledger[key]
            assert (line.job_id, line.status) == (self.ids[id(held.job)], self.model.status(key))
            assert (line.first_seen_at, line.expires_at) == (held.first_seen, held.expires)


@pytest.fixture
def sessions(client: Client) -> Iterator[tuple[dict[str, Client], Any]]:
    """Two clients of one database, and one within a caller's transactions."""
    client.jobs.count()
    with ExitStack() as stack:
        tx = stack.enter_context(open_transaction(client))
        other = stack.enter_context(Client(store=another_store(client)))
        yield {"one": client, "other": other, "transaction": client.within(tx)}, tx


def another_store(client: Client) -> Store:
    match client.store:
        case SqliteStore() as store:
            return SqliteStore(store.file.path)
        case PostgresStore() as store:
            return PostgresStore(store.url, schema=store.prefix.rstrip("."))
    raise AssertionError


def test_random_histories_agree_with_the_model(sessions):
    # R9, R10, R22, S4-24, S4-29, S4-30, F47
    clients, tx = sessions
    taken = 0

    @settings(
        max_examples=HISTORIES, deadline=None, database=None, derandomize=False,
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(st.lists(steps, min_size=STEPS, max_size=STEPS))
    def history(chosen: list[tuple[Any, ...]]) -> None:
        nonlocal taken
        made = History(clients, tx)
        for step in chosen:
            made.do(step)
            taken += 1

    history()
    assert taken >= STEPS * HISTORIES
