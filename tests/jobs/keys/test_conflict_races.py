"""Enqueues that race for the job of one key: with its end, and with each other."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

from onward import JobFilter, JobState, NewJob, Succeeded
from tests.jobs.keys.test_conflicts import add, ask, at, bring, working

__all__ = ["working"]


def test_resets_that_race_with_the_end_of_a_run_lose_nothing(client):
    # R10, F47: each reset is seen by a run that begins after it.
    client.worker.register("w")
    enqueued = client.enqueue(NewJob(job_type="t", key="k", payload={"n": 0}))
    seen: list[int] = []
    stop = threading.Event()

    def work() -> None:
        while not (stop.is_set() and client.jobs.get(enqueued.id).state == JobState.SUCCEEDED):
            for job in client.worker.claim("q:default", 1, worker_id="w"):
                seen.append(job.payload["n"])
                client.worker.finish([job.end_with(Succeeded())])

    def ask_again(start: int) -> None:
        for n in range(start, start + 30):
            answer = client.enqueue(
                NewJob(job_type="t", key="k", payload={"n": n}, on_conflict="reset", unique="forever")
            )
            assert answer.id == enqueued.id
            assert answer.created or answer.change is not None

    with ThreadPoolExecutor(4) as pool:
        working = pool.submit(work)
        asking = [pool.submit(ask_again, start) for start in (100, 200, 300)]
        for one in asking:
            one.result(60)
        stop.set()
        working.result(60)
    assert len(client.jobs.list(JobFilter(key="k")).items) == 1
    assert seen[-1] in {129, 229, 329}
    events = [event.event for event in client.jobs.events(enqueued.id)]
    assert events.count("job.started") == events.count("job.succeeded") == len(seen)
    assert "job.stale_result_rejected" not in events


def test_coalescing_threads_lose_no_payload(client):
    client.enqueue(NewJob(job_type="t", key="k", payload={"n": 0}))

    def add_ten(_: int) -> None:
        for _ in range(10):
            client.enqueue(NewJob(job_type="t", key="k", payload={"n": 1}, on_conflict="coalesce", merge=add))

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(add_ten, range(4)))
    [job] = client.jobs.list().items
    assert job.payload == {"n": 40}


def test_threads_that_coalesce_with_a_running_job_lose_no_payload(working):
    job = bring(working, "running")

    def add_ten(_: int) -> None:
        for _ in range(10):
            ask(working, 1, on_conflict="coalesce", merge=add, now=10)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(add_ten, range(4)))
    working.at(at(20)).worker.finish([job.end_with(Succeeded())])
    assert working.jobs.get(job.id).payload == {"n": 41}
