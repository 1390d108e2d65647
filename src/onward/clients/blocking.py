"""Call functions that block: in the caller's thread, or in a thread beside the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


def call(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Call a function."""
    return function(*args, **kwargs)


async def call_async(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Call a function in a thread, so that it does not block the event loop."""
    return await asyncio.to_thread(function, *args, **kwargs)
