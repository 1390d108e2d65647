"""Text for display.

Text from outside becomes one line, without characters that control a terminal or a page.
"""

from __future__ import annotations

import re

_BLANKS = re.compile(r"[\t\n\v\f\r\x1c-\x1e\x85\u2028\u2029]+")
CONTROLS = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]|[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)
"""Control characters, surrogates, and characters that change the direction of the text after them."""


def one_line(text: str, longest: int | None = None) -> str:
    """Return the text as one line without control characters, cut to `longest` characters."""
    line = CONTROLS.sub("", _BLANKS.sub(" ", text)).strip()
    return line if longest is None or len(line) <= longest else f"{line[: longest - 1]}…"


def kind_of(value: object) -> str:
    """Return the type of a value with its article, for a sentence: `an int`, `a list`."""
    name = type(value).__name__
    return f"{'an' if name[0] in 'aeioAEIO' else 'a'} {name}"


def count(number: int, what: str, verb: str = "", *, of: str = "") -> str:
    """Write a count with its noun and verb: `1 job of type mail waits`, `2 jobs wait`."""
    one = number == 1
    words = (str(number), what if one else f"{what}s", of, f"{verb}s" if one and verb else verb)
    return " ".join(filter(None, words))
