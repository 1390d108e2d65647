"""Dead letters among others: two who resolve one death, a reset, a late worker, and who holds the key."""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from onward import Client, Edit, JobState, NewJob, Succeeded
from onward.errors import StoreBusy
from onward.results import Bulk
from tests.jobs.inspect.reading import rows
from tests.jobs.keys.test_held_keys import open_transaction
from tests.work.leases.dying_processes import (
    DEAD,
    LATER,
    RESOLVE,
    T,
    claim,
    die,
    events,
    fixes,
    replay,
    waiting,
)


def wait_for_lock(client: Client) -> None:
    """Wait until a session waits for a lock; on SQLite all wait for the file, unseen."""
    if client.store.database == "sqlite":
        return
    query = "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
    deadline = time.monotonic() + 20
    while not rows(client, query):
        assert time.monotonic() < deadline


def test_of_sessions_that_resolve_the_same_death_at_once_exactly_one_wins(client):
    # R8
    ids = [die(client, key=f"k{n}").id for n in range(10)]
    ways = list(RESOLVE.values()) * 2
    start = threading.Barrier(len(ways))

    def session(way: Callable[[Client, str], bool]) -> list[bool]:
        start.wait()
        return [way(client, job_id) for job_id in ids]

    with ThreadPoolExecutor(len(ways)) as pool:
        won = list(pool.map(session, ways))
    assert [sum(wins) for wins in zip(*won, strict=True)] == [1] * len(ids)
    assert len(rows(client, "SELECT * FROM {prefix}dead_letters")) == len(ids)
    resolved = [event for job_id in ids for event in events(client, job_id)[4:]]
    assert len(resolved) == len(ids)
    # One that was fixed is there twice, itself and its successor; no other is.
    live, ended = (len(rows(client, f"SELECT * FROM {{prefix}}{name}")) for name in ("live", "ended"))
    assert live + ended == len(ids) + resolved.count("job.fixed")


@pytest.mark.parametrize("way", RESOLVE)
@pytest.mark.parametrize("other", RESOLVE)
def test_whoever_waits_for_another_session_finds_the_death_resolved(client, way, other):
    job_id = die(client, key="k").id
    with open_transaction(client) as tx, ThreadPoolExecutor() as pool:
        assert RESOLVE[other](client.within(tx), job_id)
        later = pool.submit(RESOLVE[way], client, job_id)
        wait_for_lock(client)
        tx.commit()
        assert not later.result(30)
    assert len(rows(client, "SELECT * FROM {prefix}dead_letters")) == 1


@pytest.mark.parametrize("way", RESOLVE)
def test_what_is_rolled_back_was_not_resolved(client, way):
    job_id = die(client, key="k").id
    before = client.jobs.get(job_id)
    with open_transaction(client) as tx:
        assert RESOLVE[way](client.within(tx), job_id)
        tx.rollback()
    assert client.jobs.get(job_id) == before
    assert waiting(client) == [job_id]
    assert RESOLVE[way](client, job_id)


@pytest.mark.parametrize("way", RESOLVE)
def test_a_reset_and_a_resolution_at_once_make_one_run(client, way):
    # R10: the reset has taken the job, or finds what the other left.
    new = NewJob(job_type="mail", key="k", on_conflict="reset")
    job_id = die(client, key="k", unique="forever").id
    with open_transaction(client) as tx, ThreadPoolExecutor() as pool:
        assert client.within(tx).at(LATER).enqueue(new).change == "reset"
        later = pool.submit(RESOLVE[way], client, job_id)
        wait_for_lock(client)
        tx.commit()
        assert not later.result(30)
    assert rows(client, "SELECT * FROM {prefix}dead_letters") == []
    assert client.jobs.count().total(JobState.QUEUED) == 1


@pytest.mark.parametrize(("way", "left"), [("replay", 0), ("discard", 0), ("fix", 1)])
def test_a_reset_that_waits_for_a_resolution_starts_what_that_left(client, way, left):
    new = NewJob(job_type="mail", key="k", on_conflict="reset")
    job_id = die(client, key="k", unique="forever").id
    with open_transaction(client) as tx, ThreadPoolExecutor() as pool:
        assert RESOLVE[way](client.within(tx), job_id)
        later = pool.submit(client.at(LATER).enqueue, new)
        wait_for_lock(client)
        tx.commit()
        assert later.result(30).change == "reset"
    assert client.jobs.count().total(JobState.QUEUED) == 1
    assert client.jobs.count().total(JobState.DEAD) == left
    assert len(client.dead.history(job_id)) == 1


def test_a_job_that_was_reset_by_its_key_is_no_dead_letter_any_more(client):
    # R9
    died = die(client, key="k", unique="forever")
    client.at(LATER).enqueue(NewJob(job_type="mail", key="k", on_conflict="reset"))
    assert waiting(client, resolved="any") == []
    assert client.dead.history(died.id).items == []
    assert events(client, died.id)[-1] == "job.reset"
    assert replay(client, died.id).refused == {died.id: "it is queued, not dead"}


