"""The verdict of a classification rule on an error, and the built-in hints for an operator."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import timedelta
from types import MappingProxyType
from typing import Literal

import msgspec

Kind = Literal["retry", "unrecoverable", "rate_limited", "skip"]
"""Retry after the back-off, never retry, retry when the provider allows it, or treat it as nothing to do."""


class Verdict(msgspec.Struct, frozen=True):
    """What happens to a failed attempt, and the name of the rule that decided it."""

    rule: str
    kind: Kind
    after: timedelta | None = None
    status: int | None = None
    hint: str | None = None
    link: str | None = None
    reason: str | None = None
    counted: bool | None = None


UNCLASSIFIED = "unclassified"

_LONGEST_LINK = 2000
_LINK = re.compile(r"https?://[^\s/?#\\\x00-\x20\x7f][^\s\\\x00-\x20\x7f<>\"']*", re.IGNORECASE)


def is_link(text: object) -> bool:
    """Whether a text may be shown as a clickable link: it must be an http or https URL, and nothing else."""
    return isinstance(text, str) and len(text) <= _LONGEST_LINK and _LINK.fullmatch(text) is not None


HINTS: Mapping[str, str] = MappingProxyType(
    {
        "artifact_missing": "the handler must leave an artifact; see that it calls ctx.artifact(…)",
        "business_rule": "the state does not allow it; mend what stands against it, then replay, or discard",
        "database_full": "the database is out of room or connections; give it more",
        "deadline_passed": "it came too late; replay it with another deadline, or discard it",
        "http_401": "the provider refused the key or token; renew it, then replay",
        "http_403": "the provider does not allow this; grant the permission, then replay",
        "http_refused": "the same request gets the same answer; correct the payload, or the handler",
        "invalid_arguments": "the payload does not fit the handler; correct it, or deploy another version",
        "invalid_job": "what the handler asked for is not allowed to be enqueued; correct the handler",
        "invalid_outcome": "the handler's outcome makes no sense; correct the handler",
        "job_timeout": "the attempt took too long; raise the time-out of its job type, or part the work",
        "missing_scopes": "the token lacks scopes; add them at the provider, renew it, then replay",
        "not_allowed": "the job asked for what it may not; see whose it is, and what its category may",
        "not_authorised": "the application's own check refuses the job; see whose it is",
        "unknown_job_type": "no worker knows this job type; deploy one that does, or cancel the job",
        "validation": "what it was given does not fit; correct the payload, or the handler",
        "wait_timed_out": "no signal came in time; reset that wait (onward effects reset), then replay",
    }
)
"""For each rule, what an operator may do; a hint of the error or of the application replaces it."""
