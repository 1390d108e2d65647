"""Worker processes that are killed, frozen, poisoned and blocked: no job is lost, and none ends twice."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from onward import JobState
from onward.core.jobs.filters import JobFilter
from tests.extent import FULL
from tests.worker.faults.faults_history import broken, longest_wait, lost_jobs
from tests.worker.faults.place import Place, chosen_place, pid_of, until

SWEEP = 2.0
# What a worker process does by itself, whatever the database: on one of them unless all is run.
ON_ONE = pytest.mark.parametrize("place", ["sqlite", "postgres"] if FULL else ["postgres"], indirect=True)


@pytest.fixture(params=["sqlite", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    """Empty tables, once for each database."""
    with chosen_place(request, tmp_path) as place:
        yield place


def running_in(place: Place, pid: int) -> list[str]:
    """Give the running jobs that a process holds."""
    page = place.client.jobs.list(JobFilter(state="running"), limit=1000)
    return [job.id for job in page if pid_of(job.worker_id) == pid]


def kill_in_the_middle(place: Place, lease: float, *, seconds: float) -> float:
    """Kill the leader of two workers in the middle of 500 jobs; gives the longest wait for a new start."""
    options = ("--lease", f"{lease}s", "--concurrency", "5")
    with place.worker(*options) as first, place.worker(*options) as second:
        for worker in (first, second):
            worker.wait_for("  worker ")
        # The worst case: who would have rescued the jobs dies with them.
        until(lambda: place.leader() is not None)
        leader = place.leader()
        assert leader in (first.pid, second.pid)
        ids = place.put_many(500, "step", seconds=0.02)
        until(lambda: place.ended() >= 100 and running_in(place, leader))
        os.kill(leader, signal.SIGKILL)
        since = datetime.now(UTC)
        until(lambda: place.ended() == 500, seconds, about=place.client.jobs.count)
    lost = lost_jobs(place.client, ids)
    assert lost, "the dead worker held jobs"
    other = second if leader == first.pid else first
    assert other.has_said(f"took back what silent workers had (jobs: {len(lost)})")
    assert broken(place.client, ids) == []
    assert all(place.client.jobs.get(job_id).attempt == 2 for job_id in lost)
    return longest_wait(place.client, lost, since)


# F01
@pytest.mark.parametrize("lease", [2.0, 30.0] if FULL else [2.0])
def test_a_worker_killed_in_the_middle_of_500_jobs_loses_none_and_none_ends_twice(place, lease):
    longest = kill_in_the_middle(place, lease, seconds=lease + 20)
    print(f"longest wait after kill -9, lease {lease} s: {longest:.2f} s")
    assert longest < lease + SWEEP + 1.0


@ON_ONE
def test_jobs_of_a_killed_process_under_a_supervisor_run_again_within_3_seconds(place):  # F01
    with place.worker("--processes", "2", "--concurrency", "5") as supervisor:
        supervisor.wait_for("  worker ")
        ids = place.put_many(200, "step", seconds=0.05)

        def busy() -> list[int]:
            page = place.client.jobs.list(JobFilter(state="running"), limit=1000)
            return sorted({pid_of(job.worker_id) for job in page})

        until(lambda: len(busy()) == 2 and place.ended() >= 20)
        killed = busy()[0]
        os.kill(killed, signal.SIGKILL)
        since = datetime.now(UTC)
        until(lambda: place.ended() == 200, about=place.client.jobs.count)
        supervisor.send(signal.SIGTERM)
        assert supervisor.end() == 0
    lost = lost_jobs(place.client, ids)
    assert lost
    assert broken(place.client, ids) == []
    longest = longest_wait(place.client, lost, since)
    print(f"longest wait after kill -9 of a supervised process: {longest:.2f} s")
    assert longest < 3.0


CLAIMS_AND_DIES = """
import os, signal, sys
from datetime import timedelta
from onward import Client
from onward.stores import open_store

client = Client(store=open_store(sys.argv[1], schema=sys.argv[2]))
client.worker.register("doomed:0:0", lease=timedelta(milliseconds=300))
assert len(client.worker.claim("q:default", 3, worker_id="doomed:0:0")) == 3
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_job_whose_worker_died_before_its_handler_began_runs_once(place, tmp_path):  # F03
    ids = [place.put("waits", gate=str(tmp_path / "gate")) for _ in range(3)]
    command = [sys.executable, "-c", CLAIMS_AND_DIES, place.url, place.schema]
    assert subprocess.run(command, check=False).returncode == -signal.SIGKILL
    assert {place.state(job_id) for job_id in ids} == {JobState.RUNNING}
    with place.worker("--lease", "2s") as worker:
        until(lambda: place.ended() == 3, about=place.client.jobs.count)
        worker.send(signal.SIGTERM)
        assert worker.end() == 0
    assert broken(place.client, ids) == []
    for job_id in ids:
        assert [run.outcome for run in place.client.jobs.attempts(job_id)] == ["lost", "succeeded"]
        assert worker.output.count(f"began waits {job_id}") == 1


