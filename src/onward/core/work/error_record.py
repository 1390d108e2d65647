"""The stored error of an unsuccessful attempt: without secrets, and of a bounded size.

Text is cut to its bound only after its secrets are hidden: redaction does not recognise half a secret.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from onward.core.jobs.payload import decode, lenient
from onward.core.secrets.redaction import Hide, Redaction

LONGEST_MESSAGE = 10_000
LONGEST_TRACEBACK = 20_000

_LONGEST_READ = 200_000
_LARGEST = 1_048_576
_LONGEST_SECRET = 5_000
_CLASS = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,79}", re.ASCII)


def message_of(error: BaseException) -> str:
    """Return the message of an exception, or a placeholder if its `__str__` raises."""
    try:
        return str(error)
    except BaseException:  # noqa: BLE001 - the handler's own __str__ may raise anything
        return "(its message could not be read)"


def error_class(error: Mapping[str, Any]) -> str:
    """Return the class of a stored error for a metric: a short plain name, or `other`."""
    name = error.get("class")
    return name if isinstance(name, str) and _CLASS.fullmatch(name) else "other"


def shorten(text: str, longest: int, hide: Hide, *, end: bool = False) -> str:
    """Hide the secrets of a text, then cut it to at most `longest` characters of its start or its end."""
    read = text[-_LONGEST_READ:] if end else text[:_LONGEST_READ]
    hidden = hide(read)
    if len(read) < len(text):
        # The first cut may have left half a secret at its edge, which shows only if much else was hidden.
        hidden = hidden[_LONGEST_SECRET:] if end else hidden[:-_LONGEST_SECRET]
    return hidden[-longest:] if end else hidden[:longest]


def sanitise(error: Mapping[str, Any], payload: object, redaction: Redaction) -> dict[str, Any]:
    """Return an error as plain JSON without secrets, including secrets of the job's payload."""
    hide = redaction.hider(payload)
    cut = {
        name: shorten(value, LONGEST_TRACEBACK, hide, end=name == "traceback")
        if isinstance(value, str)
        else value
        for name, value in error.items()
    }
    plain = decode(lenient(cut, _LARGEST))
    hidden: dict[str, Any] = redaction.redact(plain, redaction.secrets_of(payload))
    return hidden
