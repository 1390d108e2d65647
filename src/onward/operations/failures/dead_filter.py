"""How dead letters are found by their filter."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

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
        raise InvalidSetting(
            f"resolved is {where.resolved!r}; this call is only for unresolved dead letters, so leave it out"
        )
    return values


def listing(params: Mapping[str, Scalar]) -> Statement:
    """Return the statement that lists dead letters by the index that fits the conditions best."""
    if params["group"] is not None:
        return Statement("list_dead_of_group", params)
    if params["subject"] is not None:
        return Statement("list_dead_of_subject", _ungrouped(params))
    return Statement("list_dead_letters", _ungrouped(params))


def picking(params: Mapping[str, Scalar]) -> Statement:
    """Return the statement that finds the ids of unresolved dead letters, by the index that fits best."""
    if params["group"] is not None:
        return Statement("pick_dead_of_group", params)
    if params["subject"] is not None:
        return Statement("pick_dead_of_subject", _ungrouped(params))
    return Statement("pick_dead_letters", _ungrouped(params))


def _ungrouped(params: Mapping[str, Scalar]) -> dict[str, Scalar]:
    return {name: value for name, value in params.items() if name != "group"}
