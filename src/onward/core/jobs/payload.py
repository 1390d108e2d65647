"""Payloads as JSON text: what `encode` accepts comes back equal from `decode`, on every database.

Other values are refused before any SQL runs, since a failed statement would abort the caller's transaction.
The usual payload takes a fast path: encode, look for suspicious parts, decode, compare. Only a suspicious
payload is walked value by value. `lenient` is for results and errors, which must never block a job's end.
"""

from __future__ import annotations

import json
import math
import re
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from reprlib import Repr
from typing import Any, NamedTuple, NoReturn, cast

import msgspec

from onward.core.inputs.json_path import write_path
from onward.core.inputs.plain_text import kind_of
from onward.core.secrets.redaction import REDACTION, Redaction
from onward.errors import InvalidJob, PayloadRejected, PayloadTooLarge

CUT = "onward:cut"
"""The only key of the object that replaces what `lenient` leaves out."""

_TEXT = frozenset({str})
_PLAIN = frozenset({str, int, bool, type(None)})
_LEAST, _MOST = -(2**63), 2**64 - 1
_DEPTH = 64
_SHOWN = 80
_LONGEST_REPR = 4000
_MARGIN = 60

_to_json = msgspec.json.Encoder().encode
_from_json = msgspec.json.Decoder().decode

# jsonb writes a float of this size as a whole number of only the 17 digits sent: it comes back unequal.
_INTEGRAL_FROM, _INTEGRAL_END = 1e16, 1e20
_INTEGRAL_FLOAT = re.compile(rb"[0-9]e1[6-9]")
_LONG_NUMBER = re.compile(r"[0-9]{19}")
_DIGITS_TO_ZEROS = bytes.maketrans(b"123456789", b"000000000")
_LONG_RUN = b"0" * 19
_BAD_CHARACTER = re.compile("[\0\ud800-\udfff]")
_brief = Repr()


class _Fault(NamedTuple):
    """Why a value can't be stored, what to do about it, and what `lenient` writes in its place."""

    why: str
    advice: str
    mended: Callable[[], object]


@dataclass(frozen=True, slots=True, eq=False)
class _Node:
    """A value to copy, and the place in its parent's copy for the result."""

    value: object
    level: int
    parent: _Node | None
    key: Any
    target: Any


_Answer = Callable[[_Node, object, _Fault], object]
"""Handles a fault: raises, or returns a value to write instead."""


def require_arguments(payload: object) -> None:
    """Raise InvalidJob unless the payload of a job is a dict."""
    if not isinstance(payload, dict):
        raise InvalidJob(f"payload is {kind_of(payload)}; give a dict of arguments")


def encode(
    value: object,
    *,
    limit: int,
    depth: int = _DEPTH,
    what: str = "payload",
    redaction: Redaction = REDACTION,
) -> str:
    """Write a value as compact JSON; raise, with its path, for a part that would not come back equal."""
    try:
        raw = _to_json(value)
        fine = len(raw) > limit or (
            _is_unsuspicious(raw) and (_is_flat(value) or _comes_back(value, raw, depth))
        )
    except Exception:  # noqa: BLE001 - the walk below finds where the value's own methods raise
        fine = False
    if not fine:
        value = _plain_copy(value, depth, _refusal(what, redaction))
        raw = _to_json(value)
    if len(raw) > limit:
        raise PayloadTooLarge(
            f"{what} takes {len(raw)} bytes of JSON, most of it at {_largest_part(value)}; the limit is "
            f"{limit}: store the data elsewhere and pass a reference to it"
        )
    return raw.decode()


def encode_plain(values: Sequence[object], limit: int) -> list[str] | None:
    """Write many payloads at once; return None unless all of them are flat and small, the usual case."""
    if not {dict}.issuperset(map(type, values)):
        return None
    payloads = cast("Sequence[dict[Any, Any]]", values)
    if not (
        _TEXT.issuperset(map(type, chain.from_iterable(payloads)))
        and _PLAIN.issuperset(map(type, chain.from_iterable(map(dict.values, payloads))))
    ):
        return None
    try:
        raws = list(map(_to_json, payloads))
    except Exception:  # noqa: BLE001 - encoding them one by one then reports what is wrong
        return None
    # One payload per line, since JSON holds no bare line feed: one search over all is much cheaper than many.
    raw = b"\n".join(raws)
    if max(map(len, raws), default=0) > limit or not _is_unsuspicious(raw):
        return None
    return raw.decode().split("\n") if raws else []


def _is_unsuspicious(raw: bytes) -> bool:
    """Whether all text and numbers in the JSON are sure to come back unchanged."""
    return (
        b"\\u0000" not in raw
        and (b"e1" not in raw or _INTEGRAL_FLOAT.search(raw) is None)
        and _LONG_RUN not in raw.translate(_DIGITS_TO_ZEROS)
    )


