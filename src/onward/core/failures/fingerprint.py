"""The fingerprint of a failure: equal for failures of one job type, error class, status and message.

Two failures of one cause differ in numbers, ids, addresses and times. Placeholders replace these before
messages are compared; a group of dead letters shows the message with its placeholders. The HTTP status is
compared by itself: a refused key is not a missing page.
"""

from __future__ import annotations

import re
from hashlib import blake2b

from msgspec.structs import replace

from onward.core.work.error_record import ErrorRecord

_LONGEST_READ = 2000
_LONGEST = 300
_MOST = 1_000_000

# The order matters: an earlier pattern takes text that a later one would cut into numbers. All are linear.
_PARTICULARS = {
    "time": (
        r"\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?(?:Z|[ ]?[+-]\d\d:?\d\d)?)?"
        r"|\b\d\d:\d\d:\d\d(?:[.,]\d+)?"
    ),
    "uuid": r"\b[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}\b",
    # Quotes must stand at the edge of a word: an apostrophe within a word begins no quotation.
    "text": r"(?<!\w)'[^'\n]*'(?!\w)|(?<!\w)\"[^\"\n]*\"(?!\w)|`[^`\n]*`|“[^”\n]*”|«[^»\n]*»",
    "url": r"\b[a-zA-Z][a-zA-Z0-9+.-]{1,20}://[^\s'\"<>]+",
    "email": r"(?<![\w.+-])[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63})*",
    "path": r"(?<![\w/\\.~])(?:[A-Za-z]:|~|\.{1,2})?[\\/][\w.@-]+(?:[\\/][\w.@-]+)*[\\/]?",
    "hex": r"\b0[xX][0-9a-fA-F]+\b|\b(?=[a-fA-F]*\d)[0-9a-fA-F]{8,}\b",
    # The ids of providers are long and mix digits with letters.
    "id": r"(?<![\w-])(?=[\w-]*\d)(?=[\w-]*[A-Za-z])[\w-]{16,}",
    "n": r"[+-]?\d+(?:[.,_]\d+)*",
}
_PARTICULAR = re.compile("|".join(f"(?P<{name}>{pattern})" for name, pattern in _PARTICULARS.items()))


def normalised(message: str | None) -> str:
    """Return a message with a placeholder for each number, id, quotation, path and time; never fails."""
    text = " ".join((message or "")[:_LONGEST_READ].split())
    return _PARTICULAR.sub(lambda found: f"<{found.lastgroup}>", text)[:_LONGEST]


def fingerprint(job_type: str, error: ErrorRecord) -> str:
    """Return the 12 hex digits that identify failures of one kind; never fails."""
    parts = (job_type, error.error_class, normalised(error.message), error.status)
    text = "\x1f".join("" if part is None else str(part) for part in parts)
    return blake2b(text.encode(errors="backslashreplace"), digest_size=6).hexdigest()


def recognised(job_type: str, error: ErrorRecord, last: ErrorRecord | None) -> ErrorRecord:
    """Return an error with its fingerprint and how many in a row had the same; `last` is the error before."""
    mine = fingerprint(job_type, error)
    before = last.repeats or 0 if last is not None and last.fingerprint == mine else 0
    return replace(error, fingerprint=mine, repeats=before + 1 if 0 <= before < _MOST else 1)
