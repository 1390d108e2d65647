"""The filter of dead letters, shared by listings, bulk changes and groups."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypedDict

from onward.core.inputs.fields import LONGEST, check_text
from onward.errors import InvalidSetting
from onward.operations.statement import Scalar, Statement

_LONGEST = {"group": 40, "error_class": 1000, **LONGEST}


class DeadFilter(TypedDict, total=False):
    """Fields that narrow dead letters; one that is absent or None does not. A group is a fingerprint."""

    job_type: str | None
    org_id: str | None
    subject: str | None
    error_class: str | None
    group: str | None


_NAMES = tuple(DeadFilter.__annotations__)


def narrowing(where: DeadFilter, *names: str) -> dict[str, Scalar]:
    """Return a filter as parameters; raise for an unknown field, which would otherwise match every letter."""
    given: Mapping[str, Any] = where
    known = names or _NAMES
    for name, value in given.items():
        if name not in known:
            raise InvalidSetting(f"dead letters are not narrowed by {name!r:.80}; by {', '.join(known)}")
        if value is not None:
            check_text(name, value, longest=_LONGEST[name])
    return {name: given.get(name) for name in known}


def listing(where: DeadFilter, page: Mapping[str, Scalar]) -> Statement:
    """Return the statement that lists dead letters by the index that fits the filter best."""
    asked = {**narrowing(where), **page}
    if asked["group"] is not None:
        return Statement("list_dead_of_group", asked)
    del asked["group"]
    if asked["subject"] is not None:
        return Statement("list_dead_of_subject", asked)
    return Statement("list_dead_letters", asked)


def picking(where: DeadFilter, page: Mapping[str, Scalar]) -> Statement:
    """Return the statement that reads the ids of unresolved ones by the index that fits the filter best."""
    asked = {**narrowing(where), **page}
    if asked["group"] is not None:
        return Statement("pick_dead_of_group", asked)
    del asked["group"]
    if asked["subject"] is not None:
        return Statement("pick_dead_of_subject", asked)
    return Statement("pick_dead_letters", asked)
