"""What is never removed, however old: on both databases."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from onward import Client, JobState, NewJob, Retention
from onward.core.flows.flow import Tie
from onward.core.policy.policies import Policies
from onward.core.policy.retention import RUNS_KEPT
from onward.core.work.lifecycle import Succeeded
from tests.upkeep.maintenance.maintenance_history import (
    DAY,
    LONG,
    later,
    left,
    prune_all,
    put_ended,
    row_count,
)


def change(client: Client, *statements: str) -> None:
    """Write into the tables by hand; `{p}` begins their names."""
    connection: Any = client.store.connect()
    try:
        for statement in statements:
            connection.execute(statement.replace("{p}", client.store.prefix))
        connection.commit()
    finally:
        connection.close()


def moment(client: Client, at: datetime) -> str:
    """An instant as the tables have it."""
    if client.store.database == "sqlite":
        return str(int(at.timestamp() * 1_000_000))
    return f"'{at.isoformat()}'"


def test_a_job_stays_while_its_key_holds(client):
    # S4-16
    held = put_ended(client, key="k", unique=timedelta(days=30))
    for_ever = put_ended(client, key="e", unique="forever")
    free = put_ended(client, key="a", unique="active")
    prune_all(client, later(29))
    assert left(client, held, for_ever, free) == [held, for_ever]
    again = client.at(later(29)).enqueue(NewJob(job_type="t", key="k"))
    assert (again.id, again.created) == (held, False)
    prune_all(client, later(31))
    assert left(client, held, for_ever) == [for_ever]
    assert client.at(later(31)).enqueue(NewJob(job_type="t", key="k")).created


def test_a_job_stays_while_one_that_follows_it_has_not_ended(client):
    parent = put_ended(client)
    follower = client.enqueue(NewJob(job_type="t", queue="q:later", after=(parent,))).id
    prune_all(client, later(100))
    assert left(client, parent, follower) == [parent, follower]
    client.worker.register("w", lease=LONG)
    [job] = client.worker.claim("q:later", worker_id="w")
    client.worker.finish([job.end_with(Succeeded())])
    prune_all(client, later(100))
    assert left(client, parent, follower) == []
    assert row_count(client, "followers") == 0


def test_a_job_stays_while_its_batch_is_open(client):
    batch = client.batches.open(name="b")
    job_id = put_ended(client, batch_id=batch)
    client.worker.follow_up()
    prune_all(client, later(100))
    assert left(client, job_id) == [job_id]
    client.batches.close(batch)
    # First the jobs, and the batch once it has none.
    assert prune_all(client, later(20))["succeeded"] == 1
    assert row_count(client, "batches") == 1
    assert prune_all(client, later(31)) == {"batches": 1}
    assert row_count(client, "batches") == 0


def test_a_job_stays_until_what_follows_from_its_end_is_done(client):
    job_id = put_ended(client)
    change(client, f"UPDATE {{p}}ended SET flow = {int(Tie.SCHEDULED)}")
    prune_all(client, later(100))
    assert left(client, job_id) == [job_id]
    change(client, f"UPDATE {{p}}ended SET flow = -{int(Tie.SCHEDULED)}")
    prune_all(client, later(100))
    assert left(client, job_id) == []


def test_a_dead_letter_that_waits_for_somebody_is_kept_for_the_time_of_the_dead(client):
    own = Client(
        store=client.store, policies=Policies.of(retention=Retention(succeeded="1d", cancelled="1d"))
    )
    waiting, replayed = put_ended(own, "dead"), put_ended(own, "dead")
    prune_all(own, later(89))
    assert [letter.job.id for letter in own.dead.list().items] == [replayed, waiting]
    own.dead.replay([replayed], reason="mended")
    prune_all(own, later(91))
    assert left(own, waiting, replayed) == [replayed]
    assert own.jobs.get(replayed).state == JobState.QUEUED


def test_what_somebody_replays_in_this_moment_is_passed_over(postgres):
    client = Client(store=postgres)
    replayed, other = put_ended(client, "dead"), put_ended(client, "dead")
    connection: Any = client.store.connect()
    try:
        connection.execute("BEGIN")
        client.within(connection).dead.replay([replayed], reason="mended")
        # It neither waits for the replay nor removes what that is about.
        assert prune_all(client, later(91)) == {"dead": 1}
        connection.commit()
    finally:
        connection.close()
    assert left(client, replayed, other) == [replayed]


def test_of_a_schedule_the_last_runs_stay_and_of_the_others_the_young_ones(client):
    now = datetime.now(UTC)
    rows = [
        (schedule, now - timedelta(days=days, seconds=number))
        for schedule, days, count in (("often", 31, RUNS_KEPT + 20), ("rare", 200, 5), ("young", 1, 150))
        for number in range(count)
    ]
    change(client, *(
        "INSERT INTO {p}schedule_runs (schedule, occurrence, source, fired_at, late) VALUES "
        f"('{schedule}', {moment(client, at)}, 'occurrence', {moment(client, at)}, 0)"
        for schedule, at in rows
    ))  # fmt: skip
    counted = client.maintenance.prune(dry_run=True, limit=50)
    assert counted.counts == {"schedule_runs": 20}
    assert prune_all(client, limit=50) == {"schedule_runs": 20}
    assert row_count(client, "schedule_runs") == len(rows) - 20


def test_signals_go_when_they_are_not_kept_any_longer(client):
    client.signals.send("paid", "1", keep=DAY)
    client.signals.send("paid", "2", keep=9 * DAY)
    assert client.at(later(2)).maintenance.prune(dry_run=True).counts == {"signals": 1}
    assert prune_all(client, later(2)) == {"signals": 1}
    assert row_count(client, "signals") == 1
