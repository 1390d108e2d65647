"""Which names mark their value as a secret.

A name is split into words at every character that is no letter or digit, and where camelCase begins a word.
Numbers and a few words such as `old` or `confirmation` are dropped from its end. It names a secret if the
rest ends with one of the terms below: the last words state what a thing is, the others only which one.
So `X-Auth-Token` and `newPassword2` name secrets; `token_count`, `password_reset_id` and `secretary` do not.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

Term = tuple[str, ...]
Terms = frozenset[Term]

_LONGEST = 100
_MOST_WORDS = 3
_PARTS = re.compile(r"[\W_]++|(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_NUMBER = re.compile(r"v?[0-9]+")

_ONE_WORD = (
    "password", "passwords", "passwd", "passphrase", "passcode", "pwd", "secret", "secrets", "token",
    "bearer", "jwt", "authorization", "authorisation", "credential", "credentials", "cookie", "cookies",
    "apikey", "apikeys", "accesskey", "secretkey", "privatekey", "accesstoken", "refreshtoken", "authtoken",
    "apitoken", "clientsecret", "sshkey",
)  # fmt: skip
# "key" and "pass" alone may mean anything; after these words they mean a secret.
_KEYS = [
    "api",
    "secret",
    "private",
    "access",
    "encryption",
    "signing",
    "master",
    "auth",
    "account",
    "hmac",
    "ssh",
]
_PASSES = ["db", "database", "smtp", "imap", "ftp", "mail", "user", "admin", "root"]
# "tokens" alone may be the words of a text; after these words they are secrets.
_TOKENS = ["access", "refresh", "api", "auth", "bearer", "session"]
_ENDINGS = ("password", "passwd", "passphrase")

TERMS: Terms = frozenset(
    [(word,) for word in _ONE_WORD]
    + [(word, key) for word in _KEYS for key in ("key", "keys")]
    + [(word, "pass") for word in _PASSES]
    + [(word, "tokens") for word in _TOKENS]
    + [("password", "hash")]
)
"""The endings of the names of secrets."""

_HARMLESS: Terms = frozenset(
    (word, "token")
    for word in (
        "csrf", "xsrf", "page", "next", "continuation", "cursor", "sync", "cancellation", "idempotency",
        "pad", "eos", "bos", "unk", "stop",
    )
)  # fmt: skip
# Names whose value may also be an ordinary word: "authorization": "pending", "secret": "santa".
_OF_WORDS: Terms = frozenset(
    (word,) for word in ("authorization", "authorisation", "credentials", "secret", "secrets")
)
_WORD = re.compile(r"[a-z]{3,10}")
_DROPPED = frozenset(
    [
        "value",
        "plain",
        "plaintext",
        "raw",
        "old",
        "new",
        "current",
        "confirm",
        "confirmation",
        "again",
        "repeat",
    ]
)


def _words(name: str) -> Term:
    """Return the words of a name, without the meaningless ones at its end."""
    # Only the end decides, and splitting all of a name as long as a payload would be slow.
    words = [word.lower() for word in _PARTS.split(name[-_LONGEST:]) if word]
    while words and (words[-1] in _DROPPED or _NUMBER.fullmatch(words[-1])):
        words.pop()
    if words:
        words[-1] = words[-1].rstrip("0123456789")
    return tuple(words)


def is_secret_name(name: str, terms: Terms = TERMS) -> bool:
    """Whether a name marks its value as a secret."""
    words = _words(name)
    if not words or (words[-2:] in _HARMLESS and words[-2:] not in terms):
        return False
    if words[-1].endswith(_ENDINGS):
        return True
    return any(words[-count:] in terms for count in range(1, min(len(words), _longest(terms)) + 1))


def is_ordinary(name: str, text: str) -> bool:
    """Whether a text under a secret's name is no secret: a directory, or a word such as `pending`."""
    words = _words(name)
    if words == ("pwd",):
        return text.startswith(("/", "~"))
    return words in _OF_WORDS and _WORD.fullmatch(text) is not None


def more_terms(names: Iterable[str]) -> Terms:
    """Return the built-in terms and those that an application adds."""
    return TERMS | {words for words in map(_words, names) if words}


def _longest(terms: Terms) -> int:
    return _MOST_WORDS if terms is TERMS else max(map(len, terms))
