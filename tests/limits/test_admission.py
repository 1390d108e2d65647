"""Admission by the database: who of those that wait is made ready, when, and by what it is held."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from datetime import timedelta

import psycopg
import pytest

from onward import (
    Client,
    Failed,
    InvalidSetting,
    JobState,
    Limit,
    NewJob,
    Outcome,
    Released,
    Snooze,
    Succeeded,
)
from onward.core.policy.policies import Policies
from onward.core.policy.registry import Registry
from tests.limits.permits import NOW, SECOND, declared, put, started, states, url_of, work_off

LATER = NOW + timedelta(hours=1)


def test_a_limited_job_waits_until_it_is_admitted(client: Client):
    own = declared(client, sync=Limit(2))
    ids = put(own, "sync/acme", 3)
    assert states(own, ids) == ["blocked"] * 3
    assert started(own) == []
    assert own.at(NOW).worker.limits.find().keys == ("sync/acme",)
    assert own.at(NOW).worker.limits.admit(["sync/acme"]).queues == {"q:default": 2}
    assert states(own, ids) == ["queued", "queued", "blocked"]
    assert own.at(NOW).worker.limits.find().keys == (), "no room, nothing to do"
    assert own.at(NOW).worker.limits.admit(["sync/acme"]).queues == {}


def test_keys_have_permits_of_their_own(client: Client):
    own = declared(client, sync=Limit(1))
    for key in ("sync/a", "sync/b", "sync"):
        put(own, key, 2)
    found = own.at(NOW).worker.limits.find()
    assert found.keys == ("sync", "sync/a", "sync/b")
    assert own.at(NOW).worker.limits.admit(found.keys).queues == {"q:default": 3}


def test_an_end_gives_its_permit_on_at_once(client: Client):
    own = declared(client, sync=Limit(2))
    ids = put(own, "sync/acme", 5)
    own.at(NOW).worker.limits.admit(["sync/acme"])
    assert work_off(own) == ids


def test_what_goes_back_gives_its_permit_on_and_waits_again(client: Client):
    own = declared(client, sync=Limit(1))
    first, second = put(own, "sync/acme", 2)
    own.at(NOW).worker.limits.admit(["sync/acme"])
    [job] = started(own)
    own.at(NOW).worker.finish([job.end_with(Failed({"error_class": "E"}))])
    assert states(own, [first, second]) == ["scheduled", "queued"]
    own.at(LATER).worker.promote()
    assert states(own, [first, second]) == ["blocked", "queued"], "it is due, and its permit is taken"
    [other] = started(own, LATER)
    own.at(LATER).worker.finish([other.end_with(Succeeded())])
    assert states(own, [first, second]) == ["queued", "succeeded"]


def test_a_released_job_needs_a_permit_anew(client: Client):
    own = declared(client, sync=Limit(1))
    put(own, "sync/acme", 2)
    own.at(NOW).worker.limits.admit(["sync/acme"])
    [job] = started(own)
    own.at(NOW).worker.finish([job.end_with(Released())])
    assert own.jobs.count().total(JobState.QUEUED) == 1
    assert own.jobs.count().total(JobState.BLOCKED) == 1


def test_permits_of_a_dead_worker_come_back_with_its_leases(client: Client):
    own = declared(client, sync=Limit(2))
    ids = put(own, "sync/acme", 3)
    own.at(NOW).worker.limits.admit(["sync/acme"])
    own.at(NOW).worker.register("dying", lease=SECOND)
    assert len(own.at(NOW).worker.claim("q:default", 5, worker_id="dying")) == 2
    own.at(NOW + 2 * SECOND).worker.rescue()
    assert sorted(states(own, ids)) == ["blocked", "queued", "queued"]
    assert sorted(work_off(own, LATER)) == sorted(ids)


def test_cancelling_a_job_that_holds_a_permit_gives_it_on(client: Client):
    own = declared(client, sync=Limit(1))
    ids = put(own, "sync/acme", 3)
    own.at(NOW).worker.limits.admit(["sync/acme"])
    own.at(NOW).jobs.cancel(ids[0], reason="no more")
    assert states(own, ids) == ["cancelled", "queued", "blocked"]
    own.at(NOW).jobs.cancel(ids[2], reason="no more")
    assert states(own, ids) == ["cancelled", "queued", "cancelled"]


def test_a_replayed_job_needs_a_permit(client: Client):
    own = declared(client, sync=Limit(1))
    first, second = put(own, "sync/acme", 2, max_attempts=1)
    own.at(NOW).worker.limits.admit(["sync/acme"])
    [job] = started(own)
    own.at(NOW).worker.finish([job.end_with(Failed({"error_class": "E"}))])
    assert states(own, [first, second]) == ["dead", "queued"]
    own.at(NOW).dead.replay([first], reason="again")
    assert states(own, [first, second]) == ["blocked", "queued"]


def test_a_reset_job_needs_a_permit(client: Client):
    own = declared(client, sync=Limit(1))
    new = NewJob(job_type="t", key="k", limit_key="sync/acme", on_conflict="reset")
    again = own.at(NOW).enqueue(new)
    own.at(NOW).worker.limits.admit(["sync/acme"])
    [job] = started(own)
    own.at(NOW).worker.finish([job.end_with(Succeeded())])
    put(own, "sync/acme")
    own.at(NOW).worker.limits.admit(["sync/acme"])
    assert own.at(NOW).enqueue(new).change == "reset"
    assert states(own, [again.id]) == ["blocked"]


def test_a_running_job_that_was_reset_runs_again_within_the_limit(client: Client):
    own = declared(client, sync=Limit(1))
    new = NewJob(job_type="t", key="k", limit_key="sync/acme", on_conflict="reset")
    again = own.at(NOW).enqueue(new)
    own.at(NOW).worker.limits.admit(["sync/acme"])
    [job] = started(own)
    [other] = put(own, "sync/acme", priority=1)
    assert own.at(NOW).enqueue(new).change == "rerun_requested"
    own.at(NOW).worker.finish([job.end_with(Succeeded())])
    own.at(NOW).worker.limits.admit(["sync/acme"])
    assert sorted(states(own, [again.id, other])) == ["blocked", "queued"]


def test_a_scheduled_job_takes_no_permit_before_its_time(client: Client):
    own = declared(client, sync=Limit(1))
    [due_later] = put(own, "sync/acme", delay=timedelta(minutes=1))
    [now] = put(own, "sync/acme")
    own.at(NOW).worker.limits.admit(["sync/acme"])
    assert states(own, [due_later, now]) == ["scheduled", "queued"]


def test_the_most_urgent_is_admitted_first(client: Client):
    own = declared(client, sync=Limit(1))
    late = put(own, "sync/acme", 2, priority=9)
    [urgent] = put(own, "sync/acme", priority=1)
    own.at(NOW).worker.limits.admit(["sync/acme"])
    assert work_off(own) == [urgent, *late]


def test_a_lowered_limit_admits_nothing_until_enough_have_ended(client: Client):
    own = declared(client, sync=Limit(3))
    put(own, "sync/acme", 5)
    own.at(NOW).worker.limits.admit(["sync/acme"])
    jobs = started(own)
    own.limits.set("sync", concurrency=1, reason="too much")
    own.at(NOW).worker.finish([job.end_with(Succeeded()) for job in jobs[:2]])
    assert started(own) == []
    own.at(NOW).worker.finish([jobs[2].end_with(Succeeded())])
    assert len(started(own)) == 1


def test_a_rate_admits_one_after_the_other_however_long_nobody_asked(client: Client):
    own = declared(client, mail=Limit(rate="1/s", burst=2))
    put(own, "mail", 9)
    admitted = own.at(NOW).worker.limits.admit(["mail"])
    assert admitted.queues == {"q:default": 2}
    assert len(started(own)) == 2
    assert own.at(NOW).worker.limits.admit(["mail"]).queues == {}
    assert own.at(NOW).worker.limits.find().again == NOW + SECOND
    assert own.at(NOW + SECOND).worker.limits.admit(["mail"]).queues == {"q:default": 1}
    assert own.at(LATER).worker.limits.admit(["mail"]).queues == {"q:default": 1}, (
        "one is ready and not started"
    )
    assert len(started(own, LATER)) == 2


def test_what_owes_nothing_is_forgotten(client: Client):
    own = declared(client, mail=Limit(rate="1/s"))
    put(own, "mail/a")
    own.at(NOW).worker.limits.admit(["mail/a"])
    assert own.at(NOW).worker.limits.forget() == 0
    assert own.at(LATER).worker.limits.forget() == 1


def test_a_limit_that_nobody_declared_holds_its_jobs(client: Client):
    own = declared(client)
    ids = put(own, "unheard/x")
    assert own.at(NOW).worker.limits.find().keys == ()
    assert own.at(NOW).worker.limits.admit(["unheard/x"]).queues == {}
    assert states(own, ids) == ["blocked"]


def test_keys_are_looked_at_part_by_part(client: Client):
    own = declared(client, sync=Limit(1))
    for at in range(5):
        put(own, f"sync/{at}")
    found = own.at(NOW).worker.limits.find(limit=2)
    assert (found.keys, found.cursor) == (("sync/0", "sync/1"), "sync/1")
    found = own.at(NOW).worker.limits.find("sync/3", limit=2)
    assert (found.keys, found.cursor) == (("sync/4",), None)


def test_an_ordered_key_starts_its_jobs_in_the_order_of_their_time(client: Client):
    own = declared(client, line=Limit(ordered=True))
    late = put(own, "line/a", 2, priority=9)
    ids = [*late, *(own.at(NOW + SECOND).enqueue(_new(priority=1)).id for _ in range(2))]
    own.at(NOW + SECOND).worker.limits.admit(["line/a"])
    assert work_off(own, NOW + SECOND) == ids


def test_an_ordered_key_knows_every_priority(client: Client):  # R3
    own = declared(client, line=Limit(ordered=True))
    levels = (1000, 11, -7, -1000, 5)
    ids = [own.at(NOW + n * SECOND).enqueue(_new(priority=level)).id for n, level in enumerate(levels)]
    now = NOW + len(levels) * SECOND
    own.at(now).worker.limits.admit(["line/a"])
    assert work_off(own, now) == ids


@pytest.mark.parametrize("outcome", [Failed({"error_class": "E"}), Snooze("1h"), Released(), Released("1h")])
def test_who_has_begun_holds_the_line_until_it_has_ended(client: Client, outcome: Outcome):
    own = declared(client, line=Limit(ordered=True))
    ids = put(own, "line/a", 3)
    own.at(NOW).worker.limits.admit(["line/a"])
    [job] = started(own)
    own.at(NOW).worker.finish([job.end_with(outcome)])
    assert [job.id for job in started(own)] in ([], [ids[0]]), "nobody overtakes"
    own.at(NOW).worker.rescue_worker("w")
    own.at(NOW).worker.register("again", lease=timedelta(days=1))
    own.at(LATER).worker.promote()
    own.at(LATER).worker.limits.admit(["line/a"])
    assert work_off(own, LATER, worker_id="again") == ids


def test_of_an_ordered_limit_of_two_the_third_waits_for_one_of_the_first(client: Client):
    own = declared(client, line=Limit(2, ordered=True))
    ids = put(own, "line/a", 4)
    own.at(NOW).worker.limits.admit(["line/a"])
    first, second = started(own)
    own.at(NOW).worker.finish([second.end_with(Failed({"error_class": "E"}))])
    assert started(own) == [], "the permit is kept for the one that runs again"
    own.at(NOW).worker.finish([first.end_with(Succeeded())])
    assert [job.id for job in started(own)] == [ids[2]]


def _new(**about: int) -> NewJob:
    return NewJob(job_type="t", limit_key="line/a", **about)  # type: ignore[arg-type]


@pytest.mark.parametrize("client", ["postgres"], indirect=True)
def test_in_a_line_nobody_overtakes_who_is_held_by_an_open_transaction(client: Client):
    own = declared(client, line=Limit(ordered=True), free=Limit(1))
    for key in ("line/a", "free/a"):
        put(own, key, 2)
    with psycopg.connect(url_of(client)) as tx:
        tx.execute(
            f"SELECT 1 FROM {client.store.prefix}live WHERE id IN (SELECT min(id::text)::uuid FROM "
            f"{client.store.prefix}live GROUP BY limit_key) FOR UPDATE".encode()
        )
        assert own.at(NOW).worker.limits.admit(["line/a"]).queues == {}
        assert own.at(NOW).worker.limits.admit(["free/a"]).queues == {"q:default": 1}
    assert own.at(NOW).worker.limits.admit(["line/a"]).queues == {"q:default": 1}


def test_declaring_again_changes_what_holds_and_leaves_what_an_operator_set(client: Client):
    own = declared(client, sync=Limit(1))
    own.at(NOW).acting_as("user:1").limits.set("sync", concurrency=7, reason="r")
    declared_again = Client(
        store=client.store, policies=Policies(registry=Registry(limits={"sync": Limit(3, rate="9/s")}))
    )
    declared_again.worker.limits.declare()
    seen = own.limits.get("sync")
    assert (seen.terms.concurrency, seen.terms.rate) == (7, "9/s")
    assert (seen.reason, seen.actor_type, seen.actor_id, seen.set_at) == ("r", "user", "1", NOW)
    assert own.limits.reset("sync", reason="over")
    assert not own.limits.reset("sync", reason="over")
    assert own.limits.get("sync").terms.concurrency == 3
    assert sorted(record.event for record in own.audit.export() if record.event.startswith("limit.")) == [
        "limit.reset",
        "limit.set",
    ]


def test_a_listing_counts_who_holds_and_who_waits(client: Client):
    own = declared(client, a=Limit(1), **{"a-b": Limit(5)})
    put(own, "a/x", 3)
    put(own, "a/y", 1)
    put(own, "a-b/z", 1)
    own.at(NOW).worker.limits.admit(["a/x"])
    first, second = own.limits.list()
    assert (first.name, first.active, first.waiting) == ("a", 1, 3)
    assert [(key.value, key.active, key.waiting) for key in first.keys] == [("x", 1, 2), ("y", 0, 1)]
    assert (second.name, second.active, second.waiting) == ("a-b", 0, 1)


@pytest.mark.parametrize(
    ("terms", "said"),
    [
        ({}, "nothing is set"),
        ({"concurrency": 0}, "concurrency is 0"),
        ({"burst": 3}, "has no rate for it to bound; give rate= too"),
    ],
)
def test_what_an_operator_can_not_mean_is_refused(client: Client, terms: dict[str, int], said: str):
    own = declared(client, sync=Limit(1))
    with pytest.raises(InvalidSetting, match=said):
        own.limits.set("sync", reason="r", **terms)
    with pytest.raises(InvalidSetting, match="no worker has declared a limit 'absent'"):
        own.limits.set("absent", concurrency=1, reason="r")


def test_an_enqueue_in_an_open_transaction_holds_up_nobody(client: Client):
    own = declared(client, sync=Limit(1))
    put(own, "sync/acme")
    if client.store.database == "sqlite":
        with closing(sqlite3.connect(url_of(client))) as tx:
            tx.execute("BEGIN IMMEDIATE")
            own.within(tx).enqueue(NewJob(job_type="t", limit_key="sync/acme"))
            tx.commit()
    else:
        with psycopg.connect(url_of(client)) as tx:
            own.within(tx).enqueue(NewJob(job_type="t", limit_key="sync/acme"))
            assert own.at(NOW).worker.limits.admit(["sync/acme"]).queues == {"q:default": 1}
    assert own.jobs.count().total(JobState.BLOCKED) >= 1
