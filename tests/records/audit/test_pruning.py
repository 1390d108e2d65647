"""Retention: what is old enough goes, by category, and the chain stays whole and tells of it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from onward import Category, Client, NewJob, Succeeded
from onward.core.policy.policies import Policies
from onward.errors import InvalidSetting, NotAllowed
from tests.jobs.inspect.reading import rows
from tests.records.audit.audit_history import NOW

DAY = timedelta(days=1)
LATER = NOW + 40 * DAY


@pytest.fixture
def kept(client: Client) -> Client:
    """A client that keeps notifications for a week, all others for a month, and planning for ever."""
    policies = Policies.of(
        categories=[
            Category(name="default", audit_retention=30 * DAY),
            Category(name="notification", audit_retention=7 * DAY),
            Category(name="planning"),
        ]
    )
    return Client(store=client.store, policies=policies)


def done(client: Client, category: str, *, days_ago: int, end: bool = True) -> str:
    """A job of a category whose lines are so many days old."""
    then = LATER - days_ago * DAY
    name = f"{category} {days_ago} {end}"
    client.at(then).worker.register(name)
    [enqueued] = client.at(then).enqueue_many([NewJob(job_type="t", category=category, queue=name)])
    jobs = client.at(then).worker.claim(name, worker_id=name)
    if end:
        client.at(then).worker.finish([job.end_with(Succeeded()) for job in jobs]).require()
    return enqueued.id


def left(client: Client, *ids: str) -> list[int]:
    return [len(client.jobs.events(job_id)) for job_id in ids]


@pytest.mark.parametrize("chained", [False, True])
def test_each_category_keeps_its_lines_for_its_own_time(kept, chained):
    jobs = [
        done(kept, "notification", days_ago=8),
        done(kept, "notification", days_ago=6),
        done(kept, "default", days_ago=29),
        done(kept, "default", days_ago=31),
        done(kept, "planning", days_ago=39),
        done(kept, "default", days_ago=38, end=False),
    ]
    kept.at(LATER - 31 * DAY).queues.pause("q", reason="r")
    if chained:
        kept.audit.seal()
    pruned = kept.at(LATER).acting_as("user:ada").audit.prune()
    # Never of a job that lives; what belongs to no job goes with the default category.
    assert left(kept, *jobs) == [0, 3, 3, 0, 3, 2]
    assert pruned.count == 7
    [event] = kept.audit.list(limit=1)
    assert (event.event, event.actor_id, event.seq) == ("audit.pruned", "ada", pruned.seq)
    assert event.detail == {"count": 7, "digest": pruned.digest, "chained": chained}
    assert kept.at(LATER).audit.prune().count == 0
    assert kept.audit.verify().intact
    if chained:
        marked = rows(kept, "SELECT count(*) FROM {prefix}chain WHERE pruned IS NOT NULL")
        assert marked == [(7,)]


def test_one_call_removes_no_more_than_it_is_asked_to_the_oldest_first(kept):
    done(kept, "default", days_ago=32)
    newer = done(kept, "default", days_ago=31)
    assert [kept.at(LATER).audit.prune(limit=2).count for _ in range(4)] == [2, 2, 2, 0]
    assert left(kept, newer) == [0]
    assert len(list(kept.audit.export())) == 3
    assert kept.audit.verify().intact


def test_an_instant_and_categories_can_be_named(kept):
    jobs = [done(kept, name, days_ago=20) for name in ("default", "planning", "notification")]
    assert kept.at(LATER).audit.prune(before=LATER - 21 * DAY).count == 0
    assert kept.at(LATER).audit.prune(before=LATER, categories=["planning"]).count == 3
    assert left(kept, *jobs) == [3, 0, 3]
    with pytest.raises(InvalidSetting, match="planing"):
        kept.audit.prune(before=LATER, categories=["planing"])


def test_without_a_retention_nothing_is_removed(client):
    done(client, "default", days_ago=39)
    assert client.at(LATER + 9999 * DAY).audit.prune().count == 0


def test_more_rows_gone_than_an_event_accounts_for_are_found(kept):
    done(kept, "default", days_ago=31)
    other = done(kept, "default", days_ago=2)
    kept.audit.seal()
    pruned = kept.at(LATER).audit.prune()
    [[seq]] = rows(kept, f"SELECT min(seq) FROM {{prefix}}audit WHERE job_id = '{other}'")
    # With the marker of a prune, as somebody would who knows of it.
    if kept.store.database == "sqlite":
        rows(kept, "UPDATE {prefix}sealing SET pruning = 1")
    marker = f"SET LOCAL {kept.store.prefix.rstrip('.')}.pruning = 'on'; "
    first = marker if kept.store.database == "postgres" else ""
    rows(kept, f"{first}DELETE FROM {{prefix}}audit WHERE seq = {seq}")
    assert [(fault.what, fault.seq) for fault in kept.audit.verify().faults] == [("removed", seq)]
    rows(kept, f"{first}UPDATE {{prefix}}chain SET pruned = {pruned.seq} WHERE seq = {seq}")
    assert [(fault.what, fault.seq) for fault in kept.audit.verify().faults] == [("unaccounted", pruned.seq)]


def test_a_prune_is_for_all_orgs_and_so_not_for_a_client_of_one(client):
    for forbidden in ("prune", "seal", "verify"):
        with pytest.raises(NotAllowed):
            getattr(client.for_org("acme").audit, forbidden)()


def test_what_is_still_to_come_is_not_pruned(kept):
    with pytest.raises(InvalidSetting, match="in the future"):
        kept.audit.prune(before=datetime.now(UTC) + DAY)


def test_a_prune_tells_its_reason_without_secrets(kept):
    done(kept, "default", days_ago=20)
    reason = "asked for with password=hunter2"
    pruned = kept.at(LATER).audit.prune(before=LATER, reason=reason)
    [[detail]] = rows(kept, f"SELECT detail FROM {{prefix}}audit WHERE seq = {pruned.seq}")
    assert "hunter2" not in str(detail)
    assert "asked for with password=[redacted]" in str(detail)
    with pytest.raises(ValueError, match="reason"):
        kept.at(LATER).audit.prune(before=LATER, reason="")
