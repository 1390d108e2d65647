"""What must not be left half done: a commit, or a statement that a thread is at."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any, TypeVar

T = TypeVar("T")

_PATIENCE = 10.0


def unbroken(value: T) -> T:
    """Give what was done: nothing can break into a call."""
    return value


async def unbroken_async(work: Coroutine[Any, Any, T]) -> T:
    """Wait for the end of something, also when the caller is cancelled meanwhile; that is raised after it."""
    task = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        # Not for ever: its database may never answer.
        done, _ = await asyncio.wait({task}, timeout=_PATIENCE)
        if done:
            with suppress(asyncio.CancelledError):
                task.exception()
        else:
            task.cancel()
        raise
