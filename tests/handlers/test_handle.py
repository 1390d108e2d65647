"""A handle tells what became of its job."""

import asyncio
import threading
from uuid import uuid4

import pytest

from onward import (
    Cancelled,
    Client,
    Failed,
    Handle,
    InvalidSetting,
    JobFailed,
    JobNotEnded,
    JobState,
    Onward,
    Succeeded,
)


@pytest.fixture
def work(app: Onward):
    @app.job(max_attempts=1)
    def work(n: int = 1) -> dict[str, int]:
        raise NotImplementedError

    return work


def end(client: Client, outcome) -> None:
    """Do what a worker does."""
    worker = f"worker-{uuid4()}"
    client.worker.register(worker)
    [job] = client.worker.claim("q:default", worker_id=worker)
    client.worker.finish([job.end_with(outcome)]).require()
    client.worker.retire(worker)


def test_a_result_is_given_once_the_job_has_succeeded(app, work):
    handle: Handle[dict[str, int]] = work.enqueue()
    with pytest.raises(JobNotEnded, match=rf"job {handle.id} \(work\) is still queued"):
        handle.result(timeout=0)
    with pytest.raises(TimeoutError, match=r"is still queued after 0\.03 s; give a longer timeout="):
        handle.result(timeout="30ms")
    end(app.client, Succeeded({"n": 2}))
    assert repr(handle) == f"Handle({handle.id}, queued, created=True)"
    assert handle.result() == {"n": 2}
    assert repr(handle) == f"Handle({handle.id}, succeeded, created=True)"


def test_a_dead_job_has_no_result_but_a_reason(app, work):
    handle = work.enqueue()
    end(app.client, Failed(ValueError("no card")))
    with pytest.raises(
        JobFailed, match=r"\(work\) is dead after attempt 1 of 1: ValueError: no card"
    ) as failed:
        handle.result()
    assert (failed.value.job_id, failed.value.code) == (handle.id, "ON-JOB-004")


def test_a_cancelled_job_says_why(app, work):
    handle = work.enqueue()
    assert handle.cancel(reason="not needed").state == JobState.CANCELLED
    assert handle.state == JobState.CANCELLED
    with pytest.raises(JobFailed, match="was cancelled: not needed"):
        handle.result()


def test_a_job_that_gave_way_says_why(app, work):
    handle = work.enqueue()
    end(app.client, Cancelled("shut down"))
    with pytest.raises(JobFailed, match="was cancelled: shut down"):
        handle.result()


def test_a_result_is_waited_for(app, work):
    handle = work.enqueue()
    other = threading.Timer(0.05, end, (app.client, Succeeded("done")))
    other.start()
    assert handle.result() == "done"
    other.join()


def test_a_join_returns_the_job_whatever_it_came_to(app, work):
    dead, cancelled = work.using(priority=1).enqueue(), work.using(priority=9).enqueue()
    with pytest.raises(JobNotEnded, match="is still queued after 0 s"):
        dead.join(timeout=0)
    other = threading.Timer(0.05, end, (app.client, Failed(ValueError("no card"))))
    other.start()
    assert dead.join().state == JobState.DEAD
    other.join()
    cancelled.cancel(reason="not needed")
    assert cancelled.join().state == cancelled.state == JobState.CANCELLED


@pytest.mark.anyio
async def test_waiting_leaves_the_event_loop_free(app, work):
    handle = await work.aenqueue()
    with pytest.raises(JobNotEnded):
        await handle.ajoin(timeout=0)
    waiting = asyncio.create_task(handle.ajoin())
    await asyncio.sleep(0)
    await asyncio.to_thread(end, app.client, Succeeded([1]))
    assert (await waiting).result == [1]
    assert await handle.aresult() == [1]
    await app.aclose()


@pytest.mark.anyio
async def test_a_cancellation_can_be_awaited(app, work):
    handle = await work.aenqueue()
    assert (await handle.acancel(reason="no")).state == JobState.CANCELLED
    with pytest.raises(JobFailed):
        await handle.aresult()
    await app.aclose()


@pytest.mark.anyio
async def test_a_wait_in_a_running_event_loop_is_refused_and_names_the_async_call(app, work):
    handle = work.enqueue()
    with pytest.raises(InvalidSetting, match=r"handle.result\(\) would block .* await handle.aresult"):
        handle.result()
    with pytest.raises(InvalidSetting, match=r"handle.join\(\) would block .* await handle.ajoin"):
        handle.join(timeout=5)
    with pytest.raises(JobNotEnded):
        handle.join(timeout=0)
