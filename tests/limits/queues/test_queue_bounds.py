"""How many of a queue run at once and how fast they start, on all workers together."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import psycopg
import pytest

from onward import Client, JobState, NewJob, Onward, Succeeded
from onward.core.inputs.duration import duration
from onward.errors import InvalidSetting, OnwardError
from tests.limits.queues.claiming import Q
from tests.worker.waiting import SOON, drain, until

NOW = datetime(2026, 1, 1, tzinfo=UTC)
WHY = {"reason": "why"}


def test_no_more_jobs_run_than_the_queue_may(claims):
    claims.app.queue(Q, concurrency=3)
    claims.put(None, 10)
    first = claims.take(2)
    assert len(claims.take(5)) == 1
    assert claims.take(5) == []
    claims.client.worker.finish([first[0].end_with(Succeeded())]).require()
    assert len(claims.take(5)) == 1


@pytest.mark.parametrize("app", ["postgres"], indirect=True)
def test_by_the_record_a_job_starts_after_the_end_of_the_one_whose_place_it_takes(claims):
    claims.app.queue(Q, concurrency=1)
    claims.put(None, 2)
    [first] = claims.take(1)
    with ThreadPoolExecutor() as pool, psycopg.connect(claims.client.store.url) as other:
        row = f"SELECT FROM {claims.client.store.prefix}queues WHERE name = %s FOR UPDATE"
        other.execute(row, [Q])
        claiming = pool.submit(claims.take, 1)
        waiting = "SELECT 1 FROM pg_stat_activity WHERE pg_backend_pid() = ANY (pg_blocking_pids(pid))"
        while not other.execute(waiting).fetchall():
            other.execute("SELECT pg_stat_clear_snapshot()")
        claims.client.worker.finish([first.end_with(Succeeded())]).require()
        other.commit()
        [second] = claiming.result()
    assert second.started_at >= claims.client.jobs.get(first.id).ended_at


def test_jobs_that_ran_before_the_rule_came_count_too(claims):
    claims.put(None, 10)
    claims.take(4)
    claims.client.queues.limit(Q, concurrency=5, **WHY)
    assert len(claims.client.worker.claim_by_policy(Q, 5, worker_id="w").jobs) == 1


def test_a_claim_says_why_it_brought_no_more(claims):
    claims.app.queue(Q, concurrency=2, rate="10/1m")
    claims.put(None, 10)
    claim = claims.client.at(NOW).worker.claim_by_policy(Q, 5, worker_id="w")
    assert (len(claim.jobs), claim.full, claim.wait) == (1, False, timedelta(seconds=6))
    later = NOW + timedelta(seconds=7)
    claim = claims.client.at(later).worker.claim_by_policy(Q, 5, worker_id="w")
    assert (len(claim.jobs), claim.full, claim.wait) == (1, True, timedelta(seconds=6))


@pytest.mark.parametrize("fair", [False, True])
def test_a_rate_is_exceeded_in_no_window(claims, fair):
    claims.app.queue(Q, rate="10/1m", burst=3, fair=fair)
    claims.put("a", 40)
    started = []
    for second in range(0, 150, 2):
        now = NOW + timedelta(seconds=second)
        started += [now] * len(claims.take(5, now=now))
    assert 25 <= len(started) <= 28
    for at in started:
        within = [one for one in started if at <= one < at + timedelta(minutes=1)]
        assert len(within) <= 10 + 3
    assert started[:3] == [NOW] * 3


def test_what_an_operator_sets_holds_until_it_is_reset(claims):
    claims.app.queue(Q, concurrency=1, ageing="1h")
    claims.put(None, 10)
    assert len(claims.take(9)) == 1
    set_to = claims.client.acting_as("user:ann").queues.limit(Q, concurrency=4, **WHY)
    assert (set_to.policy.concurrency, set_to.declared.concurrency) == (4, 1)
    assert (set_to.reason, set_to.actor_id, set_to.policy.ageing) == ("why", "ann", duration("x", "1h"))
    assert len(claims.take(9)) == 3
    claims.client.queues.limit(Q, rate="5/s", **WHY)
    assert claims.client.queues.get(Q).policy.concurrency == 4
    assert claims.client.queues.reset(Q, **WHY)
    assert not claims.client.queues.reset(Q, **WHY)
    assert claims.client.queues.get(Q).policy.concurrency == 1
    events = [record.event for record in claims.client.audit.list()]
    assert [event for event in events if event.startswith("queue.")] == [
        "queue.reset",
        "queue.limited",
        "queue.limited",
    ]


def test_an_operator_can_lift_a_bound(claims):
    claims.app.queue(Q, concurrency=1)
    claims.put(None, 10)
    claims.client.worker.declare_queues()
    claims.client.queues.limit(Q, concurrency="none", **WHY)
    assert len(claims.take(9)) == 9


@pytest.mark.parametrize(
    ("bounds", "said"),
    [
        ({}, "give concurrency=, rate= or burst="),
        ({"concurrency": 0}, "concurrency is 0"),
        ({"burst": 2}, "give rate= too"),
        ({"rate": "quick"}, "rate is 'quick'"),
        ({"concurrency": 1, "reason": ""}, "reason is empty"),
    ],
)
def test_a_bound_that_makes_no_sense_is_refused_and_nothing_written(client, bounds, said):
    with pytest.raises(OnwardError, match=said):
        client.queues.limit(Q, **{**WHY, **bounds})
    assert not client.queues.list()


def test_a_queue_of_which_nothing_was_said_has_no_rule(client: Client):
    assert client.queues.get("q:none").policy.plain
    with pytest.raises(InvalidSetting, match="limit is 0"):
        client.queues.list(limit=0)


def test_a_declaration_without_options_lifts_the_rule(claims):
    claims.app.queue(Q, concurrency=1)
    claims.client.worker.declare_queues()
    claims.app.policies.registry.queues.clear()
    claims.app.queue(Q)
    claims.client.worker.declare_queues()
    claims.put(None, 5)
    assert len(claims.take(5)) == 5


def test_a_worker_that_has_lost_its_lease_gets_nothing(claims):
    claims.app.queue(Q, fair=True)
    claims.put("a", 1)
    claims.client.worker.retire("w")
    with pytest.raises(OnwardError, match="its lease ran out"):
        claims.take(1)


class Record:
    """How many ran at once, as seen by the handlers, and by the database."""

    def __init__(self, app: Onward) -> None:
        self.app = app
        self.done = self.running = self.most = 0

        @app.job(name="t", queue=Q)
        async def step() -> None:
            await self.ran()

    async def ran(self) -> None:
        self.running += 1
        counts = await self.app.aclient.jobs.count()
        self.most = max(self.most, self.running, counts.live[Q].get(JobState.RUNNING, 0))
        self.running -= 1
        self.done += 1


@pytest.mark.anyio
async def test_several_workers_together_never_run_more_than_the_queue_may(app):
    record = Record(app)
    app.queue(Q, concurrency=3)
    await app.aclient.enqueue_many([NewJob(job_type="t", queue=Q) for _ in range(60)])
    async with app.worker(concurrency=4), app.worker(concurrency=4), app.worker(concurrency=4):
        await until(lambda: record.done == 60)
    assert record.most == 3
    await app.aclose()


@pytest.mark.anyio
async def test_a_full_queue_goes_on_as_soon_as_one_of_its_jobs_has_ended(app):
    record = Record(app)
    app.queue(Q, concurrency=1)
    await app.aclient.enqueue_many([NewJob(job_type="t", queue=Q) for _ in range(40)])
    began = asyncio.get_running_loop().time()
    await drain(app)
    # Forty times the pause with which a worker asks by itself would be half a minute.
    assert asyncio.get_running_loop().time() - began < SOON / 2
    assert (record.done, record.most) == (40, 1)
    await app.aclose()


@pytest.mark.anyio
async def test_a_worker_starts_no_more_than_the_rate_allows_and_wakes_for_the_next(app):
    record = Record(app)
    app.queue(Q, rate="50/s", burst=1)
    await app.aclient.enqueue_many([NewJob(job_type="t", queue=Q) for _ in range(20)])
    await drain(app)
    page = await app.aclient.jobs.list(limit=100)
    started = sorted(job.started_at for job in page)
    assert record.done == 20
    gaps = [later - first for first, later in pairwise(started)]
    assert min(gaps) >= timedelta(milliseconds=20)
    # A machine may stand still once; a worker that only asks again once a second would be late each time.
    assert sum(gap < timedelta(milliseconds=500) for gap in gaps) >= 18
    await app.aclose()


@pytest.mark.anyio
async def test_a_drain_does_not_wait_for_a_token_that_is_long_in_coming(app):
    record = Record(app)
    app.queue(Q, rate="1/1h")
    await app.aclient.enqueue_many([NewJob(job_type="t", queue=Q) for _ in range(3)])
    await drain(app)
    assert record.done == 1
    await app.aclose()


@pytest.mark.anyio
async def test_a_worker_that_did_not_declare_the_rule_obeys_it(app):
    record = Record(app)
    await app.aclient.queues.limit(Q, concurrency=2, **WHY)
    await app.aclient.enqueue_many([NewJob(job_type="t", queue=Q) for _ in range(30)])
    await drain(app, concurrency=8)
    assert (record.done, record.most) == (30, 2)
    await app.aclose()


@pytest.mark.anyio
async def test_a_worker_runs_the_jobs_of_orgs_by_turns(app):
    ran = []

    @app.job(name="t", queue=Q)
    async def step(n: int) -> None:
        ran.append(n)

    app.queue(Q, fair=True)
    for number, org in enumerate("ab"):
        await app.aclient.enqueue_many(
            [NewJob(job_type="t", queue=Q, org_id=org, payload={"n": number}) for _ in range(30)]
        )
    await drain(app, concurrency=1)
    assert ran == [0, 1] * 30
    await app.aclose()
