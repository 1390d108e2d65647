"""The one list of secrets, by name and by form, for payloads, errors, logs and everything that is shown.

`find` is strict: it reports only what no payload should hold. `redact` prefers to hide too much: a text that
was stored or shown can't be taken back. `find` finds nothing in what `redact` returns.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator
from functools import lru_cache
from typing import Any, NamedTuple
from urllib.parse import quote, quote_plus

from onward.core.inputs.json_path import write_path
from onward.core.secrets.names import TERMS, Terms, is_ordinary, is_secret_name, more_terms
from onward.core.secrets.patterns import (
    ASSIGNMENT,
    ASSIGNMENT_MARKERS,
    BRACKETED,
    FLAG,
    MARKED,
    MARKED_JSON,
    MASK,
    PATTERNS,
    PLACEHOLDER,
    VALUE,
    WORD,
    may_match,
    own_pattern,
)
from onward.errors import InvalidSetting

_SHORTEST = 4
_SHORTEST_LINE = 16
_MOST_VALUES = 1000
_LONGEST_CACHED = 100
_MOST_HARMLESS = 4096

_NAMED = "its name says so"
_ASSIGNED = "a name and its value in a text"

_MOST_PASSES = 5
_OPENING, _CLOSING = "([{", ")]}"

# What a name means for the texts below it: not secret, secret text, all texts in an object or list secret.
_OPEN, _DIRECT, _ALL = range(3)

Trail = tuple[Any, ...]

Hide = Callable[[str], str]
"""Returns a text without its secrets."""


class Found(NamedTuple):
    """The path of a secret, and how it was recognised."""

    path: str
    kind: str


class Redaction:
    """The built-in list of secrets, with the names and patterns that an application adds.

    An added name matches by its last words, as the built-in ones do. Everything that a pattern matches is
    hidden, or only its group `secret`. It is tried on every text, so it must never be slow.
    """

    def __init__(self, *, names: Iterable[str] = (), patterns: Iterable[str | re.Pattern[str]] = ()) -> None:
        for what, texts in (("names", names), ("patterns", patterns)):
            if isinstance(texts, str | bytes):
                raise InvalidSetting(f"{what} is a text; give a list of texts")
        self.names = tuple(names)
        self.patterns = tuple(patterns)
        for name in self.names:
            if not isinstance(name, str) or not name:
                raise InvalidSetting(f"name {name!r:.80} is no name; give a text such as 'pin_code'")
        terms = more_terms(self.names) if self.names else TERMS
        self._patterns = (*PATTERNS, *map(own_pattern, self.patterns))
        self.is_secret_name = _cached(terms)
        self._harmless: set[str] = set()

    def find(self, value: object) -> Found | None:
        """Return the path of the first secret in a payload and how it was recognised; None if it has none."""
        for text, flag, trail in _texts(value, self.is_secret_name):
            named = flag and _is_value(text) and not (flag == _DIRECT and is_ordinary(str(trail[-1]), text))
            kind = _NAMED if named else self.find_in_text(text)
            if kind is not None:
                keys = (self.redact_text(key) if isinstance(key, str) else key for key in _keys(trail))
                return Found(write_path(keys), kind)
        return None

    def find_in_text(self, text: str) -> str | None:
        """Return the kind of the first secret in a text; None if there is none."""
        if not self.patterns and MARKED.search(text) is None:
            return None
        for pattern in self._patterns:
            if any(marker in text for marker in pattern.markers):
                for match in pattern.strict.finditer(text):
                    if _is_value(_secret(match)):
                        return pattern.kind
        if any(marker in text for marker in ASSIGNMENT_MARKERS):
            for match, value in _assigned(text, ASSIGNMENT, self.is_secret_name):
                sign = match["sign"]
                # A bare colon may be prose ("token: see below"), so the name must be quoted there.
                tight = match["quote"] is not None if ":" in sign else sign == "="
                inner = _inner(value.text)
                if tight and inner and not is_ordinary(match["name"], inner):
                    return _ASSIGNED
        return None

    def any_may_hold(self, payloads: Collection[dict[str, Any]], text: str) -> bool:
        """Whether one of many flat payloads may hold a secret; `text` is the JSON of all."""
        return not self._are_harmless(set().union(*payloads)) or bool(self.patterns) or may_match(text)

    def texts_may_hold(self, texts: Collection[str]) -> bool:
        """Whether one of many texts may hold a secret."""
        if not texts:
            return False
        text = "\n".join(texts)
        return bool(self.patterns) or may_match(text) or '":' in text

    def may_hold(self, payload: dict[str, Any], text: str) -> bool:
        """Whether a payload may hold a secret; `text` is its JSON. Cheap for an ordinary payload."""
        if self.patterns or MARKED_JSON.search(text) is not None:
            return True
        names: Collection[str] = payload
        if text.find("{", 1) > 0:
            names = _all_names(payload)
        return not (self._harmless.issuperset(names) or self._are_harmless(names))

    def secrets_of(self, payload: object) -> frozenset[str]:
        """Return the secrets of a payload, to be hidden wherever their text occurs."""
        found: set[str] = set()
        for text, flag, _ in _texts(payload, self.is_secret_name):
            if flag and _is_value(text):
                found.add(text)
                found.update(line for line in text.splitlines() if len(line) >= _SHORTEST_LINE)
            found.update(self._within(text))
        return frozenset(value for value in found if len(value) >= _SHORTEST)

    def hider(self, payload: object) -> Hide:
        """Return a function that hides a text's secrets and those of this payload, read on first use."""
        secrets: list[frozenset[str]] = []

        def hide(text: str) -> str:
            if not secrets:
                secrets.append(self.secrets_of(payload))
            return self.redact_text(text, secrets[0])

        return hide

    def redact(self, value: Any, also: Collection[str] = ()) -> Any:
        """Return a copy of JSON values with every secret replaced."""
        top: list[Any] = [None]
        work: list[tuple[Any, int, Any, Any]] = [(value, _OPEN, top, 0)]
        copies: dict[tuple[int, int], Any] = {}
        while work:
            item, flag, target, key = work.pop()
            if isinstance(item, str):
                target[key] = MASK if flag and item.strip() else self.redact_text(item, also)
            elif isinstance(item, dict | list | tuple | set | frozenset):
                # The key includes the flag: the same list may be secret in one place and not in another.
                known = copies.get((id(item), flag))
                if known is None:
                    known = copies[id(item), flag] = {} if isinstance(item, dict) else [None] * len(item)
                    work.extend(self._members(item, flag, known, also))
                target[key] = known
            else:
                target[key] = item
        return top[0]

    def redact_text(self, text: str, also: Collection[str] = ()) -> str:
        """Return a text in which all that looks like a secret, and the values of `also`, are replaced."""
        text = _without(str(text), also)
        # A replacement may bring together a name and a value that were apart, so repeat.
        for _ in range(_MOST_PASSES):
            before, text = text, self._hidden(text)
            if text == before:
                return text if self.find_in_text(text) is None else MASK
        return MASK

    def _hidden(self, text: str) -> str:
        if any(sign in text for sign in ("=", ":")):
            text = _reassigned(text, ASSIGNMENT, self.is_secret_name)
        if "--" in text:
            text = _reassigned(text, FLAG, self.is_secret_name)
        for pattern in self._patterns:
            if any(marker in text for marker in pattern.markers):
                text = pattern.loose.sub(_masked, text)
        return text

    def _members(
        self, item: Any, flag: int, copy: Any, also: Collection[str]
    ) -> Iterator[tuple[Any, int, Any, Any]]:
        if not isinstance(item, dict):
            for at, member in enumerate(item):
                yield member, flag, copy, at
            return
        for key, member in item.items():
            name = key
            if isinstance(key, str):
                name = self.redact_text(key, also)
                while name in copy:
                    name += " "
            copy[name] = None  # keeps the order of the keys
            # Check both names: redaction may turn an ordinary name into a secret one.
            below = max(_below(each, flag, member, self.is_secret_name) for each in {key, name})
            yield member, below, copy, name

    def _within(self, text: str) -> Iterator[str]:
        """Yield the secrets that a text holds, recognised by their form."""
        for pattern in self._patterns:
            if any(marker in text for marker in pattern.markers):
                for match in pattern.strict.finditer(text):
                    if _is_value(_secret(match)):
                        yield _secret(match)
        if any(marker in text for marker in ASSIGNMENT_MARKERS):
            yield from (_inner(value.text) for _, value in _assigned(text, ASSIGNMENT, self.is_secret_name))

    def _are_harmless(self, names: Collection[str]) -> bool:
        """Whether none of the names marks or holds a secret; names that were checked before are cached."""
        if self._harmless.issuperset(names):
            return True
        new = [name for name in names if name not in self._harmless]
        if any(self.is_secret_name(name) or self.find_in_text(name) for name in new):
            return False
        if len(self._harmless) > _MOST_HARMLESS:
            self._harmless = set()
        self._harmless.update(name for name in new if len(name) <= _LONGEST_CACHED)
        return True


