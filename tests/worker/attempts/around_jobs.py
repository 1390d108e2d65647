"""Job types of processes of their own, with a function around their attempts."""

from __future__ import annotations

import os
from collections.abc import Generator

from onward import Onward, Outcome
from onward.results import Job

app = Onward("sqlite:///never-opened.db")
seen: list[tuple[int, object]] = []


@app.job(executor="process")
def double(number: int) -> dict[str, int]:
    """Double a number, far from its worker."""
    return {"pid": os.getpid(), "doubled": 2 * number}


def watch(job: Job) -> Generator[None, Outcome, None]:
    """Keep what an attempt came to, and the process that saw it."""
    outcome = yield
    seen.append((os.getpid(), outcome))
