"""What each level of the audit writes; claims and ends go on as they do with all of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from datetime import timedelta

import pytest

from onward import Client, JobState, NewJob, Onward, Succeeded
from onward.core.policy.policies import Policies
from onward.core.policy.settings import AuditLevel
from onward.errors import InvalidSetting
from tests.records.audit.audit_history import OUTCOMES, claimed, finished, stale

AtLevel = Callable[[AuditLevel], Client]

ENDS = {"job.succeeded", "job.skipped", "job.deadlettered", "job.cancelled"}
BY_OPERATORS = {
    "job.cancelled",
    "job.cancel_requested",
    "org.paused",
    "org.resumed",
    "gate.closed",
    "gate.opened",
}
ALWAYS = {*BY_OPERATORS, "job.stale_result_rejected"}


@pytest.fixture
def at(client: Client) -> AtLevel:
    """The same database, seen by a client of another level."""
    return lambda level: Client(store=client.store, policies=Policies.of(audit=level))


def written(client: Client) -> Counter[str]:
    return Counter(record.event for record in client.audit.export())


@pytest.mark.parametrize(
    ("level", "expected"),
    [
        ("full", {"job.enqueued", "job.started", *OUTCOMES}),
        ("ends", ENDS),
        ("off", set()),
    ],
)
def test_a_level_writes_what_it_says_of_what_workers_do(at, level, expected):
    client = at(level)
    jobs = finished(client)
    assert set(written(client)) == expected
    states = {event: client.jobs.get(job.id).state.value for event, job in jobs.items()}
    assert states == {
        "job.succeeded": "succeeded", "job.skipped": "succeeded", "job.failed": "scheduled",
        "job.deadlettered": "dead", "job.snoozed": "scheduled", "job.rate_limited": "scheduled",
        "job.released": "queued", "job.cancelled": "cancelled",
    }  # fmt: skip


@pytest.mark.parametrize("level", ["full", "ends", "off"])
def test_what_operators_do_and_refused_writes_are_written_at_every_level(at, level):
    # S4-70
    client = at(level)
    waiting = client.enqueue(NewJob(job_type="t", delay=timedelta(hours=1))).id
    [running] = claimed(client)
    client.jobs.cancel(waiting, reason="no need")
    client.acting_as("user:ada").jobs.cancel(running.id, reason="no need")
    client.orgs.pause("acme", reason="unpaid")
    client.orgs.resume("acme")
    client.gate.close(reason="closed")
    client.gate.open()
    assert client.worker.finish([stale(client).end_with(Succeeded())]).lost
    found = written(client)
    assert set(found) >= ALWAYS
    if level == "off":
        assert found == Counter(dict.fromkeys(ALWAYS, 1))


@pytest.mark.parametrize("level", ["full", "ends", "off"])
def test_claims_take_what_they_are_asked_for_in_order_at_every_level(at, level):
    client = at(level)
    client.worker.register("w")
    client.enqueue_many([NewJob(job_type=f"t{n}", priority=9 - n % 3, org_id=f"o{n % 2}") for n in range(9)])
    first = client.worker.claim("q:default", 2, worker_id="w")
    assert [job.priority for job in first] == [7, 7]
    rest = client.worker.claim("q:default", 99, worker_id="w", paused_orgs=["o0"], paused_types=["t1"])
    assert [job.priority for job in rest] == [8, 9]
    assert client.worker.claim("q:default", 99, worker_id="w", paused_orgs=["o0"], paused_types=["t1"]) == []
    assert len(client.worker.claim("q:default", 99, worker_id="w")) == 5
    assert client.worker.claim("q:default", 99, worker_id="w") == []
    assert {job.state for job in client.worker.held("w")} == {JobState.RUNNING}


@pytest.mark.parametrize("level", ["full", "ends", "off"])
def test_large_and_small_jobs_are_claimed_together_at_every_level(at, level):
    client = at(level)
    payloads = [{"n": n, "text": 'é"\\\n' * (20_000 if n % 2 else 1)} for n in range(4)]
    client.worker.register("w")
    client.enqueue_many([NewJob(job_type="t", payload=payload) for payload in payloads])
    assert [job.payload for job in client.worker.claim("q:default", 9, worker_id="w")] == payloads


@pytest.mark.parametrize("level", ["full", "ends", "off"])
def test_a_lost_lease_is_told_from_a_kept_one_at_every_level(at, level):
    # R7
    client = at(level)
    old = stale(client)
    other = stale(client)
    jobs = claimed(client, 4)
    ends = [
        jobs[0].end_with(Succeeded()),
        old.end_with(Succeeded("late")),
        jobs[1].end_with(OUTCOMES["job.failed"]),
    ]
    answer = client.worker.finish(
        [*ends, other.end_with(OUTCOMES["job.failed"]), jobs[2].end_with(Succeeded(2))]
    )
    assert answer.lost == {old.id, other.id}
    assert answer.held == {job.id for job in jobs[:3]}
    assert [event.event for event in client.jobs.events(old.id)][-1] == "job.stale_result_rejected"
    client.jobs.cancel(jobs[3].id, reason="no need")
    assert client.worker.finish([jobs[3].end_with(OUTCOMES["job.failed"])]).cancel_requested == {jobs[3].id}
    assert client.jobs.get(jobs[3].id).state == JobState.CANCELLED


@pytest.mark.parametrize("level", ["full", "ends", "off"])
def test_an_old_and_the_newest_lease_in_one_batch_are_told_apart_at_every_level(at, level):
    client = at(level)
    old = stale(client)
    [newest] = client.worker.held(str(old.worker_id))
    assert (
        client.worker.finish([old.end_with(Succeeded("old")), newest.end_with(Succeeded("new"))]).lost
        == set()
    )
    assert client.jobs.get(old.id).result == "new"


def test_an_application_names_its_level(tmp_path):
    for level in ("full", "ends", "off"):
        app = Onward(f"sqlite:///{tmp_path}/{level}.db", audit=level)
        assert app.client.policies.settings.audit == level
        app.client.enqueue(NewJob(job_type="t"))
        assert len(list(app.client.audit.export())) == (level == "full")
        app.close()
    with pytest.raises(InvalidSetting, match="'off', 'ends', 'full'"):
        Onward(audit="some")  # type: ignore[arg-type]
