"""Walks: work of several steps, each in a transaction of its own.

What a step has done stays done if a later step fails. A walk is a generator, as an operation is: it yields
its steps, receives the answer of each, and returns its own answer. An error of a step is raised at its
`yield`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator
from typing import Any, TypeVar

import msgspec

from onward.core.jobs.ids import JobId
from onward.operations.statement import Operation

T = TypeVar("T")


class Step(msgspec.Struct, frozen=True):
    """An operation that is run in its own transaction; `atomic` if it has several statements that write."""

    make: Callable[[], Operation[Any]]
    write: bool = True
    atomic: bool = False


class Rest(msgspec.Struct, frozen=True):
    """A pause between two steps."""

    seconds: float


class FollowUp(msgspec.Struct, frozen=True):
    """The follow-up work of ends that were just written, if the client may do it here."""

    ids: Collection[JobId]
    permits: Collection[str] = ()


Walk = Generator[Step | Rest | FollowUp, Any, T]


def reading(make: Callable[[], Operation[Any]]) -> Step:
    """Return the step of an operation that only reads."""
    return Step(make, write=False)
