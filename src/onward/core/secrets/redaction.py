"""One list of what is secret, by name and by looks, for payloads, errors, logs and whatever is shown.

`find` looks for what no payload should hold, and is strict. `redact` is for what is stored or shown of a text
that nobody can take back, and rather hides too much. In what `redact` gives, `find` finds nothing.
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

# What a name says of the texts below it: the last is what is within an object or a list.
_OPEN, _DIRECT, _ALL = range(3)

Trail = tuple[Any, ...]

Hide = Callable[[str], str]
"""Gives a text without its secrets."""


class Found(NamedTuple):
    """Where a secret is, and how it was known."""

    path: str
    kind: str


class Redaction:
    """The built-in list, with the names and patterns that an application adds.

    A name is compared as the built-in ones are, by its last words. Of a pattern all that fits is hidden, or
    its group `secret`; it is tried on every text, so it should be one that is never slow.
    """

    def __init__(self, *, names: Iterable[str] = (), patterns: Iterable[str | re.Pattern[str]] = ()) -> None:
        for what, given in (("names", names), ("patterns", patterns)):
            if isinstance(given, str | bytes):
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
        """Find the first secret in a payload: its path, and what told it."""
        for text, flag, trail in _texts(value, self.is_secret_name):
            named = flag and _is_value(text) and not (flag == _DIRECT and is_ordinary(str(trail[-1]), text))
            kind = _NAMED if named else self.find_in_text(text)
            if kind is not None:
                keys = (self.redact_text(key) if isinstance(key, str) else key for key in _keys(trail))
                return Found(write_path(keys), kind)
        return None

    def find_in_text(self, text: str) -> str | None:
        """Say what secret a text holds."""
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
                # Prose has a colon: "token: see below".
                tight = match["quote"] is not None if ":" in sign else sign == "="
                inner = _inner(value.text)
                if tight and inner and not is_ordinary(match["name"], inner):
                    return _ASSIGNED
        return None

    def any_may_hold(self, payloads: Collection[dict[str, Any]], text: str) -> bool:
        """Tell whether one of many flat payloads may hold a secret; `text` is the JSON of all."""
        return not self._are_harmless(set().union(*payloads)) or bool(self.patterns) or may_match(text)

    def texts_may_hold(self, texts: Collection[str]) -> bool:
        """Tell whether one of many texts may hold a secret."""
        if not texts:
            return False
        text = "\n".join(texts)
        return bool(self.patterns) or may_match(text) or '":' in text

    def may_hold(self, payload: dict[str, Any], text: str) -> bool:
        """Tell whether a payload may hold a secret; `text` is its JSON. The ordinary case is nearly free."""
        if self.patterns or MARKED_JSON.search(text) is not None:
            return True
        names: Collection[str] = payload
        if text.find("{", 1) > 0:
            names = _all_names(payload)
        return not (self._harmless.issuperset(names) or self._are_harmless(names))

    def secrets_of(self, payload: object) -> frozenset[str]:
        """Give the secrets of a payload, to be hidden wherever their text turns up."""
        found: set[str] = set()
        for text, flag, _ in _texts(payload, self.is_secret_name):
            if flag and _is_value(text):
                found.add(text)
                found.update(line for line in text.splitlines() if len(line) >= _SHORTEST_LINE)
            found.update(self._within(text))
        return frozenset(value for value in found if len(value) >= _SHORTEST)

    def hider(self, payload: object) -> Hide:
        """Give what hides the secrets of a text, and those of this payload; it is read when first needed."""
        secrets: list[frozenset[str]] = []

        def hide(text: str) -> str:
            if not secrets:
                secrets.append(self.secrets_of(payload))
            return self.redact_text(text, secrets[0])

        return hide

    def redact(self, value: Any, also: Collection[str] = ()) -> Any:
        """Copy JSON values with every secret replaced."""
        top: list[Any] = [None]
        work: list[tuple[Any, int, Any, Any]] = [(value, _OPEN, top, 0)]
        copies: dict[tuple[int, int], Any] = {}
        while work:
            item, flag, target, key = work.pop()
            if isinstance(item, str):
                target[key] = MASK if flag and item.strip() else self.redact_text(item, also)
            elif isinstance(item, dict | list | tuple | set | frozenset):
                # By what it is below, too: the same list may be secret in one place and not in another.
                known = copies.get((id(item), flag))
                if known is None:
                    known = copies[id(item), flag] = {} if isinstance(item, dict) else [None] * len(item)
                    work.extend(self._members(item, flag, known, also))
                target[key] = known
            else:
                target[key] = item
        return top[0]

    def redact_text(self, text: str, also: Collection[str] = ()) -> str:
        """Replace what looks like a secret in a text, and these values wherever they are."""
        text = _without(str(text), also)
        # What was hidden may bring together a name and a value that were apart.
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
            copy[name] = None  # holds the place: the order of the keys stays
            # By both: what is left of a name may be a secret one when it was none.
            below = max(_below(each, flag, member, self.is_secret_name) for each in {key, name})
            yield member, below, copy, name

    def _within(self, text: str) -> Iterator[str]:
        """Give the secrets that a text holds by their looks."""
        for pattern in self._patterns:
            if any(marker in text for marker in pattern.markers):
                for match in pattern.strict.finditer(text):
                    if _is_value(_secret(match)):
                        yield _secret(match)
        if any(marker in text for marker in ASSIGNMENT_MARKERS):
            yield from (_inner(value.text) for _, value in _assigned(text, ASSIGNMENT, self.is_secret_name))

    def _are_harmless(self, names: Collection[str]) -> bool:
        """Tell names of which none says that its value is a secret; most were asked about before."""
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
    """Give all texts of a payload in their order, keys too, and what the names above say of each."""
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
    """Give the names of a payload that is known to be JSON, and so to end."""
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
    """Tell what a key says of its member: a text is secret, and every text in an object or a list."""
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
    """Tell a value from nothing, and from what only stands for one."""
    return bool(text.strip()) and PLACEHOLDER.fullmatch(text) is None


def _secret(match: re.Match[str]) -> str:
    return str(match["secret"]) if "secret" in match.re.groupindex and match["secret"] else match[0]


def _masked(match: re.Match[str]) -> str:
    """Replace the secret of a match, and keep what is around it."""
    whole, secret = match[0], _secret(match)
    if secret is whole or secret == whole:
        return MASK
    start = match.start("secret") - match.start()
    return f"{whole[:start]}{MASK}{whole[start + len(secret) :]}"


class _Value(NamedTuple):
    """A value that stands in a text after its name."""

    text: str
    start: int
    end: int


def _assigned(
    text: str, pattern: re.Pattern[str], is_name: Callable[[str], bool]
) -> Iterator[tuple[re.Match[str], _Value]]:
    """Give each secret name in a text that is followed by a value, with that value."""
    at = 0
    while match := pattern.search(text, at):
        at = match.end()
        if is_name(match["name"]) and (end := _end_of_value(text, at)) > at:
            yield match, _Value(text[at:end], at, end)
            at = end


def _end_of_value(text: str, at: int) -> int:
    """Tell where a value ends that begins here; one that begins with a bracket, where that is closed."""
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
    """Give a value without its quotes; empty if it is none."""
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
    """Replace values wherever they are in a text, also as they look when escaped."""
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
"""The built-in list."""

redact = REDACTION.redact
redact_text = REDACTION.redact_text


def find_secret(payload: object) -> str | None:
    """Give the path of the first secret in a payload, such as `$.auth.password`."""
    found = REDACTION.find(payload)
    return None if found is None else found.path
