"""The parameters of a handler and their types.

A function that could never be called from a payload is refused here.
"""

from __future__ import annotations

import inspect
import re
import types
import typing
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from typing import Any

from msgspec import inspect as inspected

from onward.errors import InvalidSetting
from onward.handlers.context.context import Context
from onward.handlers.hooks.resources import Resource

_KINDS = inspect.Parameter
_MODULES = re.compile(r"(?:[\w<>]+\.)+(?=\w)")
_TEXT_KEYS = (inspected.StrType, inspected.AnyType)


@dataclass(frozen=True, slots=True)
class Parameters:
    """The parameters that a payload fills, each with its resolved type.

    `open` means that the function accepts any other argument too; `hooks` are the options of their
    conversion. `resources` fill parameters that no payload fills.
    """

    parameters: list[inspect.Parameter]
    context: str | None
    open: bool
    shown: str
    hooks: dict[str, Any] = field(default_factory=dict)
    resources: dict[str, Resource[Any]] = field(default_factory=dict)


def read_parameters(function: Callable[..., Any]) -> Parameters:
    """Read the signature of a function; its annotations may be strings."""
    name = function.__name__
    hints = _hints(function)
    parameters: list[inspect.Parameter] = []
    contexts: list[str] = []
    resources: dict[str, Resource[Any]] = {}
    is_open = False
    for parameter in inspect.signature(function).parameters.values():
        _check_kind(name, parameter)
        hint = hints.get(parameter.name, Any)
        if _is_context(hint):
            contexts.append(parameter.name)
        elif isinstance(parameter.default, Resource):
            resources[parameter.name] = parameter.default
        elif parameter.kind is _KINDS.VAR_KEYWORD:
            is_open = True
        else:
            parameters.append(parameter.replace(annotation=Any if hint is object else hint))
    if len(contexts) > 1:
        raise InvalidSetting(f"{name}() takes a Context twice, as {' and '.join(contexts)}; drop one")
    context = contexts[0] if contexts else None
    hooks = _hooks(name, parameters)
    shown = _shown(function, {context, *resources}, hints)
    return Parameters(parameters, context, is_open, shown, hooks, resources)


def _hints(function: Callable[..., Any]) -> dict[str, Any]:
    # Without the return annotation: no payload needs it, and its name may exist for type checkers only.
    annotations = {name: hint for name, hint in function.__annotations__.items() if name != "return"}
    space = getattr(inspect.unwrap(function), "__globals__", {})
    try:
        return typing.get_type_hints(
            types.SimpleNamespace(__annotations__=annotations), space, include_extras=True
        )
    except Exception as error:
        raise InvalidSetting(
            f"{function.__name__}(): its annotations can't be resolved: {error}. Arguments are checked at "
            "run time: import their types at the top of the module, not under TYPE_CHECKING or in a function"
        ) from error


def _check_kind(name: str, parameter: inspect.Parameter) -> None:
    if parameter.kind is _KINDS.POSITIONAL_ONLY:
        raise InvalidSetting(
            f"{name}(): a payload names its arguments, and {parameter.name} is positional-only; drop the /"
        )
    if parameter.kind is _KINDS.VAR_POSITIONAL:
        raise InvalidSetting(
            f"{name}(): a payload names its arguments, and *{parameter.name} have no names; take a list"
        )


def _is_context(hint: Any) -> bool:
    if typing.get_origin(hint) in {typing.Annotated, typing.Union, types.UnionType}:
        return any(_is_context(part) for part in typing.get_args(hint))
    return isinstance(hint, type) and issubclass(hint, Context)


def _shown(function: Callable[..., Any], supplied: Collection[str | None], hints: dict[str, Any]) -> str:
    """Return the signature as its caller sees it: without what the worker supplies, nor modules of types."""
    signature = inspect.signature(function)
    parameters = [
        parameter.replace(
            annotation=_Shown(hints[parameter.name]) if parameter.name in hints else parameter.empty
        )
        for parameter in signature.parameters.values()
        if parameter.name not in supplied
    ]
    return str(signature.replace(parameters=parameters, return_annotation=signature.empty))


class _Shown:
    """A type in a signature, by the name that its author gave it."""

    def __init__(self, hint: Any) -> None:
        self._hint = hint

    def __repr__(self) -> str:
        return _MODULES.sub("", inspect.formatannotation(self._hint))


def _hooks(name: str, parameters: list[inspect.Parameter]) -> dict[str, Any]:
    """Return the options that the conversion needs, and refuse types that can't be read from JSON."""
    hooks: dict[str, Any] = {}
    for parameter in parameters:
        try:
            known = list(_within(inspected.type_info(parameter.annotation), set()))
        except Exception as error:
            raise InvalidSetting(f'{name}(): argument "{parameter.name}": {error}') from error
        for part in known:
            match part:
                # Keys of JSON are strings. Set only where needed: it doubles the time of a conversion.
                case inspected.DictType(key_type=key) if not isinstance(key, _TEXT_KEYS):
                    hooks["str_keys"] = True
                case inspected.CustomType(cls=cls) if cls is object or hasattr(cls, "model_validate"):
                    hooks["dec_hook"] = _validated
                case inspected.CustomType(cls=cls):
                    raise InvalidSetting(
                        f'{name}(): argument "{parameter.name}" can\'t be read from JSON as {cls.__name__}; '
                        "take its id, or a list, a dict or a dataclass"
                    )
    return hooks


def _within(part: Any, seen: set[int]) -> Iterator[inspected.Type]:
    """Yield a type and all types that it contains."""
    if isinstance(part, tuple):
        for item in part:
            yield from _within(item, seen)
    elif isinstance(part, inspected.Type | inspected.Field) and id(part) not in seen:
        seen.add(id(part))
        if isinstance(part, inspected.Type):
            yield part
        for name in part.__struct_fields__:
            yield from _within(getattr(part, name), seen)


def _validated(kind: type[Any], value: Any) -> Any:
    """Return a pydantic model, recognised by its method, since pydantic need not be installed."""
    if kind is object:
        return value
    try:
        return kind.model_validate(value)
    except ValueError as error:
        if not hasattr(error, "errors"):
            raise
        # Pydantic's own message would show the values, which may be secret.
        found = [f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in error.errors()]
        raise ValueError("; ".join(found)) from None
