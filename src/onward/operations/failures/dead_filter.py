"""How dead letters are found by their filter."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from onward.core.failures.dead_letter import DeadFilter
from onward.core.inputs.checks import check_kind
from onward.core.inputs.fields import LONGEST, check_text
from onward.errors import InvalidSetting
from onward.operations.statement import Scalar, Statement

_LONGEST = {"group": 40, "error_class": 1000, **LONGEST}
_RESOLVED = {"no": 0, "yes": 1, "any": None}


def conditions(where: DeadFilter) -> dict[str, Any]:
    """Return the conditions of a filter as statement parameters; raise InvalidSetting for invalid ones."""
    check_kind("where", where, DeadFilter, "give a DeadFilter, such as DeadFilter(job_type='mail')")
    values = msgspec.structs.asdict(where)
    resolved = values.pop("resolved")
    if not isinstance(resolved, str) or resolved not in _RESOLVED:
        raise InvalidSetting(f"resolved is {resolved!r:.80}; give one of {', '.join(_RESOLVED)}")
    for name, value in values.items():
        if value is not None:
            check_text(name, value, longest=_LONGEST[name])
    return {**values, "resolved": _RESOLVED[resolved]}


def unresolved(where: DeadFilter) -> dict[str, Any]:
    """Return the conditions of a filter that must be of unresolved dead letters."""
    values = conditions(where)
    if values.pop("resolved") != 0:
        raise InvalidSetting(f"resolved is {where.resolved!r}; this call is about unresolved dead letters")
    return values


def reading(verb: Literal["list", "pick"], values: Mapping[str, Scalar]) -> Statement:
    """Return the statement that finds dead letters by the index that fits the conditions best."""
    params = dict(values)
    if params["group"] is not None:
        return Statement(f"{verb}_dead_of_group", params)
    del params["group"]
    return Statement(
        f"{verb}_dead_letters" if params["subject"] is None else f"{verb}_dead_of_subject", params
    )
