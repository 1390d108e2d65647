"""Effects of a job: what a retry must not repeat, and what it must not compute again.

An effect is known by its job, its name and the payload that the job had. With another payload, or after an
operator's reset, it is another one, of the next generation and with another key.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Literal
from uuid import UUID, uuid5

import msgspec

from onward.core.jobs.ids import JobId
from onward.core.jobs.payload import decode, encode
from onward.errors import PayloadRejected, PayloadTooLarge

MAX_RESULT_BYTES = 1_048_576
"""The size limit of what is remembered of one effect, in bytes of JSON."""

_HASH_LETTERS = 16


class Effect(msgspec.Struct, frozen=True):
    """What is recorded of an effect: begun and perhaps done outside, done, or reset to be done again."""

    job_id: JobId
    name: str
    kind: Literal["once", "step"]
    state: Literal["begun", "done", "reset"]
    payload_hash: str
    generation: int
    result: Any
    lease: int
    attempt: int
    begun_at: datetime | None
    done_at: datetime | None

    @property
    def key(self) -> str:
        """Give the idempotency key for whoever does the effect outside: the same until it is done or reset.

        A UUID, because some providers take nothing else, and many nothing longer.
        """
        # What was begun by one version is tried again by the next: the form of a key must never change.
        return str(uuid5(UUID(self.job_id), f"{self.generation}:{self.payload_hash}:{self.name}"))

    def is_done_over(self, payload: Mapping[str, Any]) -> bool:
        """Tell whether it was done, and for this payload."""
        return self.state == "done" and self.payload_hash == payload_hash(payload)


def payload_hash(payload: Mapping[str, Any]) -> str:
    """Give a short text by which payloads are told apart; PostgreSQL does not keep the order of keys."""
    return hashlib.sha256(msgspec.json.encode(payload, order="sorted")).hexdigest()[:_HASH_LETTERS]


def plain(value: object, what: str) -> Any:
    """Give a value as it will be remembered; refuses what has no form in JSON, and what is too large.

    Tuples, dates, UUIDs, dataclasses and the like have an obvious one.
    """
    if value is None:
        return None
    try:
        text = encode(value, limit=MAX_RESULT_BYTES, what=what)
    except PayloadTooLarge:
        raise
    except PayloadRejected:
        try:
            obvious = json.dumps(msgspec.to_builtins(value, str_keys=True), allow_nan=False)
        except Exception:  # noqa: BLE001 - the stricter encoder has said where and what to do
            obvious = None
        if obvious is None:
            raise
        text = encode(decode(obvious), limit=MAX_RESULT_BYTES, what=what)
    return decode(text)