@pytest.mark.parametrize("way", RESOLVE)
def test_a_zombie_that_finishes_after_the_death_was_resolved_is_refused(client, way):
    # F05
    died = die(client)
    RESOLVE[way](client, died.id)
    before = client.jobs.get(died.id)
    assert client.at(LATER).worker.finish([died.end_with(Succeeded("late"))]).lost == {died.id}
    assert client.jobs.get(died.id) == before
    assert events(client, died.id)[-1] == "job.stale_result_rejected"


def test_the_successor_takes_the_key_over_that_the_dead_job_holds(client):
    # R8, R9
    died = die(client, key="k", unique="forever")
    successor = client.at(LATER).dead.fix(died.id, Edit(patch={"to": "bob"}), reason="n").successor_id
    assert client.at(LATER).enqueue(NewJob(job_type="mail", key="k")).id == successor
    key = client.keys.get("k")
    assert key is not None
    assert (key.job_id, key.status, key.expires_at) == (successor, "pending", None)
    assert client.jobs.get(successor).key == "k"


def test_a_successor_does_not_take_a_key_that_another_job_has(client):
    died = die(client, key="k", unique="active")
    other = client.at(LATER).enqueue(NewJob(job_type="mail", key="k"))
    assert other.created
    successor = client.at(LATER).dead.fix(died.id, Edit(patch={"to": "bob"}), reason="n").successor_id
    assert client.jobs.get(successor).key is None
    assert client.at(LATER).enqueue(NewJob(job_type="mail", key="k")).id == other.id


def test_a_replayed_job_has_its_key_again_also_when_the_key_has_lapsed_or_gone(client):
    # R9
    died, other = (die(client, key=key, unique="active") for key in ("k", "l"))
    client.at(LATER).keys.prune()
    assert client.keys.list().items == []
    replay(client, died.id)
    assert client.at(LATER).enqueue(NewJob(job_type="mail", key="k")).id == died.id
    newer = die(client, key="l", unique="active", priority=1, now=LATER)
    assert replay(client, other.id).done == 1, "nobody alive has its key"
    assert client.at(LATER).enqueue(NewJob(job_type="mail", key="l")).id == other.id
    assert replay(client, newer.id).refused == {newer.id: f"job {other.id} has its key now"}


def test_a_job_whose_key_another_one_has_is_not_replayed(client):
    # R9: there are never two active jobs of one key.
    died = die(client, key="k", unique="active")
    holder = client.at(LATER).enqueue(NewJob(job_type="mail", key="k", unique="active"))
    assert replay(client, died.id) == Bulk(found=1, refused={died.id: f"job {holder.id} has its key now"})
    assert waiting(client) == [died.id]
    client.at(LATER).worker.finish([claim(client, LATER).end_with(Succeeded())]).require()
    assert replay(client, died.id).done == 1


def test_of_several_dead_jobs_with_one_key_the_newest_is_replayed(client):
    ids = [die(client, key="k", unique="active").id for _ in range(3)]
    answer = replay(client, *ids)
    assert (answer.done, set(answer.refused)) == (1, set(ids[:2]))
    assert client.jobs.get(ids[2]).state == JobState.QUEUED
    assert client.jobs.count().total(JobState.QUEUED) == 1


def test_no_key_is_held_by_two_live_jobs_whatever_is_resolved_meanwhile(client):
    # R9, I6
    keys, busy = [f"k{n}" for n in range(5)], Counter[str]()

    def turn(dice: random.Random) -> None:
        match dice.choice(["enqueue", "work", "resolve"]):
            case "enqueue":
                client.enqueue(NewJob(job_type="t", key=dice.choice(keys), unique="active"))
            case "work":
                taken = client.at(T).worker.claim("q:default", 2, worker_id="w")
                client.worker.finish([job.end_with(dice.choice([DEAD, DEAD, Succeeded()])) for job in taken])
            case "resolve":
                found = waiting(client)[:20]
                if found and dice.random() < 0.5:
                    client.dead.replay(dice.sample(found, min(3, len(found))), reason="again")
                elif found:
                    fixes(client, dice.choice(found), to=str(dice.random()))

    def session(seed: int) -> None:
        dice = random.Random(seed)
        for _ in range(40):
            try:
                turn(dice)
            except StoreBusy:
                busy["times"] += 1
            held = [key for (key,) in rows(client, "SELECT key FROM {prefix}live WHERE key IS NOT NULL")]
            assert len(held) == len(set(held))

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(session, range(6)))
    assert busy["times"] < 20
    kinds = {kind for (kind,) in rows(client, "SELECT DISTINCT resolution FROM {prefix}dead_letters")}
    assert kinds == {"replayed", "fixed"}
