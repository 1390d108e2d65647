"""Read the payload of `onward enqueue` from `key=value` words, JSON text, a file or the standard input."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from onward.core.inputs.plain_text import kind_of
from onward.errors import InvalidSetting

_Fits = Callable[[str, Any], bool]


def read_payload(source: str, option: str = "--payload") -> dict[str, Any]:
    """Read a JSON object: the text itself, `@file`, or `-` for the standard input."""
    try:
        if source == "-":
            text, name = sys.stdin.buffer.read(), "the standard input"
        elif source.startswith("@"):
            text, name = Path(source[1:]).read_bytes(), source[1:]
        else:
            text, name = source.encode(errors="surrogateescape"), option
    except OSError as error:
        raise InvalidSetting(f"can't read {source[1:]}: {error.strerror}") from None
    try:
        payload = msgspec.json.decode(text)
    except msgspec.DecodeError as error:
        raise InvalidSetting(f"{name} is not JSON: {error}") from None
    if not isinstance(payload, dict):
        raise InvalidSetting(f'{name} is {kind_of(payload)}; give a JSON object, such as {{"id": 42}}')
    return payload


def words_to_payload(words: Sequence[str], function: Callable[..., Any] | None) -> dict[str, Any]:
    """Read `key=value` words; a value is read as JSON if the parameter accepts that, else as text."""
    payload: dict[str, Any] = {}
    fits = _fitting(function)
    for word in words:
        key, equals, text = word.partition("=")
        if not equals or not key:
            raise InvalidSetting(f"{word!r:.80} is no argument; give key=value, such as booking_id=42")
        if key in payload:
            raise InvalidSetting(f'the argument "{key}" appears twice; give a list as {key}=[1,2]')
        payload[key] = _value(key, text, fits)
    return payload


def _value(key: str, text: str, fits: _Fits) -> Any:
    try:
        value = msgspec.json.decode(text.encode(errors="surrogateescape"))
    except msgspec.DecodeError:
        return text
    # For a `str` parameter 42 is the text "42". A value that fits neither way stays JSON, so that the error
    # message names the type that it looks like.
    return text if not fits(key, value) and fits(key, text) else value


def _fitting(function: Callable[..., Any] | None) -> _Fits:
    """Return a check of whether a parameter accepts a value; an unknown parameter accepts any."""
    if function is None:
        return lambda _key, _value: True
    from onward.handlers.parameters import read_parameters

    read = read_parameters(function)
    kinds = {parameter.name: parameter.annotation for parameter in read.parameters}

    def fits(key: str, value: Any) -> bool:
        try:
            msgspec.convert(value, kinds.get(key, Any), **read.hooks)
        except (msgspec.ValidationError, ValueError, TypeError):
            return False
        return True

    return fits