# F04, F05
def test_a_frozen_worker_finds_its_results_refused_and_works_on_under_another_id(place, tmp_path):
    gate = tmp_path / "gate"
    with place.worker("--lease", "2s") as frozen:
        taken = place.put("waits", gate=str(gate))
        frozen.wait_for(f"began waits {taken}")
        cancelled = place.put("waits_in_a_thread", queue="q:other", gate=str(gate))
        frozen.wait_for(f"began waits_in_a_thread {cancelled}")
        first_id = place.client.jobs.get(taken).worker_id
        with place.worker("--lease", "2s", "-q", "q:default") as other:
            other.wait_for("  worker ")
            place.freeze(frozen)
            until(lambda: place.state(taken) == JobState.SUCCEEDED, about=place.client.jobs.count)
            until(lambda: place.client.jobs.cancel(cancelled, reason="tests").state == JobState.CANCELLED)
            gate.touch()
            frozen.send(signal.SIGCONT)
            frozen.wait_for("lost its lease")
            until(lambda: refusals(place, taken) == refusals(place, cancelled) == 1)
            assert place.client.jobs.get(taken).result == other.pid
            other.send(signal.SIGTERM)
            assert other.end() == 0
        after = place.put("step")
        until(lambda: place.state(after) == JobState.SUCCEEDED)
        frozen.send(signal.SIGTERM)
        assert frozen.end() == 0
    assert broken(place.client, [taken, cancelled, after]) == []
    assert (place.state(taken), place.state(cancelled)) == (JobState.SUCCEEDED, JobState.CANCELLED)
    for job_type, job_id in (("waits", taken), ("waits_in_a_thread", cancelled)):
        assert f"job {job_type} {job_id}: lease 1 was lost, its result is refused" in frozen.output
    again = place.client.jobs.get(after)
    assert pid_of(again.worker_id) == frozen.pid
    assert again.worker_id != first_id


def refusals(place: Place, job_id: str) -> int:
    events = [event.event for event in place.client.jobs.events(job_id)]
    return events.count("job.stale_result_rejected")


def test_a_frozen_leader_is_replaced(place, tmp_path):  # F13b
    with place.worker("--lease", "2s") as first:
        until(lambda: place.leader() == first.pid)
        held = place.put("waits", gate=str(tmp_path / "never"))
        first.wait_for("began waits")
        with place.worker("--lease", "2s") as second:
            second.wait_for("  worker ")
            place.freeze(first)
            took = until(lambda: place.leader() == second.pid)
            due = until(lambda: place.state(held) == JobState.SUCCEEDED)
            # Under its own lease, which is shorter than a leader's usual six seconds.
            assert took < 2.0 + SWEEP + 1.0
            assert took + due < 2.0 + SWEEP + 1.0
            first.send(signal.SIGCONT)
            first.wait_for("lost its lease")
            until(lambda: refusals(place, held) == 1)
            assert place.leader() == second.pid
    assert broken(place.client, [held]) == []


@ON_ONE
@pytest.mark.parametrize("lease", [1.5, 30.0] if FULL else [1.5])
def test_a_handler_that_blocks_the_loop_for_three_leases_keeps_its_job(place, lease):  # F11
    with place.worker("--lease", f"{lease}s") as rude:
        blocker = place.put("blocks", seconds=3 * lease)
        rude.wait_for("began blocks")
        with place.worker("--lease", f"{lease}s") as other:
            other.wait_for("  worker ")
            line = rude.wait_for("event loop blocked for")
            assert f"by job blocks {blocker}" in line
            between = place.put("step")
            until(lambda: place.state(between) == JobState.SUCCEEDED)
            assert place.state(blocker) == JobState.RUNNING
            until(lambda: place.state(blocker) == JobState.SUCCEEDED, 3 * lease + 10)
            rude.wait_for("event loop runs again after")
            ids = [blocker, between]
    assert broken(place.client, ids) == []
    job = place.client.jobs.get(blocker)
    assert (job.attempt, job.result) == (1, rude.pid)
    assert [run.outcome for run in place.client.jobs.attempts(blocker)] == ["succeeded"]


