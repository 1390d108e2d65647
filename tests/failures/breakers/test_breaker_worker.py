"""What a worker does with jobs whose provider pushes back."""

import asyncio
import threading
from datetime import timedelta
from typing import Any

import pytest

from onward import Category, Context, InvalidSetting, JobState, Onward, RateLimited
from onward.core.failures.breaker import Answer
from onward.handlers.clients import Clients
from onward.results import Job
from onward.worker.timings import Timings
from onward.worker.worker import Worker
from tests.failures.breakers import breaker_process_jobs as process_jobs
from tests.failures.breakers.breaker_provider import fetch
from tests.failures.breakers.database import execute
from tests.worker.waiting import SOON, drain, until

pytestmark = pytest.mark.anyio


def states(app: Onward, jobs: list) -> list[tuple[str, int]]:
    found = app.client.jobs.get_many([job.id for job in jobs])
    return [(found[job.id].state.value, found[job.id].attempt) for job in jobs]


async def test_one_call_at_first_then_more_and_a_well_provider_leaves_no_trace(app, provider):
    provider.status = 200
    gate = threading.Event()
    provider.slow = lambda: gate.wait(SOON)

    @app.job(provider="crm")
    async def call() -> None:
        await asyncio.to_thread(fetch, provider.url)

    jobs = await app.aenqueue_many(call.build() for _ in range(40))
    async with app.worker():
        await until(lambda: provider.calls)
        await asyncio.sleep(0.05)
        assert (len(provider.calls), provider.most_at_once) == (1, 1), "nine slots wait for the first answer"
        gate.set()
        await until(lambda: app.client.jobs.count().total(JobState.SUCCEEDED) == 40)
    assert provider.most_at_once > 2
    assert set(states(app, jobs)) == {("succeeded", 1)}
    assert app.client.breakers.list().items == []


async def test_a_worker_whose_jobs_name_no_provider_has_no_breakers(app):
    @app.job
    async def plain() -> None: ...

    await plain.aenqueue()
    worker = app.worker(drain=True)
    assert (await worker.run()).succeeded == 1
    assert worker.parts.breakers is None


async def test_what_is_held_is_passed_over_and_burns_no_attempt_while_others_run(app, provider):
    provider.status = 503

    @app.job(provider="crm")
    async def call() -> None:
        await asyncio.to_thread(fetch, provider.url)

    @app.job
    async def other() -> None: ...

    calls = await app.aenqueue_many(call.build() for _ in range(30))
    others = await app.aenqueue_many(other.build() for _ in range(5))
    tally = await drain(app)
    assert len(provider.calls) == 3
    assert set(states(app, others)) == {("succeeded", 1)}
    # Those that ran have failed, which is an attempt; those that were held have not.
    assert sorted(states(app, calls)).count(("scheduled", 1)) == 3
    assert {attempt for _, attempt in states(app, calls)} == {0, 1}
    assert (tally.retried, tally.dead) == (3, 0)
    [held] = app.client.breakers.list()
    assert (held.name, held.state, held.failures) == ("crm", "open", 3)
    # Not even claimed: one more worker calls nobody and gives nothing back.
    again = await drain(app)
    assert (again.released, len(provider.calls)) == (0, 3)


async def test_a_category_that_counts_rate_limits_as_attempts_burns_none_for_what_is_held(app):
    @app.job(provider="crm", category=app.category(Category(name="c", rate_limit_burns_attempt=True)).name)
    async def call() -> None:
        raise RateLimited("1m", counted=True)

    jobs = await app.aenqueue_many(call.build() for _ in range(15))
    await drain(app)
    assert sorted(attempt for _, attempt in states(app, jobs)) == [0] * 12 + [1] * 3


async def test_a_tick_returns_at_once_from_what_is_held(app, provider):
    @app.job(provider="crm")
    async def call() -> None:
        await asyncio.to_thread(fetch, provider.url)

    await app.aenqueue_many(call.build() for _ in range(30))
    done = await app.atick(30, 20)
    assert (len(provider.calls), done.retried, done.remaining) == (3, 3, 30)
    assert done.duration < timedelta(seconds=10)
    assert (await app.atick(30, 20)).processed == 0


