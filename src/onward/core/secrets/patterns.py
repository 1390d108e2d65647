"""Regular expressions that recognise secrets by their form, whatever their name.

Every pattern takes time linear in the text, also in a hostile one: it begins where a token begins, and its
repetitions never backtrack (`++`) or have a bound. A group uses `(?>…)` instead of `(…)*+`, after which early
releases of Python 3.11 continue at the wrong place. A pattern is tried only on a text that contains one of
its markers: a search for a few letters costs next to nothing.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from onward.errors import InvalidSetting

MASK = "[redacted]"
"""The text that replaces a secret."""


@dataclass(frozen=True, slots=True)
class Pattern:
    """A kind of secret: the match's group `secret`, else the whole match, must be hidden.

    `loose` is for texts that are only shown, where hiding too much is better than hiding too little.
    """

    kind: str
    markers: Sequence[str]
    strict: re.Pattern[str]
    loose: re.Pattern[str]


def _pattern(kind: str, markers: Sequence[str], strict: str, loose: str | None = None) -> Pattern:
    return Pattern(kind, tuple(markers), re.compile(strict), re.compile(loose or strict))


def own_pattern(source: str | re.Pattern[str]) -> Pattern:
    """Return an application's regular expression as a pattern that is tried on every text."""
    try:
        compiled = re.compile(source)
        useless = compiled.search("") or compiled.search(MASK)
    except (re.error, TypeError) as error:
        raise InvalidSetting(f"pattern {source!r:.80} is no regular expression: {error}") from None
    if not isinstance(compiled.pattern, str) or useless:
        raise InvalidSetting(
            f"pattern {source!r:.80} fits any text; describe more closely what a secret looks like"
        )
    return Pattern("a pattern of this application", ("",), compiled, compiled)


_APART = r"(?<![A-Za-z0-9])"

PATTERNS: tuple[Pattern, ...] = (
    _pattern(
        "a private key",
        ["-----BEGIN"],
        # Up to its END line, or to the end of the text if the key was cut off.
        r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
        r"[^-]*+(?>(?:-(?!----END)[^-]*+)*)(?:-----END[A-Z0-9 ]{0,60}-----)?",
    ),
    _pattern("an AWS access key", ["AKIA", "ASIA"], _APART + r"A(?:KIA|SIA)[A-Z0-9]{16}(?![A-Za-z0-9])"),
    _pattern(
        "a Stripe key",
        ["k_live_", "k_test_", "whsec_"],
        _APART + r"(?:[sr]k_(?:live|test)_[A-Za-z0-9]{8,}+|whsec_[A-Za-z0-9+/]{16,}+=*+)",
    ),
    _pattern(
        "a key of OpenAI or Anthropic",
        ["sk-"],
        _APART + r"sk-(?:(?:proj|ant)-[A-Za-z0-9_-]{16,}+|[A-Za-z0-9]{32,}+)",
    ),
    _pattern("a GitLab token", ["glpat-"], _APART + r"glpat-[A-Za-z0-9_-]{16,}+"),
    _pattern("an npm token", ["npm_"], _APART + r"npm_[A-Za-z0-9]{30,}+"),
    _pattern("a SendGrid key", ["SG."], _APART + r"SG\.[\w-]{16,}+\.[\w-]{16,}+"),
    _pattern(
        "a GitHub token",
        ["ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_"],
        _APART + r"(?:gh[pousr]_[A-Za-z0-9]{20,}+|github_pat_[A-Za-z0-9_]{20,}+)",
    ),
    _pattern("a Slack token", ["xox"], _APART + r"xox[a-z]-[A-Za-z0-9-]{10,}+"),
    _pattern("a Google API key", ["AIza"], _APART + r"AIza[A-Za-z0-9_-]{35}"),
    _pattern("a JSON web token", ["eyJ"], r"(?<![\w-])eyJ[\w-]{5,}+\.eyJ[\w-]{5,}+(?:\.[\w-]*+)?"),
    _pattern(
        "a bearer token",
        ["earer ", "EARER "],
        # At least 20 characters, or a digit among them: "bearer of news" is no token.
        r"(?i:(?<!\w)bearer) {1,4}+(?P<secret>(?:(?=[A-Za-z._~+/=-]{0,40}[0-9])|(?=[\w.~+/=-]{20}))"
        r"[\w.~+/=-]{8,}+)",
        r"(?i:(?<!\w)bearer) {1,4}+(?P<secret>[\w.~+/=-]{3,}+)",
    ),
    _pattern(
        "a password in a URL",
        ["://"],
        r"://[^\s/?#:@\"'<>\\]{0,256}+:(?P<secret>[^\s/?#\"'<>\\]{1,512})@",
    ),
)

