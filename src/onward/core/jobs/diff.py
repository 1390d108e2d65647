"""Edits of a payload: applying a patch, and listing the changes.

A list of changes shows no secrets and has a bounded size.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

from onward.core.inputs.json_path import write_path
from onward.core.jobs.payload import CUT, decode, lenient
from onward.core.secrets.patterns import MASK
from onward.core.secrets.redaction import REDACTION, Redaction

MOST_CHANGES = 100
_LARGEST = 1000

_ABSENT = object()

Trail = tuple[str | int, ...]
Change = dict[str, Any]


def patched(payload: object, patch: object) -> Any:
    """Apply a JSON merge patch (RFC 7396): objects are merged, null removes a key, other values replace."""
    if not isinstance(patch, Mapping):
        return patch
    made = dict(payload) if isinstance(payload, Mapping) else {}
    for key, value in patch.items():
        if value is None:
            made.pop(key, None)
        else:
            made[key] = patched(made.get(key), value)
    return made


def diff(before: object, after: object, *, redaction: Redaction = REDACTION) -> list[Change]:
    """Return the differences between two payloads, each with `path`, `before` and `after`.

    A value that was added has no `before`, a removed one has no `after`. Values that are too large are cut.
    Beyond `MOST_CHANGES` changes, a last entry holds the number of changes that were left out.
    """
    found = list(_differences(before, after, ()))
    secrets = redaction.secrets_of(before) | redaction.secrets_of(after)
    made = [_change(*one, redaction, secrets) for one in found[:MOST_CHANGES]]
    return [*made, {CUT: len(found) - MOST_CHANGES}] if len(found) > MOST_CHANGES else made


def options_diff(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[Change]:
    """Return the options that differ, by name; an option's name never looks like a path in a payload."""
    return [
        {"path": name, "before": before[name], "after": value}
        for name, value in after.items()
        if before[name] != value
    ]


def _differences(before: object, after: object, trail: Trail) -> Iterator[tuple[Trail, object, object]]:
    if isinstance(before, dict) and isinstance(after, dict):
        # Sorted, since a database may return the keys in another order than the payload had.
        for key in sorted({*before, *after}):
            yield from _differences(before.get(key, _ABSENT), after.get(key, _ABSENT), (*trail, key))
    elif isinstance(before, list) and isinstance(after, list):
        for at in range(max(len(before), len(after))):
            old, new = (items[at] if at < len(items) else _ABSENT for items in (before, after))
            yield from _differences(old, new, (*trail, at))
    # In Python True equals 1, but as JSON they differ.
    elif type(before) is not type(after) or before != after:
        yield trail, before, after


def _change(
    trail: Trail, before: object, after: object, redaction: Redaction, secrets: Collection[str]
) -> Change:
    keys = [redaction.redact_text(key, secrets) if isinstance(key, str) else key for key in trail]
    values = {"before": before, "after": after}
    return {"path": write_path(keys)} | {
        name: decode(lenient(_hidden(trail, value, redaction, secrets), _LARGEST))
        for name, value in values.items()
        if value is not _ABSENT
    }


def _hidden(trail: Trail, value: object, redaction: Redaction, secrets: Collection[str]) -> Any:
    """Redact a value in its place: the names of the keys above it may mark it as a secret."""
    nested: Any = value
    for key in reversed(trail):
        nested = {key: nested} if isinstance(key, str) else [nested]
    hidden = redaction.redact(nested, secrets)
    for _ in trail:
        [hidden] = hidden.values() if isinstance(hidden, dict) else hidden
    return hidden


def masked_path(new: object, old: object) -> str | None:
    """Return where a new payload holds the mask of a secret that the old one does not hold there."""
    trail = _masked(new, old, ())
    return None if trail is None else write_path(trail)


def _masked(new: object, old: object, trail: Trail) -> Trail | None:
    if isinstance(new, str):
        return trail if MASK in new and new != old else None
    for key, value in _items(new):
        known = dict(_items(old)).get(key)
        if (found := _masked(value, known, (*trail, key))) is not None:
            return found
    return None


def _items(value: object) -> Iterable[tuple[Any, object]]:
    if isinstance(value, Mapping):
        return value.items()
    return enumerate(value) if isinstance(value, list | tuple) else ()
