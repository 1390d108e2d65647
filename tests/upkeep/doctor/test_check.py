"""Each finding made for real, on both databases: what somebody does or suffers, and what is told of it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from onward import (
    AsyncClient,
    Category,
    Client,
    Failed,
    NewJob,
    Onward,
    RateLimited,
    Slo,
    Succeeded,
    Unrecoverable,
)
from onward.clients.sync.client import Client as SyncClient
from onward.core.plain import plain_time
from onward.core.policy.policies import Policies
from onward.core.records.usage import Usage
from onward.results import Finding, Job
from tests.apps import with_categories
from tests.upkeep.doctor.facts import HOUR, MINUTE, SECOND, codes, of

# What is always told here: SQLite may be an old one, and workers that only a row stands for do not listen.
ALWAYS = {"sqlite_version", "no_wakeups"}


@pytest.fixture
def client(client: Client) -> Client:
    """An application with the categories of the examples."""
    return with_categories(client)


@pytest.fixture
def now() -> datetime:
    """The present, because a clock that is off is a finding of its own."""
    return datetime.now(UTC)


def found(client: Client, **asked: Any) -> set[str]:
    return codes(client.doctor.check(**asked)) - ALWAYS


def alive(client: Client, name: str = "w", **info: Any) -> str:
    client.worker.register(name, info={"concurrency": 5, **info})
    return name


def ran(client: Client, job_type: str, outcome: Any, *, now: datetime, **fields: Any) -> Job:
    """Have a job run to some end, at a time."""
    client.at(now).enqueue(NewJob(job_type=job_type, **fields))
    client.at(now).worker.register(worker := f"w{now.timestamp()}{job_type}{fields.get('subject')}")
    [job] = client.at(now).worker.claim("q:default", worker_id=worker)
    client.at(now).worker.finish([job.end_with(outcome)]).require()
    client.at(now).worker.retire(worker)
    return job


def test_a_queue_that_works_has_no_findings_but_that_it_is_well(client):
    alive(client)
    client.enqueue(NewJob(job_type="t"))
    said = client.doctor.check()
    assert codes(said) - ALWAYS == set()
    assert {finding.code for finding in said if finding.severity == "ok"} == {
        "database", "schema", "workers", "queues",
    }  # fmt: skip


def test_a_closed_gate_and_pauses_are_told_with_who_and_why(client):
    alive(client)
    client.acting_as("user:ada").gate.close(reason="deploy")
    client.queues.pause("q:default", reason="slow")
    client.orgs.pause("acme", reason="unpaid")
    client.job_types.pause("mail", reason="bug")
    client.enqueue(NewJob(job_type="t"))
    said = client.doctor.check()
    assert codes(said) - ALWAYS == {"gate_closed", "queue_paused", "org_paused", "job_type_paused"}
    assert of(said, "gate_closed").evidence["actor"] == "user:ada"
    assert of(said, "gate_closed").evidence["reason"] == "deploy"
    assert of(said, "queue_paused").severity == "problem"
    assert of(said, "job_type_paused").severity == "warning", "no job of that type waits"


def test_a_spent_budget_is_told(client):
    alive(client)
    client.usage.set_budget("acme", limit_micros=1, period="total")
    client.enqueue(NewJob(job_type="t", org_id="acme"))
    [job] = client.worker.claim("q:default", worker_id=alive(client, "v"))
    client.worker.write([client.policies.end_of(job, Succeeded(), 0.5, (Usage("call", 1.0, 5),))]).require()
    assert of(client.doctor.check(), "budget_spent").evidence["org_id"] == "acme"


def test_a_queue_that_no_worker_serves_is_told_apart_from_one_that_is_served(client):
    alive(client, queues={"q:other": None})
    client.enqueue(NewJob(job_type="t"))
    client.enqueue(NewJob(job_type="t", queue="q:other"))
    unserved = of(client.doctor.check(), "unserved_queue")
    assert unserved.evidence["queue"] == "q:default"
    assert unserved.remedy == "onward worker APP -q q:default"


def test_a_job_type_that_no_worker_knows_is_told(client):
    alive(client, job_types=["known"])
    client.enqueue(NewJob(job_type="known"))
    client.enqueue(NewJob(job_type="unknown"))
    assert of(client.doctor.check(), "unknown_job_type").evidence["job_type"] == "unknown"


def test_the_cron_of_ticks_that_is_off_is_told_with_the_last_tick(app):  # S0-80
    @app.job
    def work() -> None: ...

    work.enqueue()
    app.tick()
    client = app.client
    assert found(client) == set(), "a tick came just now"
    ticked = of(client.doctor.check(), "workers").evidence["last_tick"]
    work.enqueue()
    later = datetime.now(UTC) + HOUR
    said = of(client.at(later).doctor.check(), "tick_silent")
    assert (said.severity, said.remedy) == ("problem", "onward tick APP")
    assert said.evidence["last_tick"] == ticked
    assert said.evidence["last_worker"] is None


def test_jobs_that_all_died_are_told_with_their_cause(client, now):
    # S0-80, S0-81: all jobs failed
    for at in range(3):
        ran(client, "mail", Failed(Unrecoverable("no key")), now=now, subject=str(at), max_attempts=1)
    alive(client)
    said = of(client.doctor.check(), "all_dead")
    assert said.evidence["types"] == [{"job_type": "mail", "error_class": "Unrecoverable", "jobs": 3}]
    client.enqueue(NewJob(job_type="t"))
    assert found(client) == {"dead_letters"}


def test_the_dead_that_were_seen_to_are_told_of_no_more(client, now):  # S0-83
    job = ran(client, "mail", Failed("x", retryable=False), now=now)
    alive(client)
    assert found(client) == {"all_dead"}
    client.dead.replay([job.id], reason="mended")
    assert found(client) == set()


def test_ever_more_deaths_are_told_apart_from_old_ones(client, now):
    for at in range(12):
        long_ago = now - 3 * HOUR
        ran(client, "old", Failed("x", retryable=False), now=long_ago, subject=str(at))
    alive(client)
    assert "dead_growth" not in found(client)
    for at in range(10):
        ran(client, "new", Failed("x", retryable=False), now=now - MINUTE, subject=str(at))
    said = of(client.doctor.check(), "dead_growth")
    assert (said.evidence["last_hour"], said.evidence["hour_before"]) == (10, 0)


def test_a_handler_that_raises_is_told_by_its_type_and_error(client, now):
    # S0-80: an exception of the processor
    ran(client, "report", Failed(KeyError("total")), now=now)
    alive(client)
    said = of(client.doctor.check(), "jobs_failing")
    assert (said.evidence["job_type"], said.evidence["error_class"]) == ("report", "KeyError")


def test_jobs_that_fail_or_are_limited_are_shown_by_the_command_that_is_named(client, now):
    job = ran(client, "report", RateLimited(HOUR, error="slow down"), now=now)
    alive(client)
    said = of(client.doctor.check(), "jobs_failing")
    assert said.remedy == f"onward doctor {said.evidence['job_id']}"
    assert said.evidence["job_id"] == job.id
    assert "retrying" in {finding.code for finding in client.doctor.explain(said.evidence["job_id"])}


def test_jobs_of_a_dead_worker_that_nobody_takes_back_are_stuck(client):
    client.enqueue(NewJob(job_type="t"))
    client.enqueue(NewJob(job_type="t", category="hubspot"))
    assert len(client.worker.claim("q:default", 2, worker_id=alive(client, "dead"))) == 2
    assert "stuck_jobs" not in found(client)
    later = datetime.now(UTC) + MINUTE
    said = of(client.at(later).doctor.check(), "stuck_jobs")
    assert said.evidence["jobs"] == 1, "the other category has more patience"
    assert said.evidence["workers"] == ["dead"]
    assert of(client.at(later + HOUR).doctor.check(), "stuck_jobs").evidence["jobs"] == 2


def test_due_jobs_that_nobody_promotes_are_told(client, now):
    alive(client)
    client.at(now - 2 * MINUTE).enqueue(NewJob(job_type="t", delay=SECOND))
    said = of(client.doctor.check(), "silent_schedule")
    assert said.evidence["jobs"] == 1
    client.worker.promote()
    assert found(client) == set()


def test_workers_that_vanish_one_after_another_are_a_storm_and_those_that_retire_are_none(client, now):
    for at in range(3):
        client.at(now - MINUTE).worker.register(f"retired{at}")
        client.worker.retire(f"retired{at}")
    alive(client)
    assert found(client) == set()
    for at in range(3):
        client.at(now - MINUTE).worker.register(f"vanished{at}", info={"host": "box"})
    client.worker.rescue()
    said = of(client.doctor.check(), "lease_storm")
    assert said.evidence["hosts"] == ["box"]
    assert len(said.evidence["workers"]) == 3


def test_slots_that_are_all_taken_are_told_and_so_are_jobs_that_nobody_claims(client, now):
    alive(client, concurrency=1)
    client.at(now - 6 * MINUTE).enqueue(NewJob(job_type="t"))
    assert found(client) == {"not_claimed"}
    client.at(now - 6 * MINUTE).enqueue(NewJob(job_type="t"))
    assert client.worker.claim("q:default", 1, worker_id="w")
    assert found(client) == {"limit_reached"}


def test_an_open_breaker_is_told(client):
    alive(client)
    client.breakers.open("crm", reason="down")
    said = of(client.doctor.check(), "breaker_open")
    assert (said.severity, said.evidence["breaker"]) == ("problem", "crm")


def test_a_sink_that_does_not_take_its_message_is_told(client):
    alive(client)
    client.worker.alerts.observe([Finding(code="stuck_jobs", severity="problem", title="stuck")])
    client.worker.alerts.prepare(["hook"])
    send = client.worker.alerts.take("hook", hold=MINUTE)
    assert send is not None
    assert found(client) == set(), "it is on its way"
    client.worker.alerts.record_send(send, "503", wait=MINUTE)
    said = of(client.doctor.check(), "sink_failing")
    assert (said.evidence["name"], said.evidence["messages"]) == ("hook", 1)


def test_a_promise_that_is_not_kept_is_told(client, now):  # S4-20, S4-75
    policies = Policies.of(categories=[Category(name="timely", slo=Slo(10 * SECOND, 0.9))])
    timely = SyncClient(store=client.store, policies=policies)
    for at in range(10):
        wait = MINUTE if at < 2 else timedelta()
        new = NewJob(job_type="t", category="timely", subject=str(at))
        timely.at(now - 2 * MINUTE).enqueue(new)
        timely.at(now).worker.register(f"w{at}")
        [job] = timely.at(now - 2 * MINUTE + wait).worker.claim("q:default", worker_id=f"w{at}")
        timely.at(now).worker.finish([job.end_with(Succeeded())]).require()
        timely.worker.retire(f"w{at}")
    alive(timely)
    said = of(timely.doctor.check(), "slo_burn")
    assert (said.evidence["jobs"], said.evidence["late"]) == (10, 2)
    assert said.evidence["burn_rate"] == 2
    timely.at(now - MINUTE).enqueue(NewJob(job_type="t", category="timely", priority=-70))
    assert of(timely.doctor.check(), "slo_burn").evidence["late"] == 3, "it waits for too long already"
    assert "slo_burn" not in found(client), "its application promised nothing"


def test_a_clock_that_is_off_by_more_than_a_minute_is_told(client, now):  # R19
    alive(client)
    assert "clock_skew" not in found(client.at(now + 50 * SECOND))
    said = of(client.at(now - 90 * SECOND).doctor.check(), "clock_skew")
    assert said.evidence["ahead_seconds"] == pytest.approx(90, abs=5)
    assert "ahead of" in said.title


def test_the_dry_run_is_told(client):
    dry = SyncClient(store=client.store, policies=Policies.of(dry_run=True))
    assert of(dry.doctor.check(), "dry_run").severity == "warning"


def test_a_deep_check_finds_no_damage_where_there_is_none(client):
    alive(client)
    client.enqueue(NewJob(job_type="t"))
    assert found(client, deep=True) == set()


def test_ready_jobs_are_counted_to_a_cap_and_the_oldest_is_found_in_any_priority(client, now):
    alive(client)
    client.enqueue_many(NewJob(job_type="t", priority=2) for _ in range(1005))
    client.enqueue_many(NewJob(job_type="t", priority=level) for level in (-1000, 0, 11))
    client.at(now - 30 * SECOND).enqueue(NewJob(job_type="t", priority=1000))
    said = of(client.doctor.check(), "queues")
    assert said.evidence["queues"] == {"q:default": 1000}
    assert said.evidence["oldest"] < plain_time(now - 20 * SECOND)


@pytest.mark.anyio
async def test_an_async_client_is_told_the_same(client):
    alive(client)
    client.gate.close(reason="deploy")
    client.enqueue(NewJob(job_type="t"))
    store = client.store
    url = f"sqlite:///{store.file.path}" if store.database == "sqlite" else store.url
    app = Onward(url, schema=store.prefix.rstrip("._"))
    aclient = app.clients.open_async()
    assert isinstance(aclient, AsyncClient)
    async with aclient:
        assert codes(await aclient.doctor.check()) == codes(client.doctor.check())
        [job] = await aclient.jobs.list()
        assert codes(await aclient.doctor.explain(job.id)) == {"gate_closed"}


def test_what_a_worker_tells_of_itself_never_breaks_a_check(client):
    strange = {
        "concurrency": "x",
        "job_types": 5,
        "queues": {"q:a": "b"},
        "providers": [1],
        "host": 1,
        "kind": [],
    }
    client.worker.register("w", info=strange)
    client.at(datetime.now(UTC) - 10 * MINUTE).enqueue(NewJob(job_type="t", queue="q:a"))
    found = {finding.code for finding in client.doctor.check()}
    assert {"workers", "not_claimed"} <= found
