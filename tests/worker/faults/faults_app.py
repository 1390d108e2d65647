"""The application of the fault tests: `onward worker tests.worker.faults.faults_app:app`."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from pathlib import Path

from onward import Context, Onward
from onward.errors import StoreClosed

# The database comes by ONWARD_URL, as it does in production.
app = Onward(schema=os.environ.get("FAULTS_SCHEMA", "onward"))


@app.job
async def step(seconds: float = 0.0) -> int:
    """Take a while without blocking."""
    await asyncio.sleep(seconds)
    return os.getpid()


@app.job
def stride(seconds: float = 0.0) -> int:
    """Take a while in a thread."""
    time.sleep(seconds)
    return os.getpid()


@app.job
async def waits(ctx: Context, gate: str) -> int:
    """Wait for a file in the first attempt; later ones are through at once."""
    print(f"began waits {ctx.job.id} attempt {ctx.job.attempt} in {os.getpid()}", flush=True)
    while ctx.job.attempt == 1 and not Path(gate).exists():  # noqa: ASYNC110, ASYNC240 - a test opens it
        await asyncio.sleep(0.01)
    return os.getpid()


@app.job
def waits_in_a_thread(ctx: Context, gate: str) -> int:
    """Do the same in a thread."""
    print(f"began waits_in_a_thread {ctx.job.id} attempt {ctx.job.attempt} in {os.getpid()}", flush=True)
    while ctx.job.attempt == 1 and not Path(gate).exists():
        ctx.sleep(0.01)
    return os.getpid()


@app.job
async def blocks(seconds: float) -> int:
    """Hold the event loop up, as an async handler must not."""
    print(f"began blocks in {os.getpid()}", flush=True)
    time.sleep(seconds)  # noqa: ASYNC251 - the fault under test
    return os.getpid()


@app.job
async def poison() -> None:
    """Kill the process that runs it."""
    os.kill(os.getpid(), signal.SIGKILL)


@app.job
def forks() -> str:
    """Try in a forked child to use what the parent has opened."""
    client = app.client
    client.jobs.count()
    child = os.fork()
    if child == 0:
        try:
            client.jobs.count()
        except StoreClosed:
            os._exit(7)
        finally:
            os._exit(1)
    _, status = os.waitpid(child, 0)
    return "refused" if os.waitstatus_to_exitcode(status) == 7 else "allowed"
