"""Job types with effects, for a process of their own and for a worker that dies."""

from __future__ import annotations

import os

from onward import Context, Onward
from tests.work.effects.effect_provider import charge

__all__ = ["app", "pay", "pay_in_a_process"]

app = Onward(os.environ.get("EFFECTS_URL"), schema=os.environ.get("EFFECTS_SCHEMA", "onward"))


def _pay(ctx: Context, url: str) -> list[int]:
    def paid(key: str) -> int:
        number = charge(url, key)
        if os.environ.get("EFFECTS_DIE"):
            os._exit(9)
        return number

    return [ctx.step("total", lambda: 100), ctx.once("charge", paid)]


@app.job
def pay(ctx: Context, url: str) -> list[int]:
    """Pay, and die before that is recorded if one is told to."""
    return _pay(ctx, url)


@app.job(executor="process")
def pay_in_a_process(ctx: Context, url: str) -> list[int]:
    """Do the same in a process of its own."""
    return _pay(ctx, url)


if __name__ == "__main__":
    app.tick()
