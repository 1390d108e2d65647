"""Resources and functions at the stop of a worker, in each process of `onward worker --processes`."""

from __future__ import annotations

import signal

import pytest

from onward import Client, NewJob
from tests.cli.program import Program

APP = """
import os
from collections.abc import Iterator

from onward import Context, Onward

app = Onward("sqlite:///onward.db")


@app.resource
def pool() -> Iterator[str]:
    print(f"opened in {os.getpid()}", flush=True)
    yield "pool"
    print(f"closed in {os.getpid()}", flush=True)


@app.on_stop
def stopped() -> None:
    print(f"stopped in {os.getpid()}", flush=True)


@app.job
def work(ctx: Context, *, shared: str = pool.injected) -> None:
    print(f"worked in {os.getpid()} with {shared}\\n", end="", flush=True)
"""


@pytest.fixture
def client(folder):
    (folder / "app.py").write_text(APP)
    with Client(f"sqlite:///{folder}/onward.db") as client:
        client.migrate()
        client.enqueue_many(NewJob(job_type="work") for _ in range(3))
        yield client


@pytest.mark.parametrize("processes", ["1", "2"])
def test_each_process_opens_a_resource_once_and_closes_it_when_it_stops(folder, client, processes):
    with Program(folder, "worker", "app:app", "--processes", processes) as worker:
        for _ in range(3):
            worker.wait_for("worked in")
        worker.send(signal.SIGTERM)
        assert worker.end() == 0
    lines = worker.output.splitlines()
    opened = sorted(line.split()[-1] for line in lines if line.startswith("opened in"))
    assert opened == sorted({line.split()[2] for line in lines if line.startswith("worked in")})
    assert opened == sorted(line.split()[-1] for line in lines if line.startswith("closed in"))
    stopped = [line.split()[-1] for line in lines if line.startswith("stopped in")]
    # A process that was still starting has nothing to stop.
    assert set(opened) <= set(stopped)
    assert len(stopped) == len(set(stopped)) <= int(processes)
    assert lines.index(f"stopped in {opened[0]}") < lines.index(f"closed in {opened[0]}")
