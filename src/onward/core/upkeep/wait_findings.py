"""The finding about a job whose handler waits for a signal."""

from __future__ import annotations

from onward.core.upkeep.diagnosis import Finding, fine, stamp
from onward.core.work.wait import Awaited


def waits_for_signal(awaited: Awaited) -> Finding:
    """Return the finding for a job that waits for a signal: its event, its key, and until when."""
    key = "" if awaited.key is None else f", key {awaited.key}"
    until = "for as long as it takes" if awaited.until is None else f"until {stamp(awaited.until)}"
    return fine(
        "waiting_for_signal",
        f"it waits for event {awaited.event}{key}, {until}",
        event=awaited.event,
        key=awaited.key,
        until=awaited.until,
    )
