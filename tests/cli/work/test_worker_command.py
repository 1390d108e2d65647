"""`onward worker` as a real program: signals, exit codes, and what it prints."""

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import ExitStack

import pytest

from onward import Client, JobState, NewJob
from onward.worker.stopping import StopRequests
from tests.cli.program import Program
from tests.postgres import fresh_database

APP = """
import asyncio, os, time
from onward import Onward, Unrecoverable

app = Onward("sqlite:///jobs.db")

@app.job
async def quick(number: int = 0) -> int:
    return number

@app.job(queue="q:long")
async def long(name: str = "long") -> str:
    # In one write: others write to the same place.
    print(f"began {name} in {os.getpid()}\\n", end="", flush=True)
    await asyncio.sleep(0.3 if name == "short" or os.path.exists("hurry") else 60)
    return name

@app.job
def blocks() -> None:
    print("began blocks", flush=True)
    time.sleep(60)

@app.job
async def blocks_the_loop() -> None:
    print("began blocks_the_loop", flush=True)
    time.sleep(60)

@app.job(max_attempts=2)
async def fails() -> None:
    raise ValueError("bad \\x1b[31mcard\\nnumber")

@app.job
async def dies(note: str = "") -> None:
    raise Unrecoverable("no such account")
"""


@pytest.fixture
def jobs(folder):
    """A client on the database of the app, which lies in the current folder."""
    (folder / "app.py").write_text(APP)
    with Client("sqlite:///jobs.db") as client:
        yield client


def put(jobs: Client, job_type: str, **options) -> str:
    options.setdefault("queue", "q:long" if job_type == "long" else "q:default")
    return jobs.enqueue(NewJob(job_type=job_type, **options)).id


def test_it_drains_and_ends_by_itself(folder, jobs):
    ids = [put(jobs, "quick", payload={"number": number}) for number in range(20)]
    with Program(folder, "worker", "app:app", "--drain", "--json") as worker:
        assert worker.end() == 0
    assert [jobs.jobs.get(job_id).result for job_id in ids] == list(range(20))
    assert json.loads(worker.lines[-1])["succeeded"] == 20
    assert worker.lines[0].endswith("· worker · Ctrl-C stops")
    assert worker.lines[1] == "  database   sqlite ./jobs.db (schema 1)"
    assert worker.lines[2].startswith("  jobs       6 found: quick (q:default), long (q:long), ")
    assert worker.lines[3].endswith(" · 10 slots · all queues")


def test_a_dead_job_makes_a_drain_end_with_6_and_is_told_in_one_line_without_its_payload(folder, jobs):
    put(jobs, "dies", payload={"note": "s3cret"})
    put(jobs, "fails", max_attempts=1)
    with Program(folder, "worker", "app:app", "--drain") as worker:
        assert worker.end() == 6
    told = [line.partition(" ")[2] for line in worker.lines if "☠" in line]
    assert len(told) == 2
    assert any(line.endswith("Unrecoverable: no such account → unrecoverable, dead letter") for line in told)
    # A23
    assert any(
        line.endswith("ValueError: bad card number → attempts exhausted, dead letter") for line in told
    )
    # What ends a job is worth its traceback, once.
    assert worker.output.count("Traceback (most recent call last)") == 2
    assert worker.output.count('    raise Unrecoverable("no such account")') == 1
    assert "s3cret" not in worker.output
    assert "\x1b" not in worker.output


@pytest.mark.parametrize(("asked", "tracebacks"), [("info", 0), ("debug", 1), ("error", 0)])
def test_an_attempt_that_is_tried_again_is_one_line_with_its_place(folder, jobs, asked, tracebacks):
    job_id = put(jobs, "fails", max_attempts=2)
    with Program(folder, "worker", "app:app", "--drain", "--log-level", asked) as worker:
        assert worker.end() == 0
    lines = [line.partition(" ")[2] for line in worker.lines if "ValueError: bad card number → " in line]
    if asked == "info":
        [line] = lines
        assert line.startswith(f"✗ fails {job_id} attempt 1/2 ValueError: bad card number → retryable, next")
        assert line.endswith(" (app.py:30)")
    assert len(lines) == (asked != "error")
    assert worker.output.count("Traceback (most recent call last)") == tracebacks


def test_it_ends_after_so_many_jobs(folder, jobs):
    ids = [put(jobs, "quick") for _ in range(10)]
    with Program(folder, "worker", "app:app", "--max-jobs", "3", "--concurrency", "1") as worker:
        assert worker.end() == 0
    assert sum(jobs.jobs.get(job_id).state == JobState.SUCCEEDED for job_id in ids) == 3


def test_it_serves_only_the_queues_that_it_was_given(folder, jobs):
    left, ran = put(jobs, "quick"), put(jobs, "quick", queue="q:critical")
    with Program(folder, "worker", "app", "-q", "q:critical=2", "--drain") as worker:
        assert worker.end() == 0
    assert jobs.jobs.get(ran).state == JobState.SUCCEEDED
    assert jobs.jobs.get(left).state == JobState.QUEUED
    assert "q:critical (at most 2)" in worker.output


