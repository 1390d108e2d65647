"""The ledger of keys: what became of each, how long it holds, and how it is freed."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from onward import Client, Failed, InvalidJob, NewJob, Succeeded
from onward.results import Changed, Job
from tests.jobs.keys.test_held_keys import open_transaction

T = datetime(2026, 3, 1, tzinfo=UTC)
DAY = timedelta(days=1)


def at(seconds: float) -> datetime:
    return T + timedelta(seconds=seconds)


def ask(client: Client, key: str = "k", *, now: float = 0, **options: Any):
    return client.at(at(now)).enqueue(NewJob(job_type="t", key=key, **options))


def take(client: Client, now: float) -> Job:
    client.at(at(now)).worker.promote()
    [job] = client.at(at(now)).worker.claim("q:default", 5, worker_id="w")
    return job


def test_the_record_of_a_key_follows_its_job(client):
    # S4-29: pending, running, failed (it will run again), then succeeded, with where to find the result.
    client.at(T).worker.register("w", lease=DAY)
    assert client.keys.get("k") is None
    job_id = ask(client).id
    seen = [client.keys.get("k")]
    job = take(client, 1)
    seen.append(client.keys.get("k"))
    client.at(at(2)).worker.finish([job.end_with(Failed("boom", after=10))])
    seen.append(client.keys.get("k"))
    client.at(at(21)).worker.finish([take(client, 20).end_with(Succeeded({"sent": True}))])
    seen.append(client.keys.get("k"))
    assert [key.status for key in seen] == ["pending", "running", "failed", "succeeded"]
    assert [key.result_ref for key in seen] == [None, None, None, f"job:{job_id}"]
    assert [key.error_ref for key in seen] == [None, None, f"job:{job_id}", None]
    assert {(key.job_id, key.first_seen_at, key.expires_at) for key in seen} == {(job_id, T, T + 7 * DAY)}


@pytest.mark.parametrize("state", ["dead", "cancelled"])
def test_a_job_that_came_to_nothing_leaves_its_error_to_be_found(client, state):
    # S4-29
    client.at(T).worker.register("w", lease=DAY)
    job_id = ask(client).id
    if state == "dead":
        client.at(at(2)).worker.finish([take(client, 1).end_with(Failed("boom", retryable=False))])
    else:
        client.at(at(1)).jobs.cancel(job_id, reason="no")
    key = client.keys.get("k")
    assert (key.status, key.error_ref) == ("dead" if state == "dead" else "failed", f"job:{job_id}")


def test_a_duplicate_is_noted_and_gets_the_result_of_the_job_that_has_ended(client):
    # S4-24, S4-29
    client.at(T).worker.register("w", lease=DAY)
    first = ask(client)
    client.at(at(2)).worker.finish([take(client, 1).end_with(Succeeded({"sent": True}))])
    second = ask(client, now=60)
    assert (second.id, second.created, second.state) == (first.id, False, "succeeded")
    assert client.jobs.get(second.id).result == {"sent": True}
    key = client.keys.get("k")
    assert (key.first_seen_at, key.last_seen_at) == (at(0), at(60))
    client.at(at(90)).enqueue_many([NewJob(job_type="t", key="k"), NewJob(job_type="t", key="other")])
    assert client.keys.get("k").last_seen_at == at(90)
    assert client.keys.get("other").last_seen_at == at(90)


def test_a_duplicate_in_a_long_transaction_holds_up_nobody(client):
    # A note of when the key was last asked for is not worth waiting for.
    ask(client)
    with open_transaction(client) as tx:
        if client.store.database == "postgres":
            client.within(tx).at(at(10)).enqueue(NewJob(job_type="t", key="k"))
        assert ask(client, now=20).created is False
        tx.rollback()
    assert client.keys.get("k").last_seen_at == at(20)


@pytest.mark.parametrize(
    ("category", "days"),
    [("notification", 7), ("planning", 30), ("import_export", 30), ("maintenance", 7), ("default", 7)],
)
def test_a_key_lives_as_long_as_its_category_says(client, category, days):
    # S4-30
    client.at(T).worker.register("w", lease=100 * DAY)
    first = ask(client, category=category)
    queue = client.jobs.get(first.id).queue
    [job] = client.at(at(1)).worker.claim(queue, 1, worker_id="w")
    client.at(at(2)).worker.finish([job.end_with(Succeeded())])
    almost = (days * DAY).total_seconds() - 1
    assert ask(client, category=category, now=almost).id == first.id
    assert ask(client, category=category, now=almost + 1).created
    assert client.keys.get("k").first_seen_at == at(almost + 1)


def test_keys_are_listed_by_org_project_and_key(client):
    scopes = [(None, None, "k"), ("a", None, "k"), ("a", "p", "j"), ("a", "p", "k"), ("b", None, "i")]
    for org_id, project_id, key in reversed(scopes):
        ask(client, key, org_id=org_id, project_id=project_id)
    first = client.keys.list(limit=2)
    rest = client.keys.list(cursor=first.next_cursor)
    listed = [(key.org_id, key.project_id, key.key) for key in [*first, *rest]]
    assert listed == scopes
    assert rest.next_cursor is None
    assert [key.key for key in client.for_org("a").keys.list()] == ["k", "j", "k"]
    assert client.for_org("a").for_project("p").keys.get("k").project_id == "p"


def test_a_forgotten_key_is_free_at_once_and_that_is_audited(client):
    first = ask(client, org_id="a")
    own = client.for_org("a")
    assert client.keys.forget("k", reason="wrong key") == Changed(False)
    assert own.at(at(5)).acting_as("user:42").keys.forget("k", reason="wrong key") == Changed(True)
    assert own.keys.get("k") is None
    assert ask(client, org_id="a", now=6).created
    [event] = [event for event in client.jobs.events(first.id) if event.event == "key.forgotten"]
    assert (event.actor_type, event.actor_id, event.at) == ("user", "42", at(5))
    assert event.detail == {"key": "k", "reason": "wrong key"}
    with pytest.raises(InvalidJob, match="reason"):
        own.keys.forget("k", reason="")


def test_lapsed_keys_are_removed_page_by_page_and_no_others(client):
    # S4-16: bounded by its page
    # S4-17
    client.at(T).worker.register("w", lease=DAY)
    for number in range(10):
        ask(client, f"k{number}", unique="forever" if number == 3 else timedelta(seconds=10))
    running = client.at(at(1)).worker.claim("q:default", 9, worker_id="w")
    client.at(at(2)).worker.finish([job.end_with(Succeeded()) for job in running if job.key != "k5"])
    pages = [client.at(at(60)).keys.prune(4)]
    while pages[-1].next_cursor is not None:
        pages.append(client.at(at(60)).keys.prune(4, cursor=pages[-1].next_cursor))
    # The one for ever, the one whose job runs, and the one whose job waits.
    assert {key.key for key in client.keys.list().items} == {"k3", "k5", "k9"}
    assert (sum(page.done for page in pages), len(pages)) == (7, 4)
