"""Effects of a job: actions that a retry must not repeat, and results that it must not compute again.

An effect is identified by its job, its name and the job's payload. A changed payload or an operator's reset
makes a new effect, of the next generation and with another key.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any, ClassVar, Literal
from uuid import UUID, uuid5

import msgspec

from onward.core.jobs.ids import JobId
from onward.core.jobs.payload import decode, encode
from onward.errors import PayloadRejected, PayloadTooLarge

MAX_RESULT_BYTES = 1_048_576
"""The size limit of the stored result of one effect, in bytes of JSON."""

_HASH_LETTERS = 16


class Effect(msgspec.Struct, frozen=True):
    """The record of an effect: begun (perhaps done outside already), done, or reset to be done again."""

    HIDDEN: ClassVar = frozenset({"payload_hash"})
    DERIVED: ClassVar = ("idempotency_key",)

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
        """The idempotency key for the external service that performs the effect; stable until done or reset.

        It is a UUID, because some providers accept nothing else, and many nothing longer.
        """
        # A newer version retries effects that an older one began, so the form of a key must never change.
        return str(uuid5(UUID(self.job_id), f"{self.generation}:{self.payload_hash}:{self.name}"))

    @property
    def idempotency_key(self) -> str | None:
        """The key that the external service received; None for a step, which has no such service."""
        return self.key if self.kind == "once" else None

    def is_done_over(self, payload: Mapping[str, Any]) -> bool:
        """Whether the effect was done, and for this payload."""
        return self.state == "done" and self.payload_hash == payload_hash(payload)


def payload_hash(payload: Mapping[str, Any]) -> str:
    """Return a short hash of a payload; keys are sorted, since PostgreSQL does not keep their order."""
    return hashlib.sha256(msgspec.json.encode(payload, order="sorted")).hexdigest()[:_HASH_LETTERS]


def plain(value: object, what: str) -> Any:
    """Return a value as it will be stored; raise if it has no form in JSON, or is too large.

    Tuples, dates, UUIDs, dataclasses and the like are converted to their obvious JSON form.
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
        except Exception:  # noqa: BLE001 - the error of the stricter encoder is the useful one
            obvious = None
        if obvious is None:
            raise
        text = encode(decode(obvious), limit=MAX_RESULT_BYTES, what=what)
    return decode(text)
