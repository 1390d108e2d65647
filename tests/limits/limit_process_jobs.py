"""What the worker processes of these tests run: `onward worker tests.limits.limit_process_jobs:app`."""

from __future__ import annotations

import asyncio
import os
from datetime import timedelta

from onward import Limit, Onward, RetryPolicy

__all__ = ["app", "sync", "turn"]

MOMENT = timedelta(milliseconds=50)

app = Onward(os.environ.get("ONWARD_URL"), schema=os.environ.get("LIMITS_SCHEMA", "onward"))


@app.job(
    limit=Limit(5, per=lambda job: job.payload["customer"]),
    max_attempts=1000,
    retry=RetryPolicy(kind="fixed", base=MOMENT, max_attempts=1000, jitter=False, crash_delay=MOMENT),
)
async def sync(customer: str, seconds: float = 0.001) -> None:
    """Take a moment."""
    await asyncio.sleep(seconds)


@app.job(limit=Limit(per="org", ordered=True))
async def turn(number: int) -> int:
    """Give its number back."""
    return number