def decode(text: str) -> Any:
    """Read JSON text from a database; a whole number that no payload may hold becomes a float again."""
    # Such a number has at most 17 digits before its trailing zeros, and looking for zeros first is cheap.
    if "000" in text and _LONG_NUMBER.search(text):
        return json.loads(text, parse_int=_whole_number)
    return _from_json(text)


def lenient(value: object, limit: int) -> str:
    """Write any value as JSON: replace what `encode` would refuse, and cut what is too large."""
    try:
        return encode(value, limit=limit)
    except Exception:  # noqa: BLE001 - a bad result must not block the end of its job
        try:
            return _cut_to(
                limit, _to_json(_plain_copy(value, _DEPTH, lambda _node, _value, fault: fault.mended()))
            )
        except Exception:  # noqa: BLE001 - a container's own methods may raise anything
            return _cut_to(limit, _to_json({CUT: "unreadable"}))


def _is_flat(value: object) -> bool:
    """Whether the payload is a flat dict of plain values, which need not be read back to compare."""
    return (
        type(value) is dict
        and _TEXT.issuperset(map(type, value))
        and _PLAIN.issuperset(map(type, value.values()))
    )


def _comes_back(value: object, raw: bytes, depth: int) -> bool:
    """Whether the JSON reads back as an equal value that is nested at most `depth` levels deep."""
    copy = _from_json(raw)
    # JSON with at most `depth` brackets can't be too deep. Check depth before `==`, which recurses.
    if len(raw) > 2 * depth and raw.count(b"[") + raw.count(b"{") > depth and _is_deeper(copy, depth):
        return False
    return bool(copy == value)


def _is_deeper(value: object, depth: int) -> bool:
    """Whether plain lists and dicts are nested deeper than `depth` levels; does not recurse."""
    level: list[Any] = [value] if isinstance(value, list | dict) else []
    for _ in range(depth):
        if not level:
            return False
        level = [
            child
            for parent in level
            for child in (parent.values() if type(parent) is dict else parent)
            if type(child) is dict or type(child) is list
        ]
    return bool(level)


def _whole_number(digits: str) -> int | float:
    """Return a whole number of JSON text as an int, or as a float if no payload may hold that int."""
    if len(digits) <= len(str(_MOST)) and _LEAST <= int(digits) <= _MOST:
        return int(digits)
    return float(digits)


def _plain_copy(root: object, depth: int, answer: _Answer) -> object:
    """Return a copy made of plain values; walks breadth first and does not recurse."""
    top: list[object] = [None]
    queue = deque([_Node(root, 1, None, 0, top)])
    while queue:
        node = queue.popleft()
        value = node.value
        fault = _nesting_fault(node, depth) or _fault(value)
        if fault:
            value = answer(node, value, fault)
        copy: Any
        if isinstance(value, dict):
            copy = {}
            for key, member in value.items():
                name = _plain_key(node, key, answer)
                copy[name] = None  # reserves the place, so that the keys keep their order
                queue.append(_Node(member, node.level + 1, node, name, copy))
        elif isinstance(value, list):
            copy = [None] * len(value)
            queue.extend(_Node(item, node.level + 1, node, n, copy) for n, item in enumerate(value))
        else:
            copy = _plain_leaf(value)
        node.target[node.key] = copy
    return top[0]


def _plain_key(node: _Node, key: object, answer: _Answer) -> str:
    """Return the key of an object as plain text."""
    if isinstance(key, str):
        fault = _fault(key)
    else:
        fault = _Fault("is a key and not text", "use text for keys", lambda: _clean(_repr(key)))
    return str(_plain_leaf(answer(node, key, fault) if fault else key))


def _plain_leaf(value: object) -> object:
    """Return text or a number as its plain built-in type, not a subclass."""
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, float):
        # ".0" keeps the number a float in jsonb, and writing all its digits keeps it the same float.
        return (
            msgspec.Raw(f"{int(value)}.0".encode())
            if _INTEGRAL_FROM <= abs(value) < _INTEGRAL_END
            else float(value)
        )
    return int(value) if isinstance(value, int) and not isinstance(value, bool) else value


def _nesting_fault(node: _Node, depth: int) -> _Fault | None:
    """Return the fault of a container that is nested too deep or contains itself."""
    if not isinstance(node.value, list | dict | tuple | set | frozenset):
        return None
    ancestor = node.parent
    while ancestor is not None:
        if ancestor.value is node.value:
            return _Fault("contains itself", "break the cycle", lambda: _cut("a cycle"))
        ancestor = ancestor.parent
    if node.level > depth:
        return _Fault(
            f"is nested deeper than {depth} levels", "flatten it", lambda: _cut(f"deeper than {depth} levels")
        )
    return None


