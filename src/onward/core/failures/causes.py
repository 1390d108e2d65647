"""The chain of an error's causes, and the members of an exception group.

Every walk is bounded, and reads attributes with `peek`, which never raises.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from onward.core.failures.http_response import HttpAnswer, answer_of, peek
from onward.core.work.error_record import message_of

_DEEPEST = 8
_MOST_LEAVES = 50
_LONGEST_SEARCHED = 10_000


@dataclass(frozen=True)
class Seen:
    """One error of a chain.

    It is `incidental` if the chain reaches it through an error that was being handled (`__context__`), not
    only through stated causes.

    `names` are its classes, each with its package, such as `httpx.TimeoutException`.
    """

    error: BaseException
    names: frozenset[str]
    incidental: bool = False

    @cached_property
    def message(self) -> str:
        """Its message, cut to the length that patterns are searched in."""
        return message_of(self.error)[:_LONGEST_SEARCHED]

    @cached_property
    def answer(self) -> HttpAnswer | None:
        """The HTTP answer that the error carries; None if it carries none."""
        return answer_of(self.error)

    @cached_property
    def text(self) -> str:
        """The text that patterns are searched in: the message, and the start of a body that was read."""
        body = self.answer.body[:_LONGEST_SEARCHED] if self.answer is not None else ""
        return f"{self.message}\n{body}" if body else self.message

    @property
    def status(self) -> int | None:
        """The HTTP status that the error carries."""
        return None if self.answer is None else self.answer.status


def causes(error: BaseException) -> list[Seen]:
    """Return an error and its causes, outermost first; the list is bounded, also if the chain is circular."""
    found: list[Seen] = []
    known: set[int] = set()
    incidental = False
    current: object = error
    while isinstance(current, BaseException) and id(current) not in known and len(found) < _DEEPEST:
        known.add(id(current))
        found.append(Seen(current, _names(current), incidental))
        inner = sole(current)
        cause = peek(current, "__cause__") if inner is current else inner
        if cause is None and not peek(current, "__suppress_context__"):
            cause, incidental = peek(current, "__context__"), True
        current = cause
    return found


def sole(error: BaseException) -> BaseException:
    """Return the only member of a group, else the error itself: a task group wraps even a single error."""
    for _ in range(_DEEPEST):
        inner = _members(error)
        if len(inner) != 1:
            break
        error = inner[0]
    return error


def leaves(error: BaseException) -> list[BaseException]:
    """Return the errors in a group and in the groups nested in it; the walk stops after 50 errors."""
    found: list[BaseException] = []
    work = [error]
    for _ in range(_MOST_LEAVES):
        if not work:
            break
        current = work.pop(0)
        inner = _members(current)
        work += inner
        if not inner:
            found.append(current)
    return found


def _members(error: BaseException) -> Sequence[BaseException]:
    if not issubclass(type(error), BaseExceptionGroup):
        return ()
    inner = peek(error, "exceptions")
    return inner if isinstance(inner, tuple) else ()


def _names(error: BaseException) -> frozenset[str]:
    # Names avoid importing every driver and client; only the package counts, since libraries move modules.
    kinds = type(error).__mro__
    return frozenset(f"{str(kind.__module__).partition('.')[0]}.{kind.__name__}" for kind in kinds)
