"""The use of limits: what each allows, and which of its jobs hold or await a permit."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from onward.core.limits.admission import Terms

MOST_KEYS = 500

KeyCount = Annotated[int, Meta(ge=1, le=MOST_KEYS)]
"""How many keys of a limit are read at most."""


class Admitted(msgspec.Struct, frozen=True):
    """How many jobs of each queue were made ready, which keys have more, and when a rate allows more."""

    queues: Mapping[str, int] = {}
    left: tuple[str, ...] = ()
    again: datetime | None = None
    now: datetime | None = None


class FoundKeys(msgspec.Struct, frozen=True):
    """Keys with waiting jobs that may be made ready, when a rate allows more, and where to continue."""

    keys: tuple[str, ...]
    again: datetime | None
    cursor: str | None
    now: datetime | None


class KeySeen(msgspec.Struct, frozen=True):
    """How many jobs hold or await a permit of one key; `value` is None if all jobs share it."""

    key: str
    value: str | None
    active: int
    waiting: int


class LimitSeen(msgspec.Struct, frozen=True, kw_only=True):
    """A limit: the declared terms, the terms that an operator has set instead, and its current use.

    Counts stop at a cap; `keys` are the keys for which most jobs wait.
    """

    name: str
    terms: Terms
    declared: Mapping[str, Any]
    declared_at: datetime
    override: Mapping[str, Any] | None
    set_at: datetime | None
    reason: str | None
    actor_type: str | None
    actor_id: str | None
    active: int
    waiting: int
    keys: tuple[KeySeen, ...] = ()
