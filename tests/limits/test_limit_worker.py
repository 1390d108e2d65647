"""Workers keep to limits: at once, at a rate, in order, and as soon as there is room."""

from __future__ import annotations

import asyncio
import time
from datetime import timedelta
from typing import Any

import pytest

from onward import Context, JobState, Limit, Onward, Retry, RetryPolicy
from onward.worker.loops.admitter import Admitter
from onward.worker.outage import Outage
from tests.worker.waiting import drain, until

pytestmark = pytest.mark.anyio


class Crowd:
    """Counts who is in at once, by key."""

    def __init__(self) -> None:
        self.within: dict[str, int] = {}
        self.most: dict[str, int] = {}

    async def visit(self, key: str) -> None:
        self.within[key] = self.within.get(key, 0) + 1
        self.most[key] = max(self.most.get(key, 0), self.within[key])
        await asyncio.sleep(0.002)
        self.within[key] -= 1


async def test_no_more_run_at_once_than_the_limit_says_and_all_end(served: Onward):
    crowd = Crowd()

    @served.job(limit=3)
    async def work() -> None:
        await crowd.visit("all")

    await served.aenqueue_many(work.build() for _ in range(20))
    tally = await drain(served)
    assert (tally.succeeded, crowd.most) == (20, {"all": 3})


async def test_each_org_and_each_key_has_permits_of_its_own(served: Onward):
    crowd = Crowd()

    @served.job(limit="org")
    async def by_org(ctx: Context) -> None:
        await crowd.visit(f"org {ctx.job.org_id}")

    @served.job(limit=lambda job: job.payload["customer"])
    async def by_customer(customer: str) -> None:
        await crowd.visit(f"customer {customer}")

    for org in ("a", "b"):
        await served.aenqueue_many(by_org.using(org_id=org).build() for _ in range(4))
    await served.aenqueue_many(by_customer.build(customer=name) for name in "xyxyxy")
    tally = await drain(served)
    assert tally.succeeded == 14
    assert set(crowd.most) == {"org a", "org b", "customer x", "customer y"}
    assert set(crowd.most.values()) == {1}


async def test_job_types_that_name_the_same_limit_share_it(served: Onward):
    crowd = Crowd()
    shared = Limit(2, name="crm")

    @served.job(limit=shared)
    async def pull() -> None:
        await crowd.visit("crm")

    @served.job(limit=shared)
    async def push() -> None:
        await crowd.visit("crm")

    await served.aenqueue_many([*(pull.build() for _ in range(6)), *(push.build() for _ in range(6))])
    await drain(served)
    assert crowd.most == {"crm": 2}


async def test_a_job_that_arrives_while_the_worker_waits_starts_at_once(served: Onward):
    @served.job(limit=1)
    async def work() -> None: ...

    async with served.worker():
        # The worker waits once the first has ended.
        took = []
        for _ in range(4):
            before = time.monotonic()
            handle = await work.aenqueue()
            await handle.ajoin(timeout=5)
            took.append(time.monotonic() - before)
    assert min(took) < 0.5, "woken, not by the round of every second"


async def test_a_rate_spreads_the_starts(served: Onward):
    starts: list[float] = []

    @served.job(limit=Limit(rate="20/s", burst=1))
    async def mail() -> None:
        starts.append(time.monotonic())

    await served.aenqueue_many(mail.build() for _ in range(6))
    tally = await drain(served)
    assert tally.succeeded == 6
    assert starts[-1] - starts[0] >= 0.2


async def test_a_line_keeps_its_order_through_retries(served: Onward):
    order: list[tuple[str, int]] = []
    retry = RetryPolicy(kind="fixed", base=timedelta(milliseconds=10), max_attempts=5, jitter=False)

    @served.job(limit=Limit(per=lambda job: job.payload["key"], ordered=True), retry=retry)
    async def step(ctx: Context, key: str, number: int) -> None:
        order.append((key, number))
        if number in {0, 3} and ctx.job.attempt < 2:
            raise Retry("once more", after=0.01)

    await served.aenqueue_many(
        step.using(priority=9 - number).build(key=key, number=number) for number in range(7) for key in "ab"
    )
    tally = await drain(served)
    assert tally.succeeded == 14
    for key in "ab":
        line = [number for name, number in order if name == key]
        assert line == [0, 0, 1, 2, 3, 3, 4, 5, 6]


async def test_what_an_operator_sets_holds_at_once(served: Onward):
    hold, crowd = asyncio.Event(), Crowd()

    @served.job(limit=1)
    async def work() -> None:
        crowd.within["all"] = crowd.within.get("all", 0) + 1
        await hold.wait()

    await served.aenqueue_many(work.build() for _ in range(4))
    async with served.worker():
        await until(lambda: crowd.within.get("all") == 1)
        seen = await served.aclient.limits.set("work", concurrency=3, reason="a quiet night")
        assert (seen.terms.concurrency, seen.active, seen.waiting) == (3, 1, 3)
        await until(lambda: crowd.within.get("all") == 3)
        hold.set()


async def test_jobs_of_a_limit_that_was_taken_out_of_the_code_still_run(served: Onward):
    done: list[int] = []

    @served.job
    async def work() -> None:
        done.append(1)

    limited: Any = work.build()
    await served.aclient.worker.limits.declare()
    other = Onward(**_place(served))

    @other.job(name="work", limit=1)
    async def before() -> None: ...

    await other.aclient.worker.limits.declare()
    await other.aenqueue_many(before.build() for _ in range(3))
    await other.aclose()
    await served.aclient.enqueue(limited)
    await drain(served)
    assert len(done) == 4
    assert (await served.aclient.jobs.count()).total(JobState.BLOCKED) == 0


def _place(app: Onward) -> dict[str, Any]:
    store: Any = app.client.store
    if store.database == "postgres":
        return {"url": store.url, "schema": store.prefix.rstrip(".")}
    return {"url": f"sqlite:///{store.file.path}"}


async def test_after_an_admission_a_worker_knows_when_the_rate_has_more(served: Onward):
    @served.job(limit=Limit(rate="20/s", burst=1))
    async def work() -> None: ...

    await served.aenqueue_many(work.build() for _ in range(3))
    admitter = Admitter(served.aclient, Outage())
    await served.aclient.worker.limits.declare()
    made, again = await admitter.admit_ready("")
    assert made
    assert again is not None
    assert again <= 0.05