# A name, perhaps in quotes that may be escaped, and the sign that precedes its value.
ASSIGNMENT_MARKERS = ("=", '":', "':")
ASSIGNMENT = re.compile(
    r"""(?<![\w.-])(?P<name>[\w.-]++)(?P<quote>\\*+["'])?\]?+(?P<sign>\s{0,4}+(?:=>|:=|=|:)\s{0,4}+)"""
)
FLAG = re.compile(r"""(?<![\w-])--(?P<name>[\w-]++)(?P<quote>["'],)?(?P<sign>\s{1,4}+)""")
VALUE = re.compile(
    r"""
    "(?>(?:[^"\\]++|\\.)*)"?
    | '(?>(?:[^'\\]++|\\.)*)'?
    | \\++"[^"\\]*+ | \\++'[^'\\]*+
    | (?>(?:(?i:bearer|basic|token|digest)[ ]{1,4}+)?)(?>(?:[^\s&;"'\\]|\\(?!["']))+)
    """,
    re.VERBOSE | re.DOTALL,
)

# The parts of a text that matter in the search for a closing bracket: brackets outside quotes.
BRACKETED = re.compile(
    r"""[\[({\])}] | \\++.? | "(?>(?:[^"\\]++|\\.)*)"? | '(?>(?:[^'\\]++|\\.)*)'?""", re.VERBOSE | re.DOTALL
)

PLACEHOLDER = re.compile(
    r"\$\{[^{}]*\}|\$\w+|\{{1,2} ?[^{}\s\x22\x27\x5c:]* ?\}{1,2}|\[\]|\(\)|"
    r"%\(\w+\)s|%s|<[^<>]*>|\*+|\[redacted\]|"
    r"(?i:none|null|true|false)"
)
"""Placeholders that stand where a secret would."""

WORD = re.compile(
    r"(?i:str|int|float|bool|bytes|dict|list|tuple|any|object|required|missing|invalid|expired|incorrect|wrong|"
    r"denied|refused|unknown|not|is|was|must|too|field|expected)[,.:)\]]{0,2}"
)
"""Words that messages use about a secret, or its type in a signature; no secrets themselves."""


# Narrower than the markers "://" and "sk-": a URL needs a colon before its path, and "task-1" is no key.
_URL = r"://[^\s/?#:@\"'<>\\]{0,256}+:"

_SK = _APART + "sk-"


def _any_of(*own: str) -> re.Pattern[str]:
    markers = [marker for pattern in PATTERNS for marker in pattern.markers if marker not in ("://", "sk-")]
    return re.compile("|".join([_URL, _SK, *map(re.escape, [*markers, *own])]))


MARKED = _any_of(*ASSIGNMENT_MARKERS)
"""A text in which this finds nothing holds no secret that its form reveals."""

# A quote within a JSON string is escaped; unescaped ones are everywhere, so they mark nothing.
MARKED_JSON = _any_of("=", "\\", "':")
"""The same as `MARKED`, for texts that are JSON."""

_SK_BEGINS = re.compile(_SK)

# A rare text that each group of markers shares, searched first, and then the markers.
_RARE = (
    ("A", ("AKIA", "ASIA", "AIza")),
    ("J", ("eyJ",)),
    ("_", ("k_live_", "k_test_", "whsec_", "npm_")),
    ("glpat-", ("glpat-",)),
    ("SG.", ("SG.",)),
    ("gh", ("ghp_", "gho_", "ghu_", "ghs_", "ghr_")),
    ("_pat_", ("github_pat_",)),
)


def may_match(text: str) -> bool:
    """Whether `MARKED_JSON` may match; a letter is found a hundred times faster than a word in much JSON."""
    return (
        "=" in text
        or "\\" in text
        or ("'" in text and "':" in text)
        or ("/" in text and "@" in text and "://" in text)
        or ("B" in text and "-----BEGIN" in text)
        or (" " in text and ("earer " in text or ("R" in text and "EARER " in text)))
        or ("x" in text and "-" in text and "xox" in text)
        or ("sk-" in text and _SK_BEGINS.search(text) is not None)
        or any(rare in text and any(marker in text for marker in markers) for rare, markers in _RARE)
    )