def _fault(value: object) -> _Fault | None:
    """Return why a value, apart from its members, would not come back equal from JSON."""
    fault: _Fault | None = None
    match value:
        case None | bool() | list() | dict():
            pass
        case str():
            fault = _text_fault(value)
        case int():
            if not _LEAST <= value <= _MOST:
                fault = _Fault("is outside of -2**63 to 2**64-1", "send it as text", lambda: _repr(value))
        case float():
            if not math.isfinite(value):
                name = "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
                fault = _Fault("is no number in JSON", f'use null, or the text "{name}"', lambda: name)
        case bytes() | bytearray() | memoryview():
            fault = _Fault(
                "are not text", "use base64 text, or pass a reference", lambda: _bytes_as_text(value)
            )
        case tuple() | set() | frozenset():
            why = f"is {kind_of(value)} and would come back as a list"
            fault = _Fault(why, "use a list", lambda: [*value])
        case _:
            kind = type(value).__name__
            advice = _ADVICE.get(kind, "use plain JSON values: text, numbers, booleans, null, lists, dicts")
            fault = _Fault(
                f"is {kind_of(value)} and would not come back as one", advice, lambda: _clean(_repr(value))
            )
    return fault


def _text_fault(text: str) -> _Fault | None:
    bad = _BAD_CHARACTER.search(text)
    if bad is None:
        return None
    if bad[0] == "\0":
        why, advice = "a NUL character", "remove it, or use base64 text"
    else:
        why, advice = "half a surrogate pair", "decode its source as UTF-8"
    return _Fault(f"has {why} at position {bad.start()}", advice, lambda: _clean(text))


_ADVICE = {
    "Decimal": "use str(value)",
    "UUID": "use str(value)",
    "date": "use value.isoformat()",
    "datetime": "use value.isoformat()",
    "time": "use value.isoformat()",
    "timedelta": "use value.total_seconds()",
}


def _refusal(what: str, redaction: Redaction) -> _Answer:
    """Return a handler that raises PayloadRejected with the path, the value, the fault and the advice."""

    def refuse(node: _Node, value: object, fault: _Fault) -> NoReturn:
        keys = _keys(node)
        shown = _show(value, keys, redaction)
        path = write_path(redaction.redact_text(key) if isinstance(key, str) else key for key in keys)
        raise PayloadRejected(f"{what} at {path}: {shown} {fault.why}; {fault.advice}")

    return refuse


def _show(value: object, keys: list[object], redaction: Redaction) -> str:
    """Return enough of a value to recognise it, and nothing of a possible secret."""
    kind = type(value).__name__
    if isinstance(value, bytes | bytearray | memoryview):
        return f"{len(value)} {kind}"
    hidden = f"a {kind} (not shown)"
    if any(redaction.is_secret_name(key) for key in keys if isinstance(key, str)):
        return hidden
    if isinstance(value, str):
        bad = _BAD_CHARACTER.search(value)
        start = max(0, bad.start() - 8) if bad else 0
        return hidden if redaction.redact_text(value) != value else ascii(value[start : start + 17])
    shown = _brief.repr(value) if isinstance(value, list | dict | tuple | set | frozenset) else _repr(value)
    return hidden if redaction.redact_text(shown) != shown else ascii(shown[:_SHOWN])[1:-1]


def _repr(value: object) -> str:
    """Return the repr, cut to a bound; return a placeholder if the value's `__repr__` raises."""
    try:
        return repr(value)[:_LONGEST_REPR]
    except Exception:  # noqa: BLE001 - a foreign __repr__ may raise anything, and no error matters here
        return f"<{type(value).__name__} without a repr>"


def _keys(node: _Node) -> list[object]:
    """Return the keys that lead from the root to a value."""
    keys: list[object] = []
    place: _Node | None = node
    while place is not None and place.parent is not None:
        keys.append(place.key)
        place = place.parent
    return keys[::-1]


def _largest_part(value: object) -> str:
    """Return the path of the top-level member that takes the most bytes."""
    members: Iterable[tuple[object, object]] = ()
    if isinstance(value, dict):
        members = value.items()
    elif isinstance(value, list):
        members = enumerate(value)
    sizes = [(len(_to_json(member)), key) for key, member in members]
    return write_path([max(sizes, key=lambda size: size[0])[1]] if sizes else [])


def _clean(text: str) -> str:
    return _BAD_CHARACTER.sub("\ufffd", text)


def _bytes_as_text(value: bytes | bytearray | memoryview) -> str:
    return _clean(bytes(value).decode("utf-8", "backslashreplace"))


def _cut(why: str) -> msgspec.Raw:
    """Return the marker of a left-out part; it is raw so that the walk treats it as a leaf."""
    return msgspec.Raw(_to_json({CUT: why}))


def _cut_to(limit: int, raw: bytes) -> str:
    """Return the JSON, or a marker with its size and start if it takes more than `limit` bytes."""
    if len(raw) <= limit:
        return raw.decode()
    # Escaping at most doubles the start, and the rest of the marker is shorter than `_MARGIN`.
    start = raw[: max(0, limit - _MARGIN) // 2].decode("utf-8", "ignore")
    marker = _to_json({CUT: {"bytes": len(raw), "start": start}})
    return marker.decode() if len(marker) <= limit else "null"