@ON_ONE
def test_poison_is_dead_after_its_attempts_while_other_jobs_flow(place):  # F07
    with place.worker("--processes", "2", "--concurrency", "3") as supervisor:
        supervisor.wait_for("  worker ")
        killer = place.put("poison", max_attempts=2)
        beside = place.put_many(60, "step", seconds=0.02)
        until(lambda: place.state(killer) == JobState.DEAD, about=place.client.jobs.count)
        after = place.put_many(20, "step")
        until(lambda: all(place.state(job_id) == JobState.SUCCEEDED for job_id in after))
        supervisor.send(signal.SIGTERM)
        assert supervisor.end() == 0
    # Who died twice beside it waits for its back-off.
    twice = [job_id for job_id in beside if place.client.jobs.get(job_id).crashes == 2]
    assert broken(place.client, [killer, *beside, *after], running=twice) == []
    dead = place.client.jobs.get(killer)
    assert (dead.state, dead.attempt, dead.crashes) == (JobState.DEAD, 2, 2)
    assert (dead.error.reason, dead.error.error_class) == ("crash_loop", "WorkerLost")  # R6
    assert {place.state(job_id) for job_id in set(beside) - set(twice)} == {JobState.SUCCEEDED}
    assert supervisor.output.count("was ended by SIGKILL") == 2


# F09
@ON_ONE
def test_a_draining_worker_keeps_its_lease_and_hears_cancellation(place, tmp_path):
    gate = tmp_path / "gate"
    with place.worker("--lease", "2s", "--grace", "15s") as draining, place.worker("--lease", "2s") as other:
        # The other one must have no part in this but to sweep.
        other.wait_for("  worker ")
        other.send(signal.SIGUSR1)
        other.wait_for("quiet: ")
        long, unwanted = place.put("waits", gate=str(gate)), place.put("waits", gate=str(gate))
        for _ in range(2):
            draining.wait_for("began waits")
        draining.send(signal.SIGTERM)
        draining.wait_for("stopping")
        late = place.put("step")
        asked = time.monotonic()
        place.client.jobs.cancel(unwanted, reason="tests")
        until(lambda: place.state(unwanted) == JobState.CANCELLED)
        assert time.monotonic() - asked < 1.0
        # Longer than its lease and a sweep: only a heartbeat keeps the job from the other one.
        table = f"{place.client.store.prefix}workers"
        until(lambda: time.monotonic() - asked > 2.0 + SWEEP)
        assert len(place.query(f"SELECT id FROM {table} WHERE lost_at IS NULL")) == 2
        assert (place.state(long), place.state(late)) == (JobState.RUNNING, JobState.QUEUED)
        gate.touch()
        assert draining.end() == 0
    assert place.state(long) == JobState.SUCCEEDED
    assert broken(place.client, [long, unwanted, late], running=[late]) == []


@ON_ONE
def test_cancellation_and_pause_are_seen_within_a_second(place, tmp_path):  # F46, F48
    with place.worker() as worker:
        cancelled = [place.put(kind, gate=str(tmp_path / "never")) for kind in ("waits", "waits_in_a_thread")]
        for _ in cancelled:
            worker.wait_for("began waits")
        asked = time.monotonic()
        for job_id in cancelled:
            assert place.client.jobs.cancel(job_id, reason="tests").state == JobState.RUNNING
        until(lambda: place.ended() == 2)
        assert time.monotonic() - asked < 1.0
        assert {place.state(job_id) for job_id in cancelled} == {JobState.CANCELLED}
        paused = time.monotonic()
        place.client.queues.pause("q:default", reason="tests")
        # A second after the pause nothing may be claimed, so what is put in then must wait.
        until(lambda: time.monotonic() - paused > 1.0)
        waiting = place.put("step")
        passed = place.put("step", queue="q:other")
        until(lambda: place.state(passed) == JobState.SUCCEEDED)
        assert place.state(waiting) == JobState.QUEUED
        resumed = time.monotonic()
        place.client.queues.resume("q:default")
        until(lambda: place.state(waiting) == JobState.SUCCEEDED)
        assert time.monotonic() - resumed < 1.0
    assert broken(place.client, [*cancelled, waiting, passed]) == []


def test_a_forked_child_can_not_use_what_its_parent_opened(place):  # F13
    with place.worker() as worker:
        forked = place.put("forks")
        until(
            lambda: place.state(forked) == JobState.SUCCEEDED,
            about=lambda: place.client.jobs.get(forked).error,
        )
        after = place.put("step")
        until(lambda: place.state(after) == JobState.SUCCEEDED)
        worker.send(signal.SIGTERM)
        assert worker.end() == 0
    assert place.client.jobs.get(forked).result == "refused"
    if place.url.startswith("sqlite"):
        assert place.query("PRAGMA integrity_check") == [("ok",)]
