"""How long the parts of a worker wait for each other."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Timings:
    """Times in seconds, which few applications need to change."""

    stop: float = 5.0
    """How long a handler may ignore its cancellation before its slot goes on without it."""

    batch: float = 0.005
    """How long a result waits for others that are written with it."""

    provider: float = 5.0
    """How long a job waits for its provider in a slot before it gives the slot up."""

    check: float = 30.0
    """How often the doctor looks for findings to send as alerts."""

    sink: float = 30.0
    """How long an alert sink may take for one alert."""
