"""Texts as they are shown: those from outside in one line, with nothing that controls a terminal or page."""

from __future__ import annotations

import re

_BLANKS = re.compile(r"[\t\n\v\f\r\x1c-\x1e\x85\u2028\u2029]+")
CONTROLS = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]|[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)
"""Control characters, surrogates, and those that turn the direction of what follows."""


def one_line(text: str, longest: int | None = None) -> str:
    """Give a text as one line without control characters; cut if it is longer than it may be."""
    line = CONTROLS.sub("", _BLANKS.sub(" ", text)).strip()
    return line if longest is None or len(line) <= longest else f"{line[: longest - 1]}…"


def count(number: int, what: str, verb: str = "", *, of: str = "") -> str:
    """Write how many there are, of what, and what they do: `1 job of type mail waits`, `2 jobs wait`."""
    one = number == 1
    words = (str(number), what if one else f"{what}s", of, f"{verb}s" if one and verb else verb)
    return " ".join(filter(None, words))
