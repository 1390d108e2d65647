"""Job types that report their progress from child processes."""

from __future__ import annotations

import os
import threading
from pathlib import Path

from onward import Context, Onward

__all__ = ["app", "count_and_commit", "count_and_die", "count_and_wait", "count_much"]

app = Onward()
process_job = app.job(executor="process", max_attempts=1)


def wait_for(path: str) -> None:
    """Wait until another process has made a file."""
    while not Path(path).exists():
        threading.Event().wait(0.005)


@process_job
def count_and_wait(ctx: Context, path: str) -> None:
    ctx.report(1, 4, "page 1")
    ctx.report(2, 4, "page 2")
    wait_for(path)
    ctx.report(3, 4, "page 3")


@process_job
def count_much(ctx: Context, times: int) -> int:
    return sum(ctx.progress(range(times)))


@process_job
def count_and_commit(ctx: Context) -> None:
    with ctx.transaction():
        ctx.report(4, 4, "done")


@process_job
def count_and_die(ctx: Context, path: str) -> None:
    ctx.report(1, 4)
    wait_for(path)
    os._exit(9)
