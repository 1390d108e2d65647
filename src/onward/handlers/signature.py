"""The arguments of a handler, read from its signature: payloads become arguments, and calls become payloads.

An enqueue checks a call just as the worker will, so a job that was accepted can run.
"""

from __future__ import annotations

import dataclasses
import hashlib
import inspect
import re
from collections.abc import Callable, Iterable, Mapping
from difflib import get_close_matches
from typing import Any

import msgspec

from onward.core.jobs.payload import encode
from onward.core.policy.category import MAX_PAYLOAD_BYTES
from onward.core.secrets.redaction import REDACTION, redact_text
from onward.errors import InvalidArguments, InvalidSetting, PayloadRejected
from onward.handlers.parameters import Parameters, read_parameters

# Types that are JSON values without conversion. Most arguments are, so they skip it.
_PLAIN = frozenset({str, int, bool, type(None)})
_CONTEXTS = frozenset({"ctx", "context"})
_PLACE = re.compile(r" - at `\$\.?(.*)`$", re.DOTALL)
_ADDRESS = re.compile(r" at 0x[0-9a-f]+")


class Signature:
    """The arguments of one function; `context` is the name of the parameter that takes the Context.

    `names` are the arguments. An `open` signature accepts any other argument too.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self.name = function.__name__
        read = read_parameters(function)
        self.context = read.context
        self.resources = read.resources
        self.text = f"{self.name}{read.shown}"
        self.open = read.open
        self.fingerprint: str | None = _fingerprint(read)
        self.names = [p.name for p in read.parameters]
        self._defaults = {
            p.name: default
            for p in read.parameters
            if p.default is not p.empty and (default := _stored(p.default)) is not msgspec.UNSET
        }
        self._positional = [p.name for p in read.parameters if p.kind is not p.KEYWORD_ONLY]
        self._required = [p.name for p in read.parameters if p.default is p.empty]
        self._form = _form(self.name, read)
        self._hooks = read.hooks
        self.arguments = self._choose()
        self._check = self._read if self.arguments == self._all else self.arguments

    def _choose(self) -> Callable[[Mapping[str, Any]], dict[str, Any]]:
        """Return the cheapest way from a payload to arguments: a worker takes it for every job."""
        if not self.names:
            return dict if self.open else self._nothing
        if self.open:
            return lambda payload: {**payload, **self._converted(payload)}
        if len(self._required) < len(self.names) or self._hooks:
            return self._converted
        return self._all

    def payload(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """Bind a call's arguments as the function would, and return them as JSON values."""
        payload = arguments = self._bound(args, kwargs) if args else dict(kwargs)
        if not _PLAIN.issuperset(map(type, arguments.values())):
            try:
                payload = msgspec.to_builtins(arguments, str_keys=True, enc_hook=_dumped)
                payload = {name: _listed(value) for name, value in payload.items()}
            except RecursionError:
                raise _too_deep(arguments) from None
            except (TypeError, ValueError, OverflowError):
                raise self._unstorable(arguments) from None
        self._check(payload)
        return payload

    def effective(self, payload: Mapping[str, Any]) -> dict[str, Any]:
        """Return a payload as it takes effect, as JSON values: as the handler gets it, with all defaults.

        A default that can't be written as JSON is left out.
        """
        try:
            arguments = _convert(payload, self._form, **self._hooks)
            _set_defaults(arguments)
            converted = _stored(arguments)
        except (msgspec.ValidationError, RecursionError):
            converted = {}
        return {**self._defaults, **payload, **({} if converted is msgspec.UNSET else converted)}

    def _bound(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        most = len(self._positional)
        if len(args) > most:
            raise self._refused(f"takes at most {most} positional arguments, but {len(args)} were given")
        arguments = dict(zip(self._positional, args, strict=False))
        for name in kwargs.keys() & arguments.keys():
            raise self._refused(f'was given the argument "{name}" twice')
        return {**arguments, **kwargs}

    def _all(self, payload: Mapping[str, Any]) -> dict[str, Any]:
        return _asdict(self._read(payload))

    def _read(self, payload: Mapping[str, Any]) -> Any:
        try:
            return _convert(payload, self._form)
        except msgspec.ValidationError as error:
            raise self._explained(payload, error) from None
        except RecursionError:
            raise _too_deep(payload) from None

    def _converted(self, payload: Mapping[str, Any]) -> dict[str, Any]:
        try:
            arguments = _asdict(_convert(payload, self._form, **self._hooks))
        except msgspec.ValidationError as error:
            raise self._explained(payload, error) from None
        except RecursionError:
            raise _too_deep(payload) from None
        if len(payload) == len(arguments) and not self.open:
            return arguments
        # Unset arguments are left to the function: their defaults need not be JSON.
        return {name: value for name, value in arguments.items() if value is not msgspec.UNSET}

    def _nothing(self, payload: Mapping[str, Any]) -> dict[str, Any]:
        if payload:
            raise self._unknown(next(iter(payload)))
        return {}

    def _explained(self, payload: Mapping[str, Any], error: Exception) -> InvalidArguments:
        if not self.open:
            for name in payload.keys() - set(self.names):
                return self._unknown(name)
        for name in self._required:
            if name not in payload:
                return self._refused(f'needs the argument "{name}".{self._context_hint(name)}')
        text = str(error)
        place = _PLACE.search(text)
        # The message of an enum contains the unknown value, which may be secret.
        text = redact_text(text[: place.start() if place else None], REDACTION.secrets_of(payload))
        message = " ".join(text.replace("`", "").split())
        return self._refused(f'argument "{place[1] if place else ""}": {message[:1].lower()}{message[1:]}')

    def _context_hint(self, name: str) -> str:
        """Return advice for an argument that was meant as the Context, which is recognised by its type."""
        if name not in _CONTEXTS or self._form.__annotations__.get(name) is not Any:
            return ""
        return f" If {name} is Onward's Context, annotate it: {name}: Context."

    def _unknown(self, name: str) -> InvalidArguments:
        near = get_close_matches(name, self.names, 1)
        advice = f' Did you mean "{near[0]}"?' if near else ""
        return self._refused(f'has no argument "{name}".{advice}')

    def _unstorable(self, arguments: Mapping[str, Any]) -> InvalidArguments:
        """Return an error for the argument that can't be stored as JSON."""
        for name, value in arguments.items():
            try:
                msgspec.to_builtins(value, str_keys=True, enc_hook=_dumped)
            except (TypeError, ValueError, OverflowError) as error:
                return self._refused(f'argument "{name}" can\'t be stored as JSON: {redact_text(str(error))}')
        return self._refused("was given arguments that can't be stored as JSON")

    def _refused(self, why: str) -> InvalidArguments:
        return InvalidArguments(f"{self.name}() {why}\n  signature: {self.text}")


_convert = msgspec.convert
_asdict = msgspec.structs.asdict


def _too_deep(arguments: Mapping[str, Any]) -> PayloadRejected:
    """Return the error for arguments that are nested too deep, or contain themselves, with the place."""
    try:
        encode(arguments, limit=MAX_PAYLOAD_BYTES)
    except PayloadRejected as error:
        return error
    return PayloadRejected("payload is nested too deep; flatten it")


def _form(name: str, read: Parameters) -> type[msgspec.Struct]:
    """Return one type for all parameters, so that a payload is checked in one call."""
    # UNSET is not a value of the field's type, but msgspec never checks defaults.
    fields: Iterable[Any] = (
        (p.name, p.annotation) if p.default is p.empty else (p.name, p.annotation, msgspec.UNSET)
        for p in read.parameters
    )
    try:
        return msgspec.defstruct(name, fields, kw_only=True, forbid_unknown_fields=not read.open)
    except (TypeError, ValueError) as error:
        raise InvalidSetting(f"{name}(): its parameters can't be read from a payload: {error}") from None


def _set_defaults(value: Any) -> None:
    """Set the defaults of all dataclasses in a value: a conversion leaves them to the class."""
    if isinstance(value, dict):
        for member in value.values():
            _set_defaults(member)
    elif isinstance(value, list | tuple | set | frozenset):
        for item in value:
            _set_defaults(item)
    elif dataclasses.is_dataclass(value):
        for field in dataclasses.fields(value):
            member = getattr(value, field.name)
            object.__setattr__(value, field.name, member)
            _set_defaults(member)
    elif isinstance(value, msgspec.Struct):
        for name in value.__struct_fields__:
            _set_defaults(getattr(value, name))


def _stored(value: Any) -> Any:
    """Return a value as JSON values, a set in a fixed order; UNSET for a value that can't be written so."""
    try:
        return msgspec.to_builtins(value, str_keys=True, enc_hook=_dumped, order="deterministic")
    except (TypeError, ValueError, OverflowError, RecursionError):
        return msgspec.UNSET


def _fingerprint(read: Parameters) -> str:
    """Return a digest of names and types, which says nothing of the values of defaults."""
    shown = sorted(
        f"{p.name}: {inspect.formatannotation(p.annotation)}{'' if p.default is p.empty else ' = …'}"
        for p in read.parameters
    )
    # The address of an object in a type differs from process to process.
    text = _ADDRESS.sub("", ", ".join([*shown, "**"] if read.open else shown))
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def _dumped(value: Any) -> Any:
    """Return a pydantic model as JSON values; recognised by its method, since pydantic is optional."""
    if hasattr(value, "model_dump") and not inspect.isclass(value):
        return value.model_dump(mode="json")
    raise TypeError(f"{type(value).__name__} is no type of JSON; give what identifies it, such as an id")


def _listed(value: Any) -> Any:
    """Return the value with every tuple as a list, as JSON would read it back."""
    if isinstance(value, list | tuple):
        return [_listed(item) for item in value]
    if isinstance(value, dict):
        return {name: _listed(item) for name, item in value.items()}
    return value
