"""A handler may ask whether to give way, and its children carry on where they came from."""

import asyncio
import logging
import threading

import pytest

from onward import Cancelled, Context, InvalidSetting, NewJob, Onward
from onward.core.records.usage import Usage
from onward.core.work.lifecycle import End
from onward.core.work.progress import Report
from onward.results import Job

TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


class Attempt:
    """An attempt whose job can be asked to give way."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.cancel_reason: str | None = None
        self._asked = threading.Event()
        self.used: list[Usage] = []
        self.artifacts = 0
        self.provider: str | None = None
        self.last_report: Report | None = None
        self.reports: list[Report] = []

    def wait_cancelled(self, timeout: float) -> bool:
        return self._asked.wait(timeout)

    def meter(self, used: Usage) -> None:
        self.used.append(used)

    def usage(self) -> tuple[Usage, ...]:
        return tuple(self.used)

    def report(self, report: Report) -> None:
        self.last_report = report
        self.reports.append(report)

    def beginning(self) -> None:
        raise NotImplementedError

    def undone(self) -> None:
        raise NotImplementedError

    def completing(self, end: End) -> None:
        raise NotImplementedError

    def completed(self, spent: frozenset[str]) -> None:
        raise NotImplementedError

    def cancel(self, reason: str) -> None:
        self.cancel_reason = reason
        self._asked.set()


@pytest.fixture
def started(app: Onward):
    def started(**fields) -> tuple[Attempt, Context]:
        app.client.worker.register("w")
        app.client.enqueue(NewJob(job_type="parent", **fields))
        [job] = app.client.worker.claim("q:default", worker_id="w")
        run = Attempt(job)
        return run, Context(run, app.clients)

    return started


def test_a_handler_gives_way_when_it_is_asked_to(started):
    run, ctx = started()
    assert not ctx.cancelled
    ctx.check_cancelled()
    ctx.sleep(0)
    run.cancel("deploy")
    assert ctx.cancelled
    for ask in (ctx.check_cancelled, lambda: ctx.sleep(60), lambda: list(ctx.progress([1]))):
        with pytest.raises(Cancelled) as raised:
            ask()
        assert raised.value.reason == "deploy"


def test_a_sleep_ends_as_soon_as_the_handler_should_give_way(started):
    run, ctx = started()
    other = threading.Timer(0.02, run.cancel, ("enough",))
    other.start()
    with pytest.raises(Cancelled, match="enough"):
        ctx.sleep(60)
    other.join()


def test_progress_gives_every_item_and_stops_between_two(started):
    run, ctx = started()
    assert list(ctx.progress(iter("abc"))) == ["a", "b", "c"]
    items = ctx.progress("abc")
    assert next(items) == "a"
    run.cancel("enough")
    with pytest.raises(Cancelled):
        next(items)


@pytest.mark.anyio
async def test_a_blocking_sleep_is_refused_on_the_event_loop(started):
    _, ctx = started()
    with pytest.raises(InvalidSetting, match=r"await ctx\.asleep"):
        ctx.sleep(0)


@pytest.mark.anyio
async def test_an_awaited_sleep_ends_soon_after_the_handler_should_give_way(started):
    run, ctx = started()
    await ctx.asleep(0)
    sleeping = asyncio.create_task(ctx.asleep(60))
    await asyncio.sleep(0)
    run.cancel("enough")
    async with asyncio.timeout(30):
        with pytest.raises(Cancelled, match="enough"):
            await sleeping


def test_a_log_record_carries_its_job(started, caplog):  # S4-55
    _, ctx = started()
    with caplog.at_level(logging.INFO, "onward.job"):
        ctx.log.info("half of it")
    [record] = caplog.records
    assert (record.job_id, record.job_type, record.attempt) == (ctx.job.id, "parent", 1)
    assert ctx.log is ctx.log


def test_a_child_carries_on_what_it_does_not_say_itself(app, started):  # S4-64
    _, ctx = started(
        org_id="o", project_id="p", actor_type="user", actor_id="1", request_id="r", correlation_id="c",
        traceparent=TRACE,
    )  # fmt: skip

    @app.job
    def child(n: int) -> None:
        raise NotImplementedError

    job = ctx.enqueue(child.build(1)).refresh()
    assert (job.payload, job.parent_id, job.traceparent) == ({"n": 1}, ctx.job.id, TRACE)
    assert (job.org_id, job.project_id, job.request_id, job.correlation_id) == ("o", "p", "r", "c")
    assert (job.actor_type, job.actor_id) == ("user", "1")
    own = child.using(actor="cron:nightly", correlation_id="d").build(1)
    job = ctx.enqueue(own).refresh()
    assert (job.org_id, job.project_id, job.correlation_id, job.parent_id) == ("o", "p", "d", ctx.job.id)
    assert (job.actor_type, job.actor_id) == ("cron", "nightly")


@pytest.mark.anyio
async def test_a_child_of_a_job_without_correlation_is_correlated_by_its_parent(app, started):
    _, ctx = started()
    handle = await ctx.aenqueue(NewJob(job_type="child"))
    job = await handle.arefresh()
    assert (job.correlation_id, job.parent_id, job.org_id) == (ctx.job.id, ctx.job.id, None)
    await app.aclose()
