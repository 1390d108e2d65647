"""Job types of another program than that of the test, which fail."""

from __future__ import annotations

from onward import Onward

__all__ = ["app", "fails_in_a_process", "takes"]

app = Onward("sqlite:///logged.db")


@app.job(executor="process", max_attempts=1)
def fails_in_a_process(order: int) -> None:
    raise KeyError(f"order {order}")


@app.job
def takes(name: str) -> None: ...