def _cached(terms: Terms) -> Callable[[str], bool]:
    known = lru_cache(maxsize=_MOST_HARMLESS)(lambda name: is_secret_name(name, terms))
    return lambda name: known(name) if len(name) <= _LONGEST_CACHED else is_secret_name(name, terms)


def _texts(value: object, is_name: Callable[[str], bool]) -> Iterator[tuple[str, int, Trail]]:
    """Yield every text of a payload in order, keys too, with the flag of the names above it and its path."""
    work: list[tuple[object, int, Trail]] = [(value, _OPEN, ())]
    seen: set[tuple[int, int]] = set()
    while work:
        item, flag, trail = work.pop()
        if isinstance(item, str):
            yield str.__str__(item), flag, trail
        elif isinstance(item, dict | list | tuple) and (id(item), flag) not in seen:
            seen.add((id(item), flag))
            if not isinstance(item, dict):
                work.extend((member, flag, (trail, at)) for at, member in reversed([*enumerate(item)]))
                continue
            for key, member in reversed(item.items()):
                work.append((member, _below(key, flag, member, is_name), (trail, key)))
                if isinstance(key, str):
                    work.append((key, _OPEN, (trail, key)))


def _all_names(payload: dict[str, Any]) -> set[str]:
    """Return the names in a payload that came from JSON and so has no cycles."""
    names: set[str] = set()
    work: list[Any] = [payload]
    while work:
        item = work.pop()
        if isinstance(item, dict):
            names.update(item)
            item = item.values()
        work.extend([member for member in item if isinstance(member, dict | list)])
    return names


