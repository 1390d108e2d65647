"""What a tick has done."""

from __future__ import annotations

from datetime import timedelta

import msgspec


class Tick(msgspec.Struct, frozen=True):
    """The result of one tick: what it processed, and how many jobs still wait."""

    processed: int
    succeeded: int
    retried: int
    dead: int
    remaining: int
    duration: timedelta