def test_a_queue_to_which_no_job_type_goes_is_noted(folder, jobs):
    with Program(folder, "worker", "app", "-q", "q:lonk,q:default", "--drain") as worker:
        assert worker.end() == 0
    noted = 'note: no job type of this app goes to the queue "q:lonk"; did you mean "q:long"?'
    assert [line for line in worker.lines if line.startswith("note")] == [noted]


# F09
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_one_signal_lets_short_jobs_end_and_gives_long_ones_back_unburnt(folder, jobs, number):
    long = put(jobs, "long")
    with Program(folder, "worker", "app:app", "--grace", "0.8") as worker:
        worker.wait_for("began long")
        short = put(jobs, "long", payload={"name": "short"})
        worker.wait_for("began short")
        worker.send(number)
        assert worker.end() == 0
    assert jobs.jobs.get(short).state == JobState.SUCCEEDED
    given_back = jobs.jobs.get(long)
    assert (given_back.state, given_back.attempt) == (JobState.QUEUED, 0)
    assert "releasing what still runs after the grace (jobs: 1)" in worker.output
    assert "Traceback" not in worker.output


def test_a_second_signal_gives_back_at_once_and_the_exit_code_names_it(folder, jobs):
    job_id = put(jobs, "long")
    with Program(folder, "worker", "app:app", "--grace", "60") as worker:
        worker.wait_for("began long")
        worker.send(signal.SIGTERM)
        worker.wait_for(
            "stopping: taking no new jobs, waiting up to 60s for 1 running (Ctrl-C again releases them)"
        )
        worker.send_until(signal.SIGINT, "releasing 1 running job (Ctrl-C again exits now)")
        assert worker.end() == 130
    assert worker.output.count("releasing") == 1, "it is told once"
    assert (jobs.jobs.get(job_id).state, jobs.jobs.get(job_id).attempt) == (JobState.QUEUED, 0)
    assert "Traceback" not in worker.output


@pytest.mark.parametrize("job_type", ["blocks", "blocks_the_loop"])
def test_a_third_signal_ends_it_whatever_a_handler_does(folder, jobs, job_type):
    put(jobs, job_type)
    with Program(folder, "worker", "app:app") as worker:
        worker.wait_for(f"began {job_type}")
        for told in ("stopping", "releasing", "exiting"):
            worker.send_until(signal.SIGTERM, told)
        assert worker.end() == 143
    assert "Traceback" not in worker.output


def test_usr1_makes_it_claim_nothing_until_it_comes_again(folder, jobs):
    with Program(folder, "worker", "app:app") as worker:
        worker.wait_for("  worker ")
        worker.send(signal.SIGUSR1)
        worker.wait_for("quiet: ")
        put(jobs, "long", payload={"name": "short"})
        worker.send(signal.SIGUSR1)
        # Had it been claimed before, it would have spoken before.
        assert "claims jobs again" in worker.wait_for("")
        worker.wait_for("began short")
        worker.send(signal.SIGTERM)
        assert worker.end() == 0


def test_usr2_tells_what_runs(folder, jobs):
    job_id = put(jobs, "long")
    with Program(folder, "worker", "app:app", "--grace", "0") as worker:
        worker.wait_for("began long")
        worker.send(signal.SIGUSR2)
        worker.wait_for(f"job long {job_id} attempt 1")
        worker.send(signal.SIGTERM)
        assert worker.end() == 0


def test_a_database_that_can_not_be_reached_ends_it_with_5_and_one_line(folder, jobs):
    url = "postgresql://app:s3cret@127.0.0.1:1/app?connect_timeout=2"
    with Program(folder, "worker", "app:app", "--url", url) as worker:
        assert worker.end() == 5
    assert worker.lines[0].startswith("error ON-DB-004: ")
    assert "s3cret" not in worker.output
    assert "Traceback" not in worker.output


@pytest.fixture(params=["sqlite", "postgres"])
def either(request, folder, worker_id):
    """A client on either database, which ONWARD_URL names for the programs that are started."""
    (folder / "app.py").write_text(APP.replace('Onward("sqlite:///jobs.db")', "Onward()"))
    with ExitStack() as stack:
        url = "sqlite:///either.db"
        if request.param == "postgres":
            server = request.getfixturevalue("postgres_server_url")
            url = stack.enter_context(fresh_database(server, f"onward_supervised_{worker_id}"))
        client = stack.enter_context(Client(url))
        client.migrate()
        os.environ["ONWARD_URL"] = url
        yield client


def test_a_job_of_a_process_that_was_killed_runs_again_at_once(folder, either):
    job_id = put(either, "long")
    with Program(folder, "worker", "app:app", "--processes", "2") as supervisor:
        killed = int(supervisor.wait_for("began long").split()[-1])
        (folder / "hurry").touch()
        os.kill(killed, signal.SIGKILL)
        since = time.monotonic()
        again = int(supervisor.wait_for("began long").split()[-1])
        assert time.monotonic() - since < 3
        assert again != killed
        supervisor.send(signal.SIGTERM)
        assert supervisor.end() == 0
    job = either.jobs.get(job_id)
    assert (job.state, job.attempt) == (JobState.SUCCEEDED, 2)
    assert "was ended by SIGKILL" in either.jobs.attempts(job_id)[0].error.message
    assert f"process {killed} was ended by SIGKILL" in supervisor.output
    assert f"took back what process {killed} had (jobs: 1)" in supervisor.output
    assert "2 processes of 10 slots" in supervisor.output