async def test_each_key_has_a_breaker_of_its_own(app, provider):
    app.breaker("crm", failures=2)
    ran: list[str | None] = []

    @app.job(provider=lambda job: f"crm:{job.org_id}" if job.org_id else None)
    async def call(ctx: Context) -> None:
        ran.append(ctx.job.org_id)
        if ctx.job.org_id in {"acme", None}:
            raise RateLimited(60)

    jobs = {org: call.using(org_id=org).build() for org in ("acme", "bolt")}
    await app.aenqueue_many([jobs["acme"]] * 6 + [jobs["bolt"]] * 6 + [call.build()] * 2)
    await drain(app)
    assert sorted(ran, key=str) == [None] * 2 + ["acme"] * 2 + ["bolt"] * 6
    assert [held.name for held in app.client.breakers.list()] == ["crm:acme"]


@pytest.mark.parametrize("named", [7, "queue:q:default", "x" * 300])
async def test_a_name_that_is_none_fails_its_job_and_no_other(app, named):
    @app.job(provider=lambda job: named if job.payload["bad"] else None)
    async def call(bad: bool) -> None: ...

    jobs = [await call.aenqueue(bad=bad) for bad in (True, False)]
    tally = await drain(app)
    assert (tally.succeeded, tally.retried) == (1, 1)
    assert app.client.jobs.get(jobs[0].id).error.error_class in {"InvalidSetting", "InvalidJob"}


async def test_a_queue_has_a_breaker_if_one_is_asked_for(app, provider):
    app.breaker(queue="q:crm", failures=2)

    @app.job(queue="q:crm")
    async def call() -> None:
        await asyncio.to_thread(fetch, provider.url)

    @app.job
    async def other() -> None: ...

    await app.aenqueue_many([call.build() for _ in range(20)] + [other.build() for _ in range(3)])
    tally = await drain(app)
    assert (len(provider.calls), tally.succeeded) == (2, 3)
    assert [held.name for held in app.client.breakers.list()] == ["queue:q:crm"]
    assert (await drain(app)).released == 0


async def test_an_operator_holds_a_provider_and_lets_go_while_a_worker_runs(app, provider):
    provider.status = 200

    @app.job(provider="crm")
    async def call() -> None:
        await asyncio.to_thread(fetch, provider.url)

    @app.job
    async def other() -> None: ...

    async with app.worker() as worker:
        await call.aenqueue()
        await until(lambda: worker.tally.succeeded == 1)
        app.client.breakers.open("crm", reason="their maintenance")
        await until(worker.parts.breakers.held_types)
        held = await call.aenqueue()
        await other.aenqueue()
        await until(lambda: worker.tally.succeeded == 2)
        assert (len(provider.calls), states(app, [held])) == (1, [("queued", 0)])
        app.client.breakers.close("crm", reason="over")
        await until(lambda: worker.tally.succeeded == 3)
    assert app.client.breakers.get("crm").clean


async def test_who_closes_a_breaker_has_its_jobs_run_at_once(app, caplog):
    limited, ran = ["1h"] * 3, []

    @app.job(provider="crm")
    async def call() -> None:
        if limited:
            raise RateLimited(after=limited.pop())
        ran.append(1)

    await app.aenqueue_many(call.build() for _ in range(10))
    caplog.set_level("INFO", "onward.worker")
    async with app.worker():
        await until(lambda: app.client.breakers.get("crm").state == "open")
        await until(lambda: app.client.jobs.count().total(JobState.RUNNING) == 0)
        app.client.breakers.close("crm", reason="they are back")
        await until(lambda: len(ran) == 7)
        await until(lambda: "is closed" in caplog.text)
    assert app.client.jobs.count().total(JobState.SCHEDULED) == 3, (
        "those were told themselves when to come back"
    )
    lines = [record.getMessage() for record in caplog.records if "the breaker of" in record.getMessage()]
    assert len(lines) == 2
    assert lines[0].startswith("the breaker of crm is open until 20")
    assert lines[0].endswith(": 3 jobs in a row were pushed back, the last with status 429")
    assert lines[1] == "the breaker of crm is closed: its jobs run again"


