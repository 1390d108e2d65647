"""Job types that wait, for a process of their own and for workers that die."""

from __future__ import annotations

import os
from typing import Any

from onward import Context, Onward

__all__ = ["app", "approve", "approve_in_a_process"]

app = Onward(os.environ.get("WAITS_URL"), schema=os.environ.get("WAITS_SCHEMA", "onward"))


@app.job
async def approve(ctx: Context, order: str) -> Any:
    """Begin, wait for somebody's approval, and go on."""
    await ctx.astep("began", lambda: 1)
    if os.environ.get("WAITS_DIE") == "before":
        os._exit(9)
    said = await ctx.await_for("approved", order)
    if os.environ.get("WAITS_DIE") == "after":
        os._exit(9)
    return said


@app.job(executor="process")
def approve_in_a_process(ctx: Context, order: str) -> Any:
    """Do the same in a process of its own, then sleep until then."""
    return [ctx.wait_for("approved", order), ctx.wait_for("shipped", order, timeout="1h")]


if __name__ == "__main__":
    app.tick()