def test_several_processes_drain_together(folder, jobs):
    ids = [put(jobs, "quick") for _ in range(50)]
    dead = put(jobs, "dies")
    with Program(folder, "worker", "app:app", "--processes", "2", "--drain") as supervisor:
        assert supervisor.end() == 6
    assert {jobs.jobs.get(job_id).state for job_id in ids} == {JobState.SUCCEEDED}
    assert jobs.jobs.get(dead).state == JobState.DEAD


def test_workers_stop_in_order_when_their_supervisor_was_killed(folder, jobs):
    job_id = put(jobs, "long", payload={"name": "short"})
    with Program(folder, "worker", "app:app", "--processes", "2") as supervisor:
        supervisor.wait_for("began short")
        supervisor.send(signal.SIGKILL)
        # Its output ends when the last child does.
        assert supervisor.end() == -signal.SIGKILL
    assert jobs.jobs.get(job_id).state == JobState.SUCCEEDED


def test_a_stop_that_is_signalled_to_parent_and_children_alike_counts_once(folder, jobs):
    job_id = put(jobs, "long", payload={"name": "short"})
    with Program(folder, "worker", "app:app", "--processes", "2") as supervisor:
        child = int(supervisor.wait_for("began short").split()[-1])
        supervisor.send(signal.SIGTERM)
        os.kill(child, signal.SIGTERM)
        assert supervisor.end() == 0
    assert (jobs.jobs.get(job_id).state, jobs.jobs.get(job_id).attempt) == (JobState.SUCCEEDED, 1)


def test_a_second_signal_to_the_supervisor_makes_its_children_give_back_at_once(folder, jobs):
    job_id = put(jobs, "long")
    with Program(folder, "worker", "app:app", "--processes", "2", "--grace", "60") as supervisor:
        supervisor.wait_for("began long")
        supervisor.send(signal.SIGINT)
        supervisor.wait_for("stopping")
        supervisor.send_until(signal.SIGINT, "releasing")
        assert supervisor.end() == 130
    assert (jobs.jobs.get(job_id).state, jobs.jobs.get(job_id).attempt) == (JobState.QUEUED, 0)
    assert "Traceback" not in supervisor.output


@pytest.mark.parametrize("processes", ["1", "2"])
def test_closing_the_terminal_stops_it_like_term_and_burns_no_attempt(folder, jobs, processes):
    job_id = put(jobs, "long")
    with Program(folder, "worker", "app:app", "--processes", processes, "--grace", "0") as worker:
        worker.wait_for("began long")
        worker.send(signal.SIGHUP)
        assert worker.end() == 0
    assert (jobs.jobs.get(job_id).state, jobs.jobs.get(job_id).attempt) == (JobState.QUEUED, 0)


def test_a_worker_that_was_started_with_nohup_outlives_its_terminal(folder, jobs):
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        worker = Program(folder, "worker", "app:app")
    finally:
        signal.signal(signal.SIGHUP, before)
    with worker:
        worker.wait_for("  worker ")
        worker.send(signal.SIGHUP)
        put(jobs, "long", payload={"name": "short"})
        worker.wait_for("began short")
        worker.send(signal.SIGTERM)
        assert worker.end() == 0


def test_signals_that_come_together_are_one_request_to_stop():
    now = [100.0]
    requests = StopRequests(lambda: now[0])
    counted = []
    for at in (100.0, 100.000_004, 100.2, 100.31, 100.32, 100.7):
        now[0] = at
        counted.append(requests.add())
    assert counted == [True, False, False, True, False, True]
    assert requests.count == 3


# F10
def test_a_worker_that_can_not_end_is_ended_with_5_after_its_grace():
    text = """
import os, signal, threading
from datetime import timedelta
from onward.cli import process
class Deaf:
    running = 0
    def stop(self): pass
process._AFTERWARDS = 0.05
process.Signals(Deaf(), grace=timedelta(seconds=0.05)).handle()
os.kill(os.getpid(), signal.SIGTERM)
threading.Event().wait()
"""
    ran = subprocess.run(
        [sys.executable, "-c", text], capture_output=True, text=True, timeout=20, check=False
    )
    assert ran.returncode == 5
    assert "exiting: the database or a handler does not let go" in ran.stderr


def test_a_closed_gate_and_a_paused_queue_are_noted_at_the_start(folder, jobs):
    ops = jobs.acting_as("user:ada")
    ops.queues.pause("q:default", reason="slow")
    ops.gate.close(reason="deploy")
    with Program(folder, "worker", "app:app") as worker:
        worker.wait_for("note: the gate is closed by user:ada: deploy; no job will start. onward gate open")
        worker.wait_for(
            "note: queue q:default is paused by user:ada: slow; its jobs will not start. "
            "onward queues resume q:default"
        )