async def test_what_an_operator_opens_is_told_once_by_each_worker_with_the_reason(app, caplog):
    app.breaker("crm")
    app.breaker("mail")
    caplog.set_level("INFO", "onward.worker")
    async with app.worker():
        app.client.breakers.open("crm", reason="their maintenance")
        await until(lambda: "crm is open" in caplog.text)
        # To see this one the worker has to look again.
        app.client.breakers.open("mail", reason="too slow")
        await until(lambda: "mail is open" in caplog.text)
    told = [record.getMessage() for record in caplog.records if "the breaker of" in record.getMessage()]
    assert told == [
        "the breaker of crm is open until an operator closes it: their maintenance",
        "the breaker of mail is open until an operator closes it: too slow",
    ]


async def test_two_workers_let_one_through_together(app, provider):
    @app.job(provider="crm")
    async def call() -> None:
        await asyncio.to_thread(fetch, provider.url)

    settings = app.breaker("crm", failures=2, hold="0.2s")
    for answer in [Answer(pushed_back=True)] * 2:
        app.client.worker.breakers.answered("crm", None, answer, settings)
    await app.aenqueue_many(call.build() for _ in range(20))
    gate = threading.Event()
    provider.status, provider.slow = 200, lambda: gate.wait(SOON)
    async with app.worker() as one, app.worker() as two:
        await until(lambda: provider.calls)
        await asyncio.sleep(0.5)
        assert len(provider.calls) == 1, "one of them tries, the other nineteen wait"
        gate.set()
        await until(lambda: one.tally.succeeded + two.tally.succeeded == 20)
    assert app.client.breakers.get("crm").clean


@pytest.mark.parametrize("executor", ["thread", "process"])
async def test_jobs_in_threads_and_processes_are_held_alike(postgres_url, tmp_path, provider, executor):
    clients = Clients(f"sqlite:///{tmp_path}/onward.db", policies=process_jobs.app.policies)
    job_type = process_jobs.call if executor == "thread" else process_jobs.call_from_process
    clients.sync.enqueue_many(job_type.build(url=provider.url) for _ in range(4))
    clients.sync.breakers.get("crm")
    worker = Worker(process_jobs.app.handlers, clients, drain=True, max_jobs=4)
    async with asyncio.timeout(SOON):
        tally = await worker.run()
    assert len(provider.calls) == 2
    assert (tally.retried, tally.released) == (2, 2)
    clients.close()


async def test_who_waits_for_its_probe_can_be_cancelled_and_its_time_out_has_not_begun(app, provider):
    provider.status = 200
    gate = threading.Event()
    provider.slow = lambda: gate.wait(SOON)

    @app.job(provider="crm", timeout="0.4s")
    def in_thread() -> None: ...

    @app.job(provider="crm", timeout="0.4s")
    async def on_loop() -> None: ...

    @app.job(provider="crm")
    async def first() -> None:
        await asyncio.to_thread(fetch, provider.url)

    await first.aenqueue()
    async with app.worker() as worker:
        await until(lambda: provider.calls)
        jobs = [await one.aenqueue() for one in (in_thread, on_loop, in_thread, on_loop)]
        await until(lambda: len(worker.parts.executor.running.runs) == 5)
        for job in jobs[:2]:
            app.client.jobs.cancel(job.id, reason="not any more")
        await until(lambda: states(app, jobs[:2]) == [("cancelled", 1)] * 2)
        await asyncio.sleep(0.6)
        gate.set()
        await until(lambda: states(app, jobs[2:]) == [("succeeded", 1)] * 2)


async def test_a_worker_that_stops_gives_back_who_waits_for_its_probe(app, provider):
    gate = threading.Event()
    provider.status, provider.slow = 200, lambda: gate.wait(SOON)

    @app.job(provider="crm")
    def call() -> None:
        fetch(provider.url)

    jobs = await app.aenqueue_many(call.build() for _ in range(5))
    worker = app.worker()
    async with worker:
        await until(lambda: len(worker.parts.executor.running.runs) == 5 and provider.calls)
        worker.stop()
        await until(lambda: len(worker.parts.executor.running.runs) == 1)
        gate.set()
    assert sorted(states(app, jobs)) == [("queued", 0)] * 4 + [("succeeded", 1)]


