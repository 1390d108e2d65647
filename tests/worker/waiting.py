"""Wait for what a worker does, for a bounded time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from onward import Onward
from onward.worker.tally import Tally

__all__ = ["SOON", "drain", "until"]

SOON = 20


async def drain(app: Onward, **options: Any) -> Tally:
    """Run a worker until nothing is left to do."""
    async with asyncio.timeout(SOON):
        return await app.worker(drain=True, **options).run()


async def until(condition: Callable[[], object]) -> None:
    """Wait until something that other tasks and threads bring about is true."""
    async with asyncio.timeout(SOON):
        while not condition():  # noqa: ASYNC110 - nobody tells us
            await asyncio.sleep(0.005)
