"""Job types of processes: of worker processes, and of children that run a job."""

from __future__ import annotations

import os

from onward import Onward
from tests.failures.breakers.breaker_provider import fetch

__all__ = ["app"]

app = Onward(os.environ.get("ONWARD_URL"), schema=os.environ.get("BREAKERS_SCHEMA", "onward"))
app.breaker(
    "crm",
    failures=2,
    hold=os.environ.get("BREAKERS_HOLD", "20s"),
    patience=os.environ.get("BREAKERS_PATIENCE", "30s"),
)


@app.job(provider="crm")
def call(url: str) -> None:
    """Call a provider from a thread."""
    fetch(url)


@app.job(provider="crm", executor="process")
def call_from_process(url: str) -> None:
    """Call a provider from a child process."""
    fetch(url)