async def test_a_slot_is_not_kept_for_long_by_who_waits(app, provider):
    gate = threading.Event()
    provider.status, provider.slow = 200, lambda: gate.wait(SOON)

    @app.job(provider="crm")
    async def call() -> None:
        await asyncio.to_thread(fetch, provider.url)

    @app.job
    async def other() -> None: ...

    await app.aenqueue_many(call.build() for _ in range(3))
    async with app.worker(concurrency=2, timings=Timings(provider=0.2)) as worker:
        await until(lambda: provider.calls)
        await other.aenqueue()
        await until(lambda: worker.tally.succeeded == 1)
        gate.set()
        await until(lambda: worker.tally.succeeded == 4)


async def test_a_call_that_takes_long_does_not_keep_the_others_for_ever(app, provider):
    app.breaker("crm", patience="0.1s")
    gate = threading.Event()
    provider.status, provider.slow = 200, lambda: gate.wait(SOON)

    @app.job(provider="crm")
    async def call() -> None:
        await asyncio.to_thread(fetch, provider.url)

    await app.aenqueue_many(call.build() for _ in range(4))
    async with app.worker() as worker:
        await until(lambda: len(provider.calls) == 4)
        gate.set()
        await until(lambda: worker.tally.succeeded == 4)


async def test_an_end_is_written_also_when_its_breaker_can_not_be(app, provider, caplog):
    @app.job(provider="crm")
    async def call() -> None:
        await asyncio.to_thread(fetch, provider.url)

    job = await call.aenqueue()
    rename = f"ALTER TABLE {app.client.store.prefix}breakers RENAME COLUMN probe TO"
    async with app.worker() as worker:
        execute(app.client, f"{rename} gone")
        await until(lambda: worker.tally.retried == 1)
        await until(lambda: "could not be told" in caplog.text)
        assert worker.parts.breakers.held_types() == {"call"}, "at least here nobody calls"
        execute(app.client, f"{rename.replace(' probe ', ' gone ')} probe")
    assert states(app, [job]) == [("scheduled", 0)]


async def test_who_can_not_ask_for_a_probe_waits_for_it(app, provider, caplog):
    app.client.worker.breakers.answered("crm", None, Answer(pushed_back=True))
    provider.status = 200

    @app.job(provider="crm")
    async def call() -> None:
        await asyncio.to_thread(fetch, provider.url)

    rename = f"ALTER TABLE {app.client.store.prefix}breakers RENAME COLUMN probe TO"
    async with app.worker() as worker:
        execute(app.client, f"{rename} gone")
        await call.aenqueue()
        await until(lambda: "can't be asked" in caplog.text)
        assert provider.calls == []
        execute(app.client, f"{rename.replace(' probe ', ' gone ')} probe")
        await until(lambda: worker.tally.succeeded == 1)


def test_a_breaker_that_makes_no_sense_is_refused():
    app = Onward("sqlite:///never.db")
    app.breaker("crm", hold="1m")
    for wrong in (
        app.breaker,
        lambda: app.breaker("a", queue="b"),
        lambda: app.breaker("crm"),
        lambda: app.breaker("a", failures=0),
        lambda: app.breaker("queue:a"),
        lambda: app.job(name="work", provider="")(lambda: None),
    ):
        with pytest.raises((InvalidSetting, ValueError)):
            wrong()

    misspelt: dict[str, Any] = {"failurs": 3}
    unknown: dict[str, Any] = {"queu": "q:a"}
    with pytest.raises(InvalidSetting, match=r'no option "failurs"\. Did you mean "failures"'):
        app.breaker("a", **misspelt)
    with pytest.raises(InvalidSetting, match='Did you mean "queue"'):
        app.breaker(**unknown)

    async def name(job: Job) -> str:
        return job.id

    providers: list[Any] = [7, name, "queue:q:default"]
    for provider in providers:
        with pytest.raises(InvalidSetting, match="provider"):

            @app.job(provider=provider)
            def call() -> None: ...
