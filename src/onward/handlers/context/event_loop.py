"""The guard of calls that would hold up an event loop for long."""

from __future__ import annotations

import asyncio

from onward.errors import InvalidSetting


def check_may_block(call: str, instead: str) -> None:
    """Raise InvalidSetting on a thread whose event loop runs: the call would stop everything else there."""
    # The public form raises where no loop runs, which is the usual case, and costs more.
    if asyncio._get_running_loop() is not None:  # noqa: SLF001
        raise InvalidSetting(f"{call} would block the event loop; use {instead} here")