def _below(key: object, flag: int, member: object, is_name: Callable[[str], bool]) -> int:
    """Return the flag of a key's member: a secret's name covers a text, or all texts in an object or list."""
    if flag == _ALL or not isinstance(key, str) or not is_name(key):
        return flag
    return _DIRECT if isinstance(member, str) else _ALL


def _keys(trail: Trail) -> list[Any]:
    keys = []
    while trail:
        trail, key = trail
        keys.append(key)
    return keys[::-1]


def _is_value(text: str) -> bool:
    """Whether a text is a value: neither blank nor a placeholder."""
    return bool(text.strip()) and PLACEHOLDER.fullmatch(text) is None


def _secret(match: re.Match[str]) -> str:
    return str(match["secret"]) if "secret" in match.re.groupindex and match["secret"] else match[0]


def _masked(match: re.Match[str]) -> str:
    """Return a match with its secret replaced and the text around it kept."""
    text, secret = match[0], _secret(match)
    if secret is text or secret == text:
        return MASK
    start = match.start("secret") - match.start()
    return f"{text[:start]}{MASK}{text[start + len(secret) :]}"


class _Value(NamedTuple):
    """A value that follows its name in a text."""

    text: str
    start: int
    end: int


def _assigned(
    text: str, pattern: re.Pattern[str], is_name: Callable[[str], bool]
) -> Iterator[tuple[re.Match[str], _Value]]:
    """Yield each secret name in a text that is followed by a value, with that value."""
    at = 0
    while match := pattern.search(text, at):
        at = match.end()
        if is_name(match["name"]) and (end := _end_of_value(text, at)) > at:
            yield match, _Value(text[at:end], at, end)
            at = end


def _end_of_value(text: str, at: int) -> int:
    """Return where the value that begins at `at` ends; a bracketed value ends where its bracket is closed."""
    end = at
    if text.startswith(tuple(_OPENING), at):
        depth = 0
        for part in BRACKETED.finditer(text, at):
            depth += (part[0] in _OPENING) - (part[0] in _CLOSING)
            if not depth:
                end = part.end()
                break
        else:
            return len(text)
        if text.startswith((",", *_CLOSING), end):
            return end
    value = VALUE.match(text, end)
    return end if value is None or (end > at and value[0][0] in "\\\"'") else value.end()


def _inner(value: str) -> str:
    """Return a value without its quotes; an empty text if it is a placeholder or an ordinary word."""
    inner = value.strip("\\\"'")
    return inner if _is_value(inner) and WORD.fullmatch(inner) is None else ""


def _reassigned(text: str, pattern: re.Pattern[str], is_name: Callable[[str], bool]) -> str:
    parts: list[str] = []
    at = 0
    for _, value in _assigned(text, pattern, is_name):
        inner = _inner(value.text)
        if inner:
            before, _, after = value.text.partition(inner)
            parts += [text[at : value.start], before, MASK, after]
            at = value.end
    return "".join([*parts, text[at:]]) if parts else text


def _without(text: str, values: Collection[str]) -> str:
    """Return a text in which these values are replaced wherever they occur, also in escaped form."""
    if len(values) > _MOST_VALUES:
        return MASK
    forms = {form for value in values if len(value) >= _SHORTEST for form in _forms(value)}
    for form in sorted(forms, key=len, reverse=True):
        if form in text and form not in MASK:
            text = text.replace(form, MASK)
    return text


@lru_cache(maxsize=256)
def _forms(value: str) -> tuple[str, ...]:
    try:
        quoted = (quote(value), quote(value, safe=""), quote_plus(value))
    except UnicodeEncodeError:
        quoted = ("", "", "")
    escaped = (repr(value)[1:-1], ascii(value)[1:-1], json.dumps(value)[1:-1])
    return tuple(form for form in {value, value.strip(), *quoted, *escaped} if len(form) >= _SHORTEST)


REDACTION = Redaction()
"""The built-in list of secrets."""

redact = REDACTION.redact
redact_text = REDACTION.redact_text
