"""Complete work that must not be interrupted: a commit, or a statement that a thread is running."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any, TypeVar

T = TypeVar("T")

_PATIENCE = 10.0


def unbroken(value: T) -> T:
    """Return the value; a sync call can't be cancelled, so this is only the twin of `unbroken_async`."""
    return value


async def unbroken_async(work: Coroutine[Any, Any, T]) -> T:
    """Wait until the work ends, even if the caller is cancelled; raise the cancellation afterwards."""
    task = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        # Not without a limit: the database may never answer.
        done, _ = await asyncio.wait({task}, timeout=_PATIENCE)
        if done:
            with suppress(asyncio.CancelledError):
                task.exception()
        else:
            task.cancel()
        raise
