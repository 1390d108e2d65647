"""One recipient that a provider refuses for ever, among those that it serves."""

from __future__ import annotations

import asyncio
import time
from datetime import timedelta

import pytest
from msgspec.structs import replace

from onward import Onward, RateLimited, Released
from onward.core.failures.breaker import Answer
from onward.core.work.error_record import ErrorRecord
from onward.results import Job
from onward.worker.attempts.attempt import Running
from onward.worker.attempts.breaker_gate import Breakers
from tests.worker.waiting import SOON, until

pytestmark = pytest.mark.anyio

SECOND = timedelta(seconds=1)


def mail_to(app: Onward, wait: float, refused: list[str]):
    """A job type whose provider answers 429 to one address."""

    @app.job(provider="mail")
    async def send(address: str) -> None:
        if address == "bad":
            refused.append(address)
            raise RateLimited(after=wait)

    return send


async def test_one_recipient_that_is_limited_for_ever_stops_no_mail_to_others(app):
    refused: list[str] = []
    send = mail_to(app, 0.02, refused)
    await send.aenqueue("bad")
    async with app.worker() as worker:
        await until(lambda: len(refused) >= 4)
        seen = app.client.breakers.get("mail")
        assert (seen.state, seen.failures) == ("closed", 1)
        began = time.monotonic()
        await send.aenqueue("good")
        await until(lambda: worker.tally.succeeded == 1)
        assert time.monotonic() - began < 5


async def test_when_all_waiting_mail_is_refused_a_new_one_waits_for_the_retry_after_only(app):
    refused: list[str] = []
    send = mail_to(app, 2, refused)
    bad = await app.aenqueue_many(send.build("bad") for _ in range(3))
    async with app.worker() as worker:
        await until(lambda: app.client.breakers.get("mail").state == "open")
        held = app.client.breakers.get("mail")
        assert (held.failures, set(held.failed_jobs)) == (3, {str(job.id) for job in bad})
        assert held.until - held.opened_at == 2 * SECOND
        began = time.monotonic()
        await send.aenqueue("good")
        await until(lambda: worker.tally.succeeded == 1)
        assert time.monotonic() - began < 10


def of(job: Job, *, failed: bool) -> Job:
    return replace(job, error=ErrorRecord("HTTPError", status=429)) if failed else job


async def claimed(app: Onward, count: int) -> tuple[Breakers, list[Job]]:
    """A breaker that counts one failure, and claimed jobs that wait for it."""

    @app.job(provider="mail")
    async def send() -> None: ...

    await app.aenqueue_many(send.build() for _ in range(count))
    app.client.worker.register("w")
    jobs = app.client.worker.claim("q:default", count, worker_id="w")
    await app.aclient.worker.breakers.answered("mail", None, Answer(pushed_back=True, job_id="other"))
    breakers = Breakers.of(app.handlers, app.policies, app.aclient, lambda: "w")
    assert breakers is not None
    breakers.line("mail").doubt()
    return breakers, jobs


async def test_a_job_that_has_not_failed_probes_before_those_that_have(app):
    breakers, jobs = await claimed(app, 3)
    send, entered = app.handlers["send"], []

    async def enter(job: Job) -> None:
        assert await breakers.enter(Running(job, send)) is None
        entered.append(job.id)

    waiting = [asyncio.create_task(enter(of(job, failed=True))) for job in jobs[:2]]
    await until(lambda: breakers.line("mail").idle is False)
    waiting.append(asyncio.create_task(enter(jobs[2])))
    await until(lambda: entered)
    assert entered == [jobs[2].id]
    for task in waiting:
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
    await breakers.close()


async def test_when_only_failed_jobs_wait_one_of_them_probes(app):
    breakers, jobs = await claimed(app, 2)
    send = app.handlers["send"]
    waiting = [asyncio.create_task(breakers.enter(Running(of(job, failed=True), send))) for job in jobs]
    done, rest = await asyncio.wait(waiting, timeout=SOON, return_when=asyncio.FIRST_COMPLETED)
    assert [task.result() for task in done] == [None]
    for task in rest:
        task.cancel()
    await asyncio.gather(*rest, return_exceptions=True)
    await breakers.close()


async def test_after_a_hold_a_failed_job_leaves_its_slot_to_what_is_ready(app):
    refused: list[str] = []
    send = mail_to(app, 1, refused)
    await app.aenqueue_many(send.build("bad") for _ in range(6))
    async with app.worker(concurrency=1) as worker:
        await until(lambda: len(refused) >= 6)
        calls = len(refused)
        await send.aenqueue("good")
        await until(lambda: worker.tally.succeeded == 1)
        assert len(refused) <= calls + 3, "the good mail does not wait for all six"
        assert worker.tally.released > 0


async def test_not_more_than_a_hundred_failed_jobs_are_put_off_after_a_hold(app):
    breakers, [job, *_] = await claimed(app, 2)
    line, send = breakers.line("mail"), app.handlers["send"]
    line.hold(timedelta(microseconds=1))
    for _ in range(100):
        assert isinstance(await breakers.enter(Running(of(job, failed=True), send)), Released)
    assert await breakers.enter(Running(of(job, failed=True), send)) is None
    await breakers.close()
