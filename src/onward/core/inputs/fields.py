"""Checks of a job's text fields, made before any SQL runs.

Lengths are bytes of UTF-8, so that an index entry of key, org and project fits a PostgreSQL page
(2 700 bytes) in any script. `None` means absent and is always accepted; empty text never is.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

from onward.core.inputs.plain_text import kind_of
from onward.core.secrets.redaction import redact_text
from onward.errors import InvalidJob

FIRST_PRIORITY, LAST_PRIORITY = -1000, 1000
"""The range of a job's priority. The lower runs first; 1 to 10 are the usual levels."""

_SHORT = 200
_LONGEST_REASON = 1000
_NEEDED = frozenset({"job_type", "reason", "note", "action", "effect"})

LONGEST: Mapping[str, int] = MappingProxyType(
    dict.fromkeys(("job_type", "queue", "category", "worker_id", "actor_type"), _SHORT)
    | dict.fromkeys(
        ("org_id", "project_id", "actor_id", "request_id", "correlation_id", "subject", "tag", "traceparent"),
        255,
    )
    | {"key": 1000}
)
"""The longest text of each field, in bytes of UTF-8."""

# Version 00 of W3C Trace Context, which forbids ids of only zeros.
_TRACEPARENT = re.compile(r"00-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}")


def check_text(name: str, value: str, *, longest: int) -> None:
    """Raise InvalidJob, which names the field, if the text is empty, too long or not storable."""
    if type(value) is str and value.isascii() and 0 < len(value) <= longest and "\0" not in value:
        return
    if not isinstance(value, str):
        raise InvalidJob(f"{name} is {kind_of(value)}, not text; give a str")
    if not value:
        raise InvalidJob(f"{name} is empty; give some text{'' if name in _NEEDED else ', or leave it out'}")
    if "\0" in value:
        raise InvalidJob(f"{name} {_shown(value)} has a NUL character at {value.index(chr(0))}; remove it")
    try:
        size = len(value.encode())
    except UnicodeEncodeError as error:
        raise InvalidJob(
            f"{name} {_shown(value)} has half a surrogate pair at {error.start}; decode its source as UTF-8"
        ) from None
    if size > longest:
        raise InvalidJob(f"{name} {_shown(value)} takes {size} bytes of UTF-8; the most is {longest}")


def _shown(value: str) -> str:
    return f"{redact_text(value)!a:.80}"


def check_reason(text: str, name: str = "reason", *, hide: Callable[[str], str] = redact_text) -> str:
    """Check the reason that an operator gives for an action, and return it without its secrets."""
    check_text(name, text, longest=_LONGEST_REASON)
    return hide(text)


def check_texts(fields: Mapping[str, str | None]) -> None:
    """Check many fields at once, each against its maximum length in `LONGEST`."""
    values = [value for value in fields.values() if value is not None]
    if not _plainly_fine(values):
        for name, value in fields.items():
            if value is not None:
                check_text(name, value, longest=LONGEST[name])
    traceparent = fields.get("traceparent")
    if traceparent is not None and not is_traceparent(traceparent):
        raise InvalidJob(
            f"traceparent {traceparent!r:.80} is not W3C trace context; give 00-<32 hex>-<16 hex>-<2 hex>"
        )


def check_column(name: str, values: Sequence[str | None]) -> None:
    """Check the values that many jobs have for one field."""
    present = [value for value in values if value is not None]
    if not _plainly_fine(present):
        for value in present:
            check_text(name, value, longest=LONGEST[name])


def _plainly_fine(values: list[str]) -> bool:
    """Whether all values are short ASCII, the usual case; checks them together to save time."""
    try:
        joined = "".join(values)
    except TypeError:
        return False
    return (
        joined.isascii()
        and "\0" not in joined
        and "" not in values
        and max(map(len, values), default=0) <= _SHORT
    )


def is_traceparent(text: str) -> bool:
    """Whether the text is a valid W3C `traceparent` of version 00."""
    return _TRACEPARENT.fullmatch(text) is not None
